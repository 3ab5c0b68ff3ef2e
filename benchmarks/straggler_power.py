"""Measure the smallest slow-down of one rank that `stragglers` finds in 95 of 100 seeds.

    PYTHONPATH=. python benchmarks/straggler_power.py [--steps 20] [--noise 0.01 0.02 0.05] [--seeds 100]

The runs are those of `tests/tools/ranks_run.py`: eight ranks that compute 0.95 ms before each of
three allreduces a step, each kernel with noise of its own. Found means that the slow rank, and no
other, is named, and as slow. Clean runs, in which nothing may be found, come first.
"""

from __future__ import annotations

import argparse
import tempfile
from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path

import polars as pl

import pasta
from pasta.testing import write_trace
from tests.tools.ranks_run import ranks_run

SLOW_RANK = 3
TRIED = (0.0025, 0.005, 0.0075, 0.01, 0.0125, 0.015, 0.02, 0.025, 0.03, 0.04, 0.06, 0.08)
WANTED = 0.95


def named(seeds: int, steps: int, noise: float, slow: Mapping[int, float]) -> list[list[str]]:
    """Return, of each run in which any rank is found, what is found."""
    with tempfile.TemporaryDirectory() as folder:
        runs = [ranks_run(seed, steps=steps, noise=noise, slow=slow) for seed in range(seeds)]
        traces = [write_trace(Path(folder) / f"{n}", **run).path for n, run in enumerate(runs)]
        ranks = pasta.run("stragglers", trace=traces).tables["ranks"]
    late = ranks.filter(pl.col("straggles")).select("trace", pl.format("{} {}", "rank", "cause"))
    return late.group_by("trace").agg(pl.col("rank"))["rank"].to_list()


def measure(seeds: int, steps: int, noise: float) -> None:
    """Print what is found in clean runs, and the smallest slow-down that suffices, by bisection."""
    alarms = len(named(seeds, steps, noise, {}))
    print(f"noise {noise:.1%}: something found in {alarms} of {seeds} clean runs", flush=True)

    def suffices(growth: float) -> bool:
        found = named(seeds, steps, noise, {SLOW_RANK: 1 + growth}).count([f"{SLOW_RANK} slow"])
        print(f"noise {noise:.1%}: {growth:.2%} found in {found} of {seeds}", flush=True)
        return found >= WANTED * seeds

    bisect_left(TRIED, x=True, key=suffices)


def main() -> None:
    """Measure for each noise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--noise", type=float, nargs="+", default=[0.01, 0.02, 0.05])
    given = parser.parse_args()
    for noise in given.noise:
        measure(given.seeds, given.steps, noise)


if __name__ == "__main__":
    main()
