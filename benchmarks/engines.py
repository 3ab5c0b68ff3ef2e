"""Time the engines on generated traces beside Polars, DuckDB, pandas and the bare reading of files.

    python benchmarks/engines.py FOLDER [--rows 1e6,1e7] [--graphs ...] [--systems ...] [--repeats N]

`pip install duckdb pandas` for their columns. FOLDER gets the traces, unless they are there: put it on
a memory-backed file system to leave disks out. Every measurement is a process of its own; after one run
to warm up it takes the median of REPEATS runs. "held" leaves reading out: the columns are in memory.
Memory is the largest resident size of the process, or of any worker; on a GPU, what is held of the
first device after the runs, beyond what was before. Results must be equal: the numbers of rows and the sums of columns.

Graphs (`benchmarks/graphs`, and a shipped tool): `page_set` counts the pages that launches touch,
`hot_blocks` accesses by window and block, `reuse_gap` orders the touches of each page, `device_time`
is over 64 ranks of kernels. Systems that cannot be imported here are left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.generate import Generator, OnCpu, OnGpu, Size, Template
from benchmarks.queries import ANSWERS, COLUMNS, DUCKDB, PANDAS, POLARS, Read
from pasta import api
from pasta.collect.access_files import FILE_WARPS
from pasta.collect.warp_accesses import LANES
from pasta.pipeline.engines.base import Engine, EngineOptions
from pasta.pipeline.engines.cpu import CpuEngine
from pasta.pipeline.engines.dask import DaskEngine
from pasta.pipeline.engines.dask_cuda import DaskCudaEngine
from pasta.pipeline.engines.gpu import GpuEngine
from pasta.pipeline.graph import empty_input, with_trace_column
from pasta.pipeline.run import Source, run_graph, wanted_nodes
from pasta.tools.shipped import SHIPPED_TRACE
from pasta.trace import Trace

GRAPHS = Path(__file__).parent / "graphs"
RESULTS = {
    "page_set": "by_name",
    "hot_blocks": "cells",
    "reuse_gap": "gaps",
    "device_time": "devices",
}
ACCESS_RANKS = 4
KERNEL_RANKS = 64
LAUNCHES = 200_000


def folder_of(base: Path, graph: str, rows: int) -> Path:
    """Return where the trace for a graph is, and write it unless it is there."""
    accesses = "access" in COLUMNS[graph]
    folder = base / f"{'access' if accesses else 'kernel'}-{rows}"
    if not folder.exists():
        size = Size(KERNEL_RANKS, kernels=rows)
        if accesses:
            launches = min(LAUNCHES, rows // 5)
            size = Size(ACCESS_RANKS, launches, accesses=rows, file_rows=FILE_WARPS * LANES)
        side = OnGpu() if importlib.util.find_spec("cudf") else OnCpu()
        generator = Generator(Template(Trace.open(SHIPPED_TRACE)), size, side=side)
        tables = ["kernel", "access"] if accesses else ["kernel"]
        generator.write(folder, tables, compression="snappy")
    return folder


def files_of(trace: Trace, table: str) -> list[str]:
    """Return the paths of a table's files."""
    return [str(file) for file in trace.files(table)]


def polars_queries(trace: Trace, graph: str) -> Iterator[Callable[[], Any]]:
    """Yield what runs a graph by hand in Polars: reading, then held."""

    def reading(table: str, columns: list[str]) -> pl.LazyFrame:
        return pl.scan_parquet(files_of(trace, table), hive_partitioning=False).select(columns)

    def run(read: Read) -> pl.DataFrame:
        return POLARS[graph](read).collect(engine="streaming")

    yield lambda: run(reading)
    held = {table: reading(table, names).collect() for table, names in COLUMNS[graph].items()}
    yield lambda: run(lambda table, _: held[table].lazy())


def duckdb_queries(trace: Trace, graph: str) -> Iterator[Callable[[], Any]]:
    """Yield what runs a graph by hand in DuckDB."""
    import duckdb

    connection = duckdb.connect()

    def run() -> Any:
        return connection.sql(DUCKDB[graph]).to_arrow_table()

    for table in COLUMNS[graph]:
        files = files_of(trace, table)
        connection.execute(
            f"create view {table} as from read_parquet({files!r}, hive_partitioning=false)"
        )
    yield run
    for table, columns in COLUMNS[graph].items():
        connection.execute(f"create table held as select {', '.join(columns)} from {table}")  # noqa: S608
        connection.execute(f"drop view {table}")
        connection.execute(f"alter table held rename to {table}")
    yield run


