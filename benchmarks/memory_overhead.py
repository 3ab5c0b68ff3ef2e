"""What watching the memory of kernels costs a PyTorch program on a GPU, level by level.

    python benchmarks/memory_overhead.py WORKLOAD --rounds 5

WORKLOAD is a program like those of `benchmarks/overhead.py`: it takes `--mode`, `--scale`, `--iters`
and `--out FILE`, into which it writes `{"iters": [milliseconds, ...]}`, and has a class
`EncoderLayer(width, heads, hidden)`. Each process runs it in four settings, one after the other, and
then training steps of a transformer that keeps the GPU busy, in single and in half precision. Every
variant runs once in each round, in turn; printed is the median over the rounds of each round's median
iteration divided by that without a collector, with the least and the most. What each round measured goes
to stderr when it ends. A variant is what follows `pasta collect --with`, options too:
`--variants "cuda.memory:access --records counted"`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SETTINGS = {
    "inference": ["--mode", "infer"],
    "training": ["--mode", "train"],
    "inference x8": ["--mode", "infer", "--scale", "8"],
    "training x8": ["--mode", "train", "--scale", "8"],
}
PRECISIONS = {"GPU-bound, fp32": False, "GPU-bound, bf16": True}
BARE = "bare"

Medians = dict[str, float]
"""Setting -> median time of an iteration in ms."""


def main() -> None:
    """Run all variants in turn and print a table; or, in a process of a variant, the settings."""
    arguments = _arguments()
    if arguments.out:
        medians = dict(_measured(arguments.workload, arguments.iterations, arguments.settings))
        Path(arguments.out).write_text(json.dumps(medians), encoding="utf-8")
        return
    variants = [BARE, *arguments.variants.split(",")]
    rounds = []
    for _ in range(arguments.rounds):
        rounds.append({variant: _run(variant, arguments) for variant in variants})
        print(json.dumps(rounds[-1]), file=sys.stderr, flush=True)
    print(f"{arguments.rounds} rounds, {arguments.iterations} iterations of each setting")
    settings = list(rounds[0][BARE])
    print(f"| | {' | '.join(settings)} |")
    print(f"| --- |{' --- |' * len(settings)}")
    bare = (f"{statistics.median(r[BARE][s] for r in rounds):.2f} ms" for s in settings)
    print(f"| bare | {' | '.join(bare)} |")
    for variant in variants[1:]:
        print(f"| {variant} | {' | '.join(_beside(rounds, variant, s) for s in settings)} |")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("workload", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--variants", default="cuda.memory:touch,cuda.memory:counts")
    parser.add_argument(
        "--settings", default=",".join([*SETTINGS, *PRECISIONS]).replace(", ", "; ")
    )
    parser.add_argument("--out", help=argparse.SUPPRESS)
    return parser.parse_args()


def _beside(rounds: list[dict[str, Medians]], variant: str, setting: str) -> str:
    ratios = [r[variant][setting] / r[BARE][setting] for r in rounds if setting in r[variant]]
    if not ratios:
        return "-"
    return f"{statistics.median(ratios):.2f}x ({min(ratios):.2f}-{max(ratios):.2f})"


def _run(variant: str, arguments: argparse.Namespace) -> Medians:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "medians.json")
        options = [f"--iterations={arguments.iterations}", f"--settings={arguments.settings}"]
        command = [sys.executable, __file__, str(arguments.workload), *options, f"--out={out}"]
        if variant != BARE:
            collect = [
                "-m",
                "pasta",
                "collect",
                "--with",
                *variant.split(),
                "-o",
                f"{folder}/trace",
                "--",
            ]
            command = [sys.executable, *collect, *command]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ)
        medians: Medians = json.loads(out.read_text(encoding="utf-8"))
        return medians


def _measured(path: Path, iterations: int, wanted: str) -> Iterator[tuple[str, float]]:
    specification = importlib.util.spec_from_file_location("workload", path)
    workload: Any = importlib.util.module_from_spec(specification)  # type: ignore[arg-type]
    specification.loader.exec_module(workload)  # type: ignore[union-attr]
    names = [name.strip().replace("; ", ", ") for name in wanted.split(",")]
    for name in names:
        if name in SETTINGS:
            yield name, _of_program(workload, [*SETTINGS[name], "--iters", str(iterations)])
        else:
            yield name, _of_steps(_transformer(workload, half=PRECISIONS[name]), iterations)


def _of_program(workload: Any, options: list[str]) -> float:
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        sys.argv = ["workload", *options, "--out", out.name]
        workload.main()
        return statistics.median(json.loads(Path(out.name).read_text(encoding="utf-8"))["iters"])


def _of_steps(step: Callable[[], None], iterations: int) -> float:
    import torch

    times = []
    for _ in range(iterations + 2):
        torch.cuda.synchronize()
        began = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times[2:])


def _transformer(workload: Any, *, half: bool) -> Callable[[], None]:
    """Return a training step of two encoder layers of width 1024 on 16 sequences of 512 tokens."""
    import torch

    layers = [workload.EncoderLayer(1024, 16, 4096) for _ in range(2)]
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    tokens = torch.randn(16, 512, 1024, device="cuda")

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            loss = model(tokens).float().square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


if __name__ == "__main__":
    main()
