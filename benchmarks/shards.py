"""How much faster two workers of one thread run a graph than one, and what memory each takes.

python benchmarks/shards.py FOLDER [KERNELS] [RANKS] [REPEATS]

Writes a trace of KERNELS kernels over RANKS ranks to FOLDER, unless it is there, and one of a
quarter of the ranks. Each tool runs on one and on two workers, in turn, REPEATS times, after the
cluster has started; a row gives the medians, and the peak resident size of any worker. Around each
pair of runs, one process and then two at once sort numbers: what two cores could give then.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

from pasta import api
from pasta.pipeline.engines.cpu import CpuEngine
from pasta.pipeline.engines.dask import DaskEngine
from pasta.pipeline.run import Source, run_graph
from pasta.schema import arrow_schema
from pasta.trace import Trace
from pasta.trace_writer import TraceWriter

TOOLS = ("kernel_frequency", "device_time")
NAMES = 500
CHUNK = 1 << 20


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


def run(tool: str, sources: list[Source], engine: object) -> tuple[float, dict[str, pl.DataFrame]]:
    """Return the seconds that a tool's graph takes, and what it gives."""
    config, graph = api.check(tool)
    begin = time.perf_counter()
    found = run_graph(config, graph, sources, engine)
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


def measure(
    tool: str, trace: Trace, workers: int
) -> tuple[float, int, int, dict[str, pl.DataFrame]]:
    """Return seconds, shards, the peak of any worker, and the result, on fresh workers."""
    sources = [Source("many", trace)]
    with DaskEngine(workers) as engine:
        run(tool, [Source("warm", api.open(api.SHIPPED_TRACE))], engine)
        seconds, found = run(tool, sources, engine)
        peak = max(engine.client.run(peak_bytes).values())
        shards = int(engine.notes[-1].split()[1])
    return seconds, shards, peak, found


def main() -> None:
    """Print the table."""
    folder = Path(sys.argv[1])
    kernels, ranks, repeats = (
        int(float(given)) for given in (*sys.argv[2:5], *("5e7", "16", "3")[len(sys.argv) - 2 :])
    )
    print(
        "| tool | kernels | workers | shards | seconds | against one | sorting | peak of a worker |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for share in (4, 1):
        count, of = kernels // share, ranks // share
        path = folder / f"kernels-{count}-{of}"
        if not path.exists():
            write(path, count, of)
        trace = Trace.open(path)
        for tool in TOOLS:
            _, expected = run(tool, [Source("many", trace)], CpuEngine())
            table(tool, trace, count, repeats, expected)


def table(
    tool: str, trace: Trace, count: int, repeats: int, expected: dict[str, pl.DataFrame]
) -> None:
    """Print the rows of one tool on one trace; the result must be that of the cpu engine."""
    seconds: dict[int, list[float]] = {1: [], 2: []}
    last = {}
    sorting = [two_cores()]
    for _ in range(repeats):
        for workers, taken in seconds.items():
            took, shards, peak, found = measure(tool, trace, workers)
            taken.append(took)
            last[workers] = (shards, peak)
            for name, rows in expected.items():
                assert_frame_equal(found[name], rows, rel_tol=1e-9, abs_tol=0)
        sorting.append(two_cores())
    one = statistics.median(seconds[1])
    for workers, taken in seconds.items():
        middle, (shards, peak) = statistics.median(taken), last[workers]
        spread = f"{middle:.2f} ({min(taken):.2f} to {max(taken):.2f})"
        print(
            f"| {tool} | {count:.3g} | {workers} | {shards} | {spread} | {one / middle:.2f}"
            f" | {statistics.median(sorting) if workers == 2 else 1:.2f} | {peak / 1e6:.0f} MB |",
            flush=True,
        )


if __name__ == "__main__":
    main()