def pandas_queries(trace: Trace, graph: str) -> Iterator[Callable[[], Any]]:
    """Yield what runs a graph by hand in pandas, or in whatever stands in for it."""
    import pandas as pd

    def reading(table: str, columns: list[str]) -> Any:
        files = files_of(trace, table)
        parts = [pd.read_parquet(file, columns=columns) for file in files]
        return pd.concat(parts, ignore_index=True)

    yield lambda: PANDAS[graph](reading)
    held = {table: reading(table, columns) for table, columns in COLUMNS[graph].items()}
    yield lambda: PANDAS[graph](lambda table, _: held[table])


def cudf_pandas_queries(trace: Trace, graph: str) -> Iterator[Callable[[], Any]]:
    """Yield what runs a graph by hand in cuDF's pandas."""
    import cudf.pandas

    cudf.pandas.install()
    yield from pandas_queries(trace, graph)


def reading_polars(trace: Trace, graph: str) -> Iterator[Callable[[], Any]]:
    """Yield what only reads the columns, with Polars."""

    def read() -> None:
        for table, columns in COLUMNS[graph].items():
            pl.scan_parquet(files_of(trace, table), hive_partitioning=False).select(
                columns
            ).collect(engine="streaming")

    yield read


def reading_cudf(trace: Trace, graph: str) -> Iterator[Callable[[], Any]]:
    """Yield what only reads the columns, with cuDF."""
    import cudf

    def read() -> None:
        for table, columns in COLUMNS[graph].items():
            cudf.read_parquet(files_of(trace, table), columns=columns)

    yield read


def pasta_queries(trace: Trace, graph: str, made: Engine) -> Iterator[Callable[[], Any]]:
    """Yield what runs a graph on an engine of pasta; only `cpu` can do so on held rows."""
    path = GRAPHS / f"{graph}.yaml"
    config, wired = api.check(str(path) if path.exists() else graph)
    sources = [Source("many", trace)]
    wanted = wanted_nodes(config, outputs=False)
    with made as engine:
        PEAKS.append(lambda: _workers_peak(engine))
        yield lambda: run_graph(config, wired, sources, engine)[RESULTS[graph]]
        if engine.name != "cpu":
            return
        held = {name: _held(trace, graph, spec.table) for name, spec in wired.inputs.items()}

        def run() -> pl.DataFrame:
            plans = wired.plan(held, wanted, engine.collect)
            found = dict(zip(wanted, engine.collect(list(plans.values())), strict=True))
            return found[RESULTS[graph]]

        yield run


def _held(trace: Trace, graph: str, table: str) -> pl.LazyFrame:
    """Return the columns of a table that a graph needs, in memory; a table it lacks has no rows."""
    if not trace.files(table):
        return empty_input(table)
    columns = dict.fromkeys([*COLUMNS[graph][table], "pid", "launch_id"])
    return with_trace_column(trace.scan(table).select(list(columns)).collect().lazy(), "many")


def _workers_peak(engine: Any) -> int:
    client = getattr(engine, "client", None)
    return max(client.run(peak_bytes).values()) if client is not None else 0


PEAKS: list[Callable[[], int]] = []
"""What asks the processes beside this one for their peaks."""

SYSTEMS: dict[str, tuple[str | None, Callable[..., Iterator[Callable[[], Any]]]]] = {
    "read: polars": (None, reading_polars),
    "polars": (None, polars_queries),
    "duckdb": ("duckdb", duckdb_queries),
    "pandas": ("pandas", pandas_queries),
    "pasta cpu": (None, lambda t, g: pasta_queries(t, g, CpuEngine())),
    **{
        f"pasta dask, {n} CPU": (
            "distributed",
            lambda t, g, n=n: pasta_queries(t, g, DaskEngine(n)),
        )
        for n in (1, 2, 4)
    },
    "read: cudf": ("cudf", reading_cudf),
    "cudf.pandas": ("cudf", cudf_pandas_queries),
    "pasta gpu": ("cudf_polars", lambda t, g: pasta_queries(t, g, GpuEngine(EngineOptions()))),
    **{
        f"pasta dask, {n} GPU": (
            "dask_cuda",
            lambda t, g, n=n: pasta_queries(t, g, DaskCudaEngine(EngineOptions(n))),
        )
        for n in (1, 2)
    },
}
"""Label -> the package that it needs, and what yields its runs."""


