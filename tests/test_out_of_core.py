"""Peak memory does not grow with the rows of a trace where a graph is mergeable or runs on slices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pasta.trace import RANK_FOLDER
from pasta.trace_merge import conform
from pasta.trace_parts import parquet_writer

ROWS = 1 << 20
FEW, MANY = 4, 16
READ_BYTES = {"kernel_frequency": 24, "variability": 104}
"""Bytes in memory of what a tool reads of a kernel: text views, and columns of numbers."""

PEAK = """
import re, sys
from pathlib import Path

import pasta
from pasta import api
from pasta.pipeline.engines.cpu import CpuEngine
from pasta.pipeline.engines.dask import DaskEngine
from pasta.pipeline.run import Source, run_graph
from pasta.trace import Trace

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) << 10

if __name__ == "__main__":
    tool, trace, name, result, column = sys.argv[1:]
    config, graph = api.check(tool)
    with CpuEngine(part_rows=1 << 19) if name == "cpu" else DaskEngine(1) as engine:
        rows = run_graph(config, graph, [Source("t", Trace.open(trace))], engine)[result]
        peaks = [peak(), *(engine.client.run(peak).values() if name == "dask" else ())]
    print(max(peaks), rows[column].sum())
"""


def kernels(rank: int, rows: int) -> pl.DataFrame:
    random = np.random.default_rng(rank)
    names = pl.Series([f"void kernel_{number}<float, 128>(Params, int)" for number in range(99)])
    return pl.DataFrame(
        {
            "rank": np.full(rows, rank, np.int32),
            "pid": np.full(rows, 1),
            "device": np.zeros(rows, np.int32),
            "ts": np.arange(rows) * 100,
            "dur": random.integers(1, 99, rows),
            "launch_id": np.arange(1, rows + 1, dtype=np.uint64),
            "name": names[random.integers(0, 99, rows)],
        }
    )


def nested_spans(rows: int, first: int) -> pl.DataFrame:
    """Return steps of 800 ns with seven operators, each within the one before; rows count from `first`."""
    number = np.arange(first, first + rows)
    place = number % 8
    names = pl.Series(["step", *(f"aten::operator_{depth}" for depth in range(1, 8))])
    return pl.DataFrame(
        {
            "rank": np.zeros(rows, np.int32),
            "pid": np.ones(rows, np.int64),
            "tid": np.ones(rows, np.int64),
            "ts": number // 8 * 800 + place,
            "dur": 800 - 2 * place,
            "span_id": (number + 1).astype(np.uint64),
            "parent_id": np.where(place > 0, number, 0).astype(np.uint64),
            "level": pl.Series(["step", "operator"])[np.minimum(place, 1)],
            "name": names[place],
        }
    )


def write(path: Path, rows: pl.DataFrame, table: str = "kernel") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with parquet_writer(path, table, compression="snappy") as writer:
        writer.write_table(conform(table, rows.to_arrow(compat_level=pl.CompatLevel.oldest())))


def peak(trace: Path, engine: str, tool: str, answer: tuple[str, str]) -> tuple[int, int]:
    """Return the peak resident bytes of the largest process of a run, and the sum of a column."""
    script = trace.parent / "peak.py"
    script.write_text(PEAK)
    command = [sys.executable, str(script), tool, str(trace), engine, *answer]
    environment = {**os.environ, "POLARS_MAX_THREADS": "2"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found, total = done.stdout.split()
    return int(found), int(total)


def trace_of(folder: Path) -> Path:
    folder.mkdir()
    (folder / "trace.json").write_text(json.dumps({"schema_version": 1}))
    return folder


@pytest.mark.parametrize(
    ("engine", "tool", "answer"),
    [
        ("cpu", "kernel_frequency", ("overall", "calls")),
        ("dask", "kernel_frequency", ("overall", "calls")),
        ("cpu", "variability", ("sums", "launches")),
    ],
)
def test_a_mergeable_graph_takes_no_more_for_more_rows(tmp_path, engine, tool, answer):
    """Files of a million kernels each; they are one file under many names, which costs no disk."""
    if engine == "dask":
        pytest.importorskip("distributed")
    write(tmp_path / "file.parquet", kernels(0, ROWS))
    peaks = {}
    for files in (FEW, MANY):
        trace = trace_of(tmp_path / str(files))
        (trace / "kernel").mkdir()
        for number in range(files):
            os.link(tmp_path / "file.parquet", trace / "kernel" / f"{number:06d}.parquet")
        peaks[files], calls = peak(trace, engine, tool, answer)
        assert calls == files * ROWS
    assert peaks[MANY] - peaks[FEW] < (MANY - FEW) * ROWS * READ_BYTES[tool] / 4


def test_work_within_ranks_takes_no_more_for_more_ranks(tmp_path):
    """A worker that runs array stages holds a few shards of whole ranks, however many there are."""
    pytest.importorskip("distributed")
    rows, few, many = ROWS // 8, 8, 24
    traces = {ranks: trace_of(tmp_path / str(ranks)) for ranks in (few, many)}
    for rank in range(many):
        file = Path(RANK_FOLDER.format(rank)) / "kernel" / "000000.parquet"
        write(traces[many] / file, kernels(rank, rows))
        if rank < few:
            (traces[few] / file).parent.mkdir(parents=True)
            os.link(traces[many] / file, traces[few] / file)
    peaks = {}
    for ranks, trace in traces.items():
        peaks[ranks], busy = peak(trace, "dask", "device_time", ("devices", "busy_ns"))
        assert busy == sum(int(kernels(rank, rows)["dur"].sum()) for rank in range(ranks))
    assert peaks[many] < 1.35 * peaks[few]


def test_slices_of_time_keep_one_large_rank_from_filling_memory(tmp_path):
    """At once, each kernel of a rank takes some 240 bytes; slice after slice a fraction of that."""
    rows, few, many = ROWS // 4, 3, 12
    traces = {files: trace_of(tmp_path / str(files)) for files in (few, many)}
    total = 0
    for number in range(many):
        file = Path("kernel") / f"{number:06d}.parquet"
        part = kernels(0, rows).with_columns(
            pl.col("ts") + number * rows * 100, pl.col("launch_id") + number * rows
        )
        total += int(part["dur"].sum())
        write(traces[many] / file, part)
        if number < few:
            (traces[few] / file).parent.mkdir(exist_ok=True)
            os.link(traces[many] / file, traces[few] / file)
    peaks = {}
    for files, trace in traces.items():
        peaks[files], busy = peak(trace, "cpu", "device_time", ("devices", "busy_ns"))
        assert busy == total * files // many
    assert peaks[many] - peaks[few] < (many - few) * rows * 120


def test_a_flame_graph_holds_of_ranges_no_more_than_what_tells_paths(tmp_path):
    """Some 340 bytes each: with columns that nothing reads, and copies of all of them, they would be 980."""
    few, many = 1, 4
    traces = {files: trace_of(tmp_path / str(files)) for files in (few, many)}
    for number in range(many):
        file = Path("span") / f"{number:06d}.parquet"
        write(traces[many] / file, nested_spans(ROWS, number * ROWS), "span")
    (traces[few] / "span").mkdir()
    os.link(traces[many] / "span/000000.parquet", traces[few] / "span/000000.parquet")
    peaks = {}
    for files, trace in traces.items():
        peaks[files], time = peak(trace, "cpu", "flame", ("paths", "own_exact"))
        assert time == files * ROWS // 8 * 798  # the outermost operator; steps are no frames
    assert peaks[many] - peaks[few] < (many - few) * ROWS * 500
