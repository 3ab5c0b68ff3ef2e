"""How much faster two workers of one thread run a graph than one, and what memory each takes.

    python benchmarks/shards.py FOLDER [--tools kernel_frequency device_time] [--kernels 5e7] [--ranks 16]
                                       [--repeats 3]

Writes a trace of so many kernels over so many ranks to FOLDER, unless it is there, and one of a
quarter of the ranks. Each tool runs on the `cpu` engine, in a process of its own, and then on one and on two
workers, in turn, several times, after the cluster has started; a row gives the medians, and the peak resident
size of the process or of any worker. Around each pair of runs, one process and then two at once sort numbers:
what two cores could give then. Processor seconds, of all processes of a run, say more on a busy machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

from pasta import api
from pasta.pipeline.engines.base import Engine
from pasta.pipeline.engines.cpu import CpuEngine
from pasta.pipeline.engines.dask import DaskEngine
from pasta.pipeline.run import Source, run_graph
from pasta.schema import arrow_schema
from pasta.trace import Trace
from pasta.trace_writer import TraceWriter

TOOLS = ("kernel_frequency", "device_time")
NAMES = 500
CHUNK = 1 << 20

Tables = dict[str, pl.DataFrame]


class Cost(NamedTuple):
    """What a run took: seconds, processor seconds of all its processes, shards, and the largest peak in bytes."""

    seconds: float
    processor: float
    shards: int
    peak: int


def write(folder: Path, kernels: int, ranks: int) -> None:
    """Write a trace of kernels with the gaps, durations and launch counts of a training step."""
    writer = TraceWriter(folder, {"command": "benchmarks/shards.py"})
    for rank in range(ranks):
        part = writer.part(rank)
        random = np.random.default_rng(rank)
        begin = 0
        for first in range(0, kernels // ranks, CHUNK):
            count = min(CHUNK, kernels // ranks - first)
            rows, begin = _rows(random, rank, first, count, begin)
            part.append("kernel", rows.to_arrow().cast(arrow_schema("kernel")))
        part.finish()
    writer.finish()


def _rows(
    random: np.random.Generator, rank: int, first: int, count: int, begin: int
) -> tuple[pl.DataFrame, int]:
    """Return `count` kernels that follow each other on two streams, and when the last begins."""
    starts = begin + np.cumsum(random.exponential(6_000, count).astype(np.int64))
    names = np.minimum(random.zipf(1.3, count), NAMES) - 1
    ids = np.arange(first + 1, first + count + 1, dtype=np.uint64)
    given = {
        "rank": np.full(count, rank, np.int32),
        "pid": np.full(count, 100 + rank),
        "device": np.zeros(count, np.int32),
        "ts": starts,
        "dur": random.lognormal(8, 1, count).astype(np.int64),
        "launch_id": ids,
        "correlation": ids,
        "stream": random.integers(7, 9, count).astype(np.uint64),
    }
    texts = pl.Series([f"void kernel_{n}<float, 128, {n % 7}>(Params, int)" for n in range(NAMES)])
    schema = pl.from_arrow(arrow_schema("kernel").empty_table()).schema
    rows = pl.DataFrame(given).with_columns(name=texts[names])
    missing = [pl.lit(None, kind).alias(n) for n, kind in schema.items() if n not in rows.columns]
    rows = rows.with_columns(missing).select(pl.col(n).cast(kind) for n, kind in schema.items())
    return rows, int(starts[-1])


def run(tool: str, trace: Trace, engine: Engine) -> tuple[float, Tables]:
    """Return the seconds that a tool's graph takes, and what it gives."""
    config, graph = api.check(tool)
    begin = time.perf_counter()
    found = run_graph(config, graph, [Source("many", trace)], engine)
    return time.perf_counter() - begin, found


def two_cores() -> float:
    """Return how much more two processes sort than one in the same time."""
    code = "import numpy as n; r = n.random.default_rng(1)\nfor _ in range(12): n.sort(r.random(1 << 20))"

    def seconds(processes: int) -> float:
        begin = time.perf_counter()
        started = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(processes)]
        for process in started:
            process.wait()
        return time.perf_counter() - begin

    return 2 * seconds(1) / seconds(2)


def peak_bytes() -> int:
    """Return the largest resident size that this process has had."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) << 10
    return 0


def on_cpu(tool: str, path: Path) -> tuple[Cost, Tables]:
    """Return what a tool takes on the `cpu` engine of this process, and what it gives."""
    begin = time.process_time()
    seconds, found = run(tool, Trace.open(path), CpuEngine())
    return Cost(seconds, time.process_time() - begin, 1, peak_bytes()), found


def on_workers(tool: str, path: Path, workers: int) -> tuple[Cost, Tables]:
    """Return what a tool takes on fresh workers, and what it gives."""

    def processor() -> float:
        return time.process_time() + sum(engine.client.run(time.process_time).values())

    with DaskEngine(workers) as engine:
        run(tool, api.open(api.SHIPPED_TRACE), engine)
        begin = processor()
        seconds, found = run(tool, Trace.open(path), engine)
        peak = max(engine.client.run(peak_bytes).values())
        shards = int(engine.notes[-1].split()[1])
        return Cost(seconds, processor() - begin, shards, peak), found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Time tools on one and on two workers.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tools", nargs="+", default=TOOLS)
    parser.add_argument("--kernels", type=float, default=5e7)
    parser.add_argument("--ranks", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}")
    print(
        "| tool | kernels | on | shards | seconds | processor seconds | against one | sorting | peak |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for share in (4, 1):
        count, ranks = int(given.kernels) // share, given.ranks // share
        path = given.folder / f"kernels-{count}-{ranks}"
        if not path.exists():
            write(path, count, ranks)
        for tool in given.tools:
            table(tool, path, count, given.repeats)
    print(f"load {os.getloadavg()[0]:.1f}")


def table(tool: str, path: Path, count: int, repeats: int) -> None:
    """Print the rows of one tool on one trace; all results must be those of the `cpu` engine."""
    costs: dict[int, list[Cost]] = {0: [], 1: [], 2: []}
    sorting = [two_cores()]
    for _ in range(repeats):
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            cost, expected = process.submit(on_cpu, tool, path).result()
        costs[0].append(cost)
        for workers in (1, 2):
            cost, found = on_workers(tool, path, workers)
            costs[workers].append(cost)
            for name, rows in expected.items():
                assert_frame_equal(found[name], rows, rel_tol=1e-9, abs_tol=0)
        sorting.append(two_cores())
    one = statistics.median(cost.seconds for cost in costs[1])
    for workers, taken in costs.items():
        seconds, processor, shards, peak = map(statistics.median, zip(*taken, strict=True))
        spread = f"{min(taken).seconds:.2f} to {max(taken).seconds:.2f}"
        gain = f"{one / seconds:.2f} | {statistics.median(sorting):.2f}" if workers == 2 else " | "
        print(
            f"| {tool} | {count:.3g} | {f'{workers} of dask' if workers else 'cpu'}"
            f" | {f'{shards:.0f}' if workers else ''} | {seconds:.2f} ({spread}) | {processor:.1f}"
            f" | {gain} | {peak / 1e6:,.0f} MB |",
            flush=True,
        )


if __name__ == "__main__":
    main()
