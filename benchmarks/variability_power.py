"""Measure the smallest slow-downs that `variability` finds in 95 of 100 seeds.

    PYTHONPATH=. python benchmarks/variability_power.py [--rounds 100] [--noise 0.02] [--seeds 100]

The runs are those of `tests/tools/varied_run.py`: two ranks with two streams each, which run four
kernels in each round of 100 us, each with noise of its own. Slow is one rank, one stream, a fifth of the
rounds on one rank, one window of 1/40 of them, or one launch. Found means that it is named, in the
middle of its time; nothing else of that sort may be. Clean runs come first.
"""

from __future__ import annotations

import argparse
import tempfile
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

import pasta
from pasta.testing import write_trace
from tests.tools.varied_run import EPOCH, PERIOD, varied_run

TRIED = (0.0025, 0.005, 0.0075, 0.01, 0.0125, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2, 0.3)  # fmt: skip
WANTED = 0.95
Tables = dict[str, pl.DataFrame]


def tables(seeds: int, rounds: int, noise: float, **cause: Any) -> Tables:
    """Return what the tool gives for runs of all seeds."""
    with tempfile.TemporaryDirectory() as folder:
        runs = [varied_run(seed, rounds=rounds, noise=noise, **cause) for seed in range(seeds)]
        traces = [write_trace(Path(folder) / f"{n}", **run).path for n, run in enumerate(runs)]
        return pasta.run("variability", trace=traces, top=10 * seeds).tables


def at(found: Tables, rounds: int) -> pl.DataFrame:
    """Return the periods of rank 1 that hold the middle of the run."""
    middle = EPOCH + rounds * PERIOD // 2
    periods = found["periods"]
    return periods.filter(pl.col("begin") <= middle, pl.col("end") > middle, who="rank 1")


def causes(
    rounds: int,
) -> dict[str, tuple[Callable[[float], dict[str, Any]], Callable[[Tables], pl.DataFrame]]]:
    """Return for each cause what plants it, and the rows that name it."""
    middle, fifth, one = rounds // 2, rounds // 10, max(rounds // 80, 1)
    return {
        "one rank": (
            lambda factor: {"slow_rank": {1: factor}},
            lambda found: found["at.slow_devices"].filter(who="rank 1"),
        ),
        "one stream": (
            lambda factor: {"slow_stream": {(1, 1): factor}},
            lambda found: found["at.slow_streams"].filter(who="rank 1", stream=8),
        ),
        "a fifth of the time": (
            lambda factor: {"slow_rounds": (1, range(middle - fifth, middle + fifth), factor)},
            lambda found: at(found, rounds),
        ),
        "a fortieth of the time": (
            lambda factor: {"slow_rounds": (1, range(middle - one, middle + one), factor)},
            lambda found: at(found, rounds),
        ),
        "one launch": (
            lambda factor: {"slow_launch": (1, middle, factor)},
            lambda found: found["kernels"].filter(name="gemm", outliers=1),
        ),
    }  # fmt: skip


def measure(seeds: int, rounds: int, noise: float) -> None:
    """Print what is found in clean runs, and by bisection the smallest slow-down that suffices."""
    clean = tables(seeds, rounds, noise)
    alarms = sum(rows.height for name, rows in clean.items() if name != "kinds")
    print(f"noise {noise:.1%}: {alarms} findings in {seeds} clean runs", flush=True)
    for name, (plant, named) in causes(rounds).items():

        def suffices(growth: float, plant: Any = plant, named: Any = named) -> bool:
            found = named(tables(seeds, rounds, noise, **plant(1 + growth)))
            return bool(found["trace"].n_unique() >= WANTED * seeds)

        place = bisect_left(TRIED, x=True, key=suffices)
        least = f"{TRIED[place]:.2%}" if place < len(TRIED) else f"above {TRIED[-1]:.0%}"
        print(f"noise {noise:.1%}, {rounds} rounds, {name}: {least}", flush=True)


def main() -> None:
    """Measure for each noise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--noise", type=float, nargs="+", default=[0.02])
    given = parser.parse_args()
    for noise in given.noise:
        measure(given.seeds, given.rounds, noise)


if __name__ == "__main__":
    main()