def peak_bytes() -> int:
    """Return the largest resident size that this process has had."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) << 10
    return 0


def answer(rows: Any, graph: str) -> list[int]:
    """Return the number of rows of a result and the sums of the columns that are compared."""
    if rows is None:
        return []
    if not isinstance(rows, pl.DataFrame):
        names = ANSWERS[graph]
        rows = rows.to_pandas() if not hasattr(rows, "columns") else rows
        rows = pl.DataFrame({name: [*map(int, _plain(rows[name]).fillna(0))] for name in names})
    sums = rows.select(pl.col(ANSWERS[graph]).cast(pl.Int64).sum()).row(0)
    return [rows.height, *map(int, sums)]


def _plain(column: Any) -> Any:
    return column.to_pandas() if hasattr(column, "to_pandas") else column


def measure(system: str, folder: Path, graph: str, repeats: int) -> dict[str, Any]:
    """Run one system on one graph in this process; seconds with reading and held."""
    found: dict[str, Any] = {"seconds": [], "answers": []}
    before = device_bytes()
    for run in SYSTEMS[system][1](Trace.open(folder), graph):
        run()
        taken = []
        for _ in range(repeats):
            begin = time.perf_counter()
            rows = run()
            taken.append(time.perf_counter() - begin)
        found["seconds"].append(statistics.median(taken))
        found["answers"].append(answer(rows, graph))
        if len(found["seconds"]) == 1:
            found["host"] = max([peak_bytes(), *(ask() for ask in PEAKS)])
            found["device"] = device_bytes() - before
    return found


def device_bytes() -> int:
    """Return how much of the first GPU's memory is taken; 0 without one."""
    if not Path("/dev/nvidiactl").exists() or importlib.util.find_spec("pynvml") is None:
        return 0
    import pynvml

    pynvml.nvmlInit()
    return int(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0)).used)


def in_process(arguments: list[str], seconds: int) -> dict[str, Any]:
    """Run a measurement in a process of its own; what went wrong is its `error`."""
    command = [sys.executable, __file__, "--measure", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"over {seconds} s"}
    try:
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        lines = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
        return {"error": lines[-1][:80]}
    return found


def table_row(graph: str, rows: int, system: str, found: dict[str, Any]) -> str:
    """Return a row of the table."""
    if "error" in found:
        return f"| {graph} | {rows:.0e} | {system} | {found['error']} | | | |"
    seconds = [f"{value:.3f}" for value in found["seconds"]] + ["", ""]
    device = f"{found['device'] / 1e6:,.0f}" if found["device"] else ""
    return (
        f"| {graph} | {rows:.0e} | {system} | {seconds[0]} | {seconds[1]}"
        f" | {found['host'] / 1e6:,.0f} | {device} |"
    )


def compare(given: argparse.Namespace) -> bool:
    """Print the table; return whether all results agree."""
    print("| graph | rows | system | seconds | held, seconds | peak, MB | held on the device, MB |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    agree = True
    for graph in given.graphs:
        for rows in given.rows:
            folder = folder_of(given.folder, graph, rows)
            answers: dict[str, list[str]] = {}
            for system in given.systems:
                arguments = [system, str(folder), graph, str(given.repeats)]
                found = in_process(arguments, given.seconds)
                print(table_row(graph, rows, system, found), flush=True)
                for result in filter(None, found.get("answers", [])):
                    answers.setdefault(str(result), []).append(system)
            if len(answers) > 1:
                agree = False
                print(f"results differ: {answers}", file=sys.stderr)
    return agree


def main() -> None:
    """Print the table, or the one measurement that another process asks for."""
    if sys.argv[1:2] == ["--measure"]:
        system, folder, graph, repeats = sys.argv[2:]
        print(json.dumps(measure(system, Path(folder), graph, int(repeats))))
        return
    here = [s for s, (needs, _) in SYSTEMS.items() if not needs or importlib.util.find_spec(needs)]
    parser = argparse.ArgumentParser(description="Time the engines on generated traces.")
    parser.add_argument("folder", type=Path)
    numbers = {"type": lambda text: [int(float(part)) for part in text.split(",")]}
    parser.add_argument("--rows", default=[1_000_000, 10_000_000], **numbers)
    parser.add_argument("--graphs", default=list(COLUMNS), type=lambda text: text.split(","))
    parser.add_argument("--systems", default=here, type=lambda text: text.split(";"))
    parser.add_argument("--repeats", default=3, type=int)
    parser.add_argument("--seconds", default=600, type=int, help="limit of one measurement")
    sys.exit(0 if compare(parser.parse_args()) else 1)


if __name__ == "__main__":
    main()
