"""What collecting costs a program: each level, plain torch.profiler and cProfile, beside no collector.

    python benchmarks/overhead.py PROGRAM --rounds 5 -- --device cpu --mode train --iters 50

PROGRAM is a Python program that takes `--out FILE` and writes `{"iters": [milliseconds, ...]}` into
it. Every variant runs once in each round, in turn. For each variant it prints the median and the
mean time of an iteration (the mean with what a profiler takes to stop and to write its trace) and
the time of the program's process, beside those without a collector of the same round (median over
rounds, least and most in brackets), and what the collectors counted of their own cost. Needs PyTorch where pasta runs, or `--python` for the program's interpreter.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

PROFILED = """
import runpy, sys, time
from torch.profiler import profile
sys.argv = sys.argv[1:]
with profile(record_shapes=True, profile_memory=True) as profiler:
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit:
        pass
    began = time.perf_counter()
out = sys.argv[sys.argv.index("--out") + 1]
profiler.export_chrome_trace(out + ".trace.json")
open(out + ".after", "w").write(str(time.perf_counter() - began))
"""


@dataclass
class Runs:
    """What the runs of one variant took."""

    medians: list[float] = field(default_factory=list)
    means: list[float] = field(default_factory=list)
    totals: list[float] = field(default_factory=list)
    costs: dict[str, list[float]] = field(default_factory=dict)


def main() -> None:
    """Run all variants in turn and print a table."""
    arguments = _arguments()
    results = {name: Runs() for name in ["bare", *arguments.variants.split(",")]}
    for _ in range(arguments.rounds):
        for name, runs in results.items():
            _run(name, arguments, runs)
    print(f"{arguments.rounds} rounds of: {arguments.program.name} {' '.join(arguments.rest)}")
    print("| | median iteration | mean iteration | the program | its own count, s |")
    print("| --- | --- | --- | --- | --- |")
    bare = results["bare"]
    for name, runs in results.items():
        costs = ", ".join(
            f"{cost} {statistics.median(values):.2f}" for cost, values in runs.costs.items()
        )
        columns = [
            _beside(runs.medians, bare.medians, "ms"),
            _beside(runs.means, bare.means, "ms"),
            _beside(runs.totals, bare.totals, "s"),
        ]
        print(f"| {name} | {' | '.join(columns)} | {costs} |")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--python", default=sys.executable, help="the program's interpreter")
    parser.add_argument(
        "--variants",
        default="cProfile,torch.profiler,idle,torch:operators,torch:timeline,torch:touch",
    )
    own, _, rest = " ".join(sys.argv[1:]).partition(" -- ")
    return parser.parse_args(own.split(), argparse.Namespace(rest=rest.split()))


def _run(name: str, arguments: argparse.Namespace, runs: Runs) -> None:
    """Run one variant once and keep what it took."""
    with tempfile.TemporaryDirectory() as folder:
        out, trace = Path(folder, "out.json"), Path(folder, "trace")
        program = [str(arguments.program), *arguments.rest, "--out", str(out)]
        python = arguments.python
        collect = [sys.executable, "-m", "pasta", "collect", "-o", str(trace)]
        if name == "bare":
            command = [python, *program]
        elif name == "cProfile":
            command = [python, "-m", "cProfile", "-o", str(Path(folder, "profile")), *program]
        elif name == "torch.profiler":
            command = [python, "-c", PROFILED, *program]
        elif name == "idle":
            command = [*collect, "--idle", "--", python, *program]
        else:
            command = [*collect, "--with", name, "--", python, *program]
        began = time.perf_counter()
        subprocess.run(
            command,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=_environment(),
        )
        took = time.perf_counter() - began
        runs.totals.append(_program_seconds(trace) if trace.exists() else took)
        iterations = json.loads(out.read_bytes())["iters"]
        runs.medians.append(statistics.median(iterations))
        runs.means.append((sum(iterations) + _after(out)) / len(iterations))
        if trace.exists():
            _add_costs(trace, runs.costs)


def _program_seconds(trace: Path) -> float:
    """Return how long the program ran, without pasta's own start and end."""
    import polars as pl

    import pasta

    lasted = (pl.col("ended") - pl.col("started")).filter(pl.col("exit_code").is_not_null())
    return float(pasta.open(trace).scan("process").select(lasted).collect().item()) / 1e9


def _after(out: Path) -> float:
    """Return what the profiler took after the last iteration, in ms; pasta pays as it goes."""
    told = out.with_name(f"{out.name}.after")
    return float(told.read_text()) * 1e3 if told.exists() else 0.0


def _environment() -> dict[str, str]:
    return {**os.environ, "KINETO_LOG_LEVEL": "6"}


def _add_costs(trace: Path, costs: dict[str, list[float]]) -> None:
    """Add what collectors and receiver counted, and what a first tool on the trace takes."""
    import polars as pl

    import pasta

    opened = pasta.open(trace)
    if opened.files("metric"):
        spent = opened.scan("metric").filter(pl.col("name").str.starts_with("pasta."))
        sums = spent.group_by("name").agg(pl.col("value").sum()).sort("name").collect()
        for name, value in sums.iter_rows():
            costs.setdefault(name.removeprefix("pasta."), []).append(value)
    costs.setdefault("write", []).append(opened.info["spent"]["write_seconds"])
    began = time.perf_counter()
    pasta.run("summary", trace)
    costs.setdefault("analyse", []).append(time.perf_counter() - began)


def _beside(values: list[float], bare: list[float], unit: str) -> str:
    ratios = sorted(value / base for value, base in zip(values, bare, strict=True))
    ratio = statistics.median(ratios)
    return (
        f"{statistics.median(values):.2f} {unit}, {ratio:.2f}x ({ratios[0]:.2f}-{ratios[-1]:.2f})"
    )


if __name__ == "__main__":
    main()
