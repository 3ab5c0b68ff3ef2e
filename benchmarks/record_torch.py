"""Measure what the PyTorch recorder adds to each operator, and what `annotate` costs.

python benchmarks/record_torch.py
"""

from __future__ import annotations

import contextlib
import platform
import shutil
import statistics
import sys
import tempfile
import time
import timeit
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

import pasta
from pasta.collect.torch import record

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import record_training_step as example

REPEATS = 7
CALLS = 5000


def seconds(work: Callable[[], object]) -> float:
    """Return the least of `REPEATS` durations of `work`."""
    durations = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        durations.append(time.perf_counter() - start)
    return min(durations)


def cost_of(operator: Callable[[], object]) -> tuple[float, float]:
    """Return the microseconds of one call, alone and recorded."""

    def calls() -> None:
        for _ in range(CALLS):
            operator()

    alone = seconds(calls) / CALLS * 1e6
    with recording():
        recorded = seconds(calls) / CALLS * 1e6
    return alone, recorded


@contextlib.contextmanager
def recording() -> Iterator[None]:
    """Record into a folder that is thrown away."""
    folder = Path(tempfile.mkdtemp())
    try:
        with record("cost", folder / "trace"):
            yield
    finally:
        shutil.rmtree(folder)


def training() -> tuple[float, float]:
    """Return the milliseconds of the example's three steps, alone and recorded, as medians."""
    torch.manual_seed(0)
    model = example.GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

    def times() -> float:
        durations = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            example.train(model, optimizer)
            durations.append((time.perf_counter() - start) * 1e3)
        return statistics.median(durations)

    times()
    alone = times()
    with recording():
        return alone, times()


def main() -> None:
    """Print the figures."""
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, Python {platform.python_version()}, one thread")
    a, b, views = torch.ones(64, 64), torch.ones(64, 64), torch.ones(64, 192)
    operators = {
        "view": lambda: a.view(4096),
        "add": lambda: a + b,
        "add_": lambda: a.add_(b),
        "add of two slices": lambda: views[:, :64] + views[:, 64:128],
    }
    for name, operator in operators.items():
        alone, recorded = cost_of(operator)
        print(f"{name:<20} {alone:7.1f} us alone {recorded:7.1f} us recorded")
    alone, recorded = training()
    print(f"{'three GPT steps':<20} {alone:7.1f} ms alone {recorded:7.1f} ms recorded")
    empty = timeit.timeit("pass", number=10**6)
    with_range = timeit.timeit(
        "with annotate('x'): pass", globals={"annotate": pasta.annotate}, number=10**6
    )
    print(f"annotate, nothing records: {(with_range - empty) * 1e3:.0f} ns")


if __name__ == "__main__":
    main()
