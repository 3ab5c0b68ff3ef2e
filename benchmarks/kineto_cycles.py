"""What cycles of PyTorch's profiler cost: getting events out of it, turning, and importing.

    python benchmarks/kineto_cycles.py [--device cuda]

For cycles of several sizes: the work without a profiler and in a cycle, the end of the cycle, writing its
file (what `timeline` does), reading all its events through Python's objects instead (`events()`),
and importing the file in another process's stead. Medians of several rounds, all variants in
turn. Needs PyTorch where pasta runs.
"""

# ruff: noqa: SLF001 - PyTorch has no public names for a profiler in cycles

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("KINETO_LOG_LEVEL", "6")

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.autograd import ProfilerActivity, ProfilerConfig, ProfilerState

from pasta.collect.cycles import Cycles
from pasta.collect.target.torch.kineto import _without_events
from pasta.trace_writer import PartWriter

ROUNDS = 7
STEPS = (0, 1, 10, 100)


def main() -> None:
    """Measure cycles of several sizes and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    work = _work(arguments.device)
    work(5)
    _cycle(work, 1, arguments.device, _without_events())
    print(f"torch {torch.__version__}, {arguments.device}; ms, medians of {arguments.rounds}")
    print(
        "| events | file, MB | work alone | in a cycle | begin | end | write the file"
        " | read events() instead | import | import, MB/s |"
    )
    print(f"|{' --- |' * 10}")
    for steps in STEPS:
        rows = [_measure(work, steps, arguments.device) for _ in range(arguments.rounds)]
        columns = [statistics.median(column) for column in zip(*rows, strict=True)]
        events, size, *milliseconds, imported = columns
        rate = size / imported * 1000
        texts = [f"{events:.0f}", f"{size:.2f}", *(f"{ms:.1f}" for ms in milliseconds)]
        print(f"| {' | '.join(texts)} | {imported:.1f} | {rate:.0f} |")


def _work(device: str) -> Callable[[int], None]:
    """Return what trains a small network for a number of steps."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(64, 64) for _ in range(8)]
    model = torch.nn.Sequential(*layers).to(device)
    inputs = torch.randn(8, 64, device=device)

    def work(steps: int) -> None:
        for _ in range(steps):
            model(inputs).sum().backward()
        if device != "cpu":
            torch.cuda.synchronize()

    return work


def _measure(work: Callable[[int], None], steps: int, device: str) -> list[float]:
    """Return events, MB, and ms: alone, in a cycle, begin, end, write, events(), import."""
    alone = _milliseconds(lambda: work(steps))
    result, _ = _cycle(work, steps, device, _ExperimentalConfig())
    read = _milliseconds(lambda: _read(result))
    del result
    result, times = _cycle(work, steps, device, _without_events())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "cycle.json")
        write = _milliseconds(lambda: result.save(str(path)))
        size = path.stat().st_size / 1e6
        part = PartWriter(Path(folder, "part"), file_seconds=1.0)
        cycles = Cycles(0, 1, part.append)
        imported = _milliseconds(lambda: cycles.add(path, 0))
    rows = sum(count for table, count in part.rows.items() if table not in ("thread", "device"))
    return [rows, size, alone, *times, write, read, imported]


def _cycle(
    work: Callable[[int], None], steps: int, device: str, details: Any
) -> tuple[Any, list[float]]:
    """Run one cycle; return its result, and the ms in it, to begin it and to end it."""
    profiler = torch.autograd.profiler
    # Positional only: shapes, memory, stacks, flops, modules.
    wanted = (True, True, False, False, False)
    config = ProfilerConfig(ProfilerState.KINETO, *wanted, details)
    activities = {ProfilerActivity.CPU}
    if device != "cpu":
        activities.add(ProfilerActivity.CUDA)
    results: list[Any] = []

    def begin() -> None:
        profiler._prepare_profiler(config, activities)
        profiler._enable_profiler(config, activities)

    begun = _milliseconds(begin)
    inside = _milliseconds(lambda: work(steps))
    ended = _milliseconds(lambda: results.append(profiler._disable_profiler()))
    return results[0], [inside, begun, ended]


def _read(result: Any) -> list[tuple[Any, ...]]:
    """Return what the tables need of every event, through the objects of Python."""
    return [
        (
            event.name(),
            event.start_ns(),
            event.duration_ns(),
            event.start_thread_id(),
            event.correlation_id(),
            event.linked_correlation_id(),
            event.sequence_nr(),
            event.fwd_thread_id(),
            event.shapes(),
            event.dtypes(),
            event.device_index(),
            event.device_resource_id(),
            event.nbytes(),
        )
        for event in result.events()
    ]


def _import(path: Path) -> tuple[float, int]:
    """Return the ms to import a cycle's file as the receiver does, and its rows."""
    with tempfile.TemporaryDirectory() as folder:
        part = PartWriter(Path(folder), file_seconds=1.0)
        cycles = Cycles(0, 1, part.append)
        taken = _milliseconds(lambda: cycles.add(path, 0))
        rows = sum(count for table, count in part.rows.items() if table not in ("thread", "device"))
        return taken, rows


def _milliseconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1e3


if __name__ == "__main__":
    main()
