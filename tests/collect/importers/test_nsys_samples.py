"""Real exports of Nsight Systems: the counts and times that SQLite itself gives."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import pasta
from pasta.errors import InputError
from pasta.trace import Trace
from tests.collect.importers.nsys_help import imported, losses

FOLDER = "nsys_sqlite"
H100 = "nsysai_h100_2gpu_1s_schema3.25.sqlite"
FILES = [
    H100,
    "nsysai_mfu_2gpu_before.sqlite",
    "nsysai_mock_schema3.24.sqlite",
    "nvfuser_h200_nvtx_schema3.17.sqlite",
    "nevakrien_no_cuda_tables_schema3.6.sqlite",
]
WORK = ("KERNEL", "MEMCPY", "MEMSET")


def ask(file: Path, question: str) -> list[tuple[Any, ...]]:
    """Return what SQLite answers; nothing where a table is absent."""
    connection = sqlite3.connect(f"file:{file}?immutable=1", uri=True)
    with contextlib.closing(connection):
        try:
            return connection.execute(question).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
            return []


def union(intervals: list[tuple[int, int]]) -> int:
    """Return the length of the union of half-open intervals."""
    total, reached = 0, -1
    for start, end in sorted(intervals):
        total += max(end - max(start, reached), 0)
        reached = max(reached, end)
    return total


def computing(file: Path, device: int) -> list[tuple[int, int]]:
    """Return the kernels that do not communicate."""
    return ask(
        file,
        "SELECT start, end FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = demangledName"
        f" WHERE deviceId = {device} AND value NOT LIKE '%nccl%'",
    )


def work(file: Path, device: int, kinds: tuple[str, ...]) -> list[tuple[int, int]]:
    return [
        row
        for kind in kinds
        for row in ask(
            file,
            f"SELECT start, end FROM CUPTI_ACTIVITY_KIND_{kind} WHERE deviceId = {device}",
        )
    ]


@pytest.fixture(scope="module", params=FILES)
def sample(
    request: pytest.FixtureRequest, samples: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Trace]:
    file = samples / FOLDER / request.param
    trace, _ = imported(file, tmp_path_factory.mktemp("trace") / "out", strict=True)
    return file, trace


def count(trace: Trace, table: str, where: pl.Expr | None = None) -> int:
    if not trace.files(table):
        return 0
    found = trace.scan(table)
    chosen = found if where is None else found.filter(where)
    return int(chosen.select(pl.len()).collect().item())


def test_every_row_is_there(sample: tuple[Path, Trace]) -> None:
    file, trace = sample

    def rows(table: str, where: str = "true") -> int:
        return sum(n for (n,) in ask(file, f"SELECT count(*) FROM {table} WHERE {where}"))

    assert count(trace, "kernel") == rows("CUPTI_ACTIVITY_KIND_KERNEL")
    assert count(trace, "copy", pl.col("kind") != "memset") == rows("CUPTI_ACTIVITY_KIND_MEMCPY")
    assert count(trace, "copy", pl.col("kind") == "memset") == rows("CUPTI_ACTIVITY_KIND_MEMSET")
    assert count(trace, "call") == rows("CUPTI_ACTIVITY_KIND_RUNTIME")
    assert count(trace, "sync") == rows("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION")
    ranges = rows("NVTX_EVENTS", "eventType IN (34, 59, 60)")
    assert count(trace, "span", pl.col("level") == "annotation") == ranges
    assert count(trace, "span", pl.col("level") == "library") == rows("OSRT_API")
    assert count(trace, "sample", pl.col("kind").is_in(["cycles", "samples"])) == rows(
        "COMPOSITE_EVENTS"
    )


def test_kernels_are_those_of_the_file(sample: tuple[Path, Trace]) -> None:
    file, trace = sample
    expected = ask(
        file,
        "SELECT globalPid >> 24 & 0xffffff, deviceId, start, end - start, value, correlationId,"
        " gridX, blockX, registersPerThread FROM CUPTI_ACTIVITY_KIND_KERNEL"
        " JOIN StringIds ON id = demangledName ORDER BY start, end, correlationId",
    )
    if not expected:
        assert not trace.files("kernel")
        return
    ((base,),) = ask(file, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME")
    columns = [
        "pid", "device", "ts", "dur", "name", "correlation", "grid_x", "block_x", "registers",
    ]  # fmt: skip
    kernels = trace.scan("kernel").with_columns(pl.col("ts") - base)
    found = kernels.sort("ts", "dur", "correlation").select(columns).collect()
    assert found.rows() == expected


def test_calls_join_kernels_within_their_process(sample: tuple[Path, Trace]) -> None:
    file, trace = sample
    expected = ask(
        file,
        "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON"
        " k.correlationId = r.correlationId AND k.globalPid >> 24 = r.globalTid >> 24",
    )
    if not expected:
        return
    pairs = trace.scan("kernel").join(trace.scan("call"), on=["rank", "pid", "correlation"])
    assert expected == [(pairs.select(pl.len()).collect().item(),)]
    assert expected[0][0] > 0


def test_busy_time_is_the_union_of_intervals(sample: tuple[Path, Trace]) -> None:
    file, trace = sample
    if not trace.files("kernel"):
        return
    devices = pasta.run("device_time", trace=trace.path).tables["devices"]
    assert len(devices) > 0
    totals: dict[int, list[int]] = {}
    for row in devices.iter_rows(named=True):
        total = totals.setdefault(row["device"], [0, 0])
        total[0] += row["compute_ns"]
        total[1] += row["busy_ns"]
    one_each = {device for device in totals if devices["device"].to_list().count(device) == 1}
    assert one_each
    for device in one_each:
        assert totals[device][0] == union(computing(file, device))
        assert totals[device][1] == union(work(file, device, WORK))


def test_a_device_is_idle_only_if_copies_are_left_out(samples: Path) -> None:
    """Idle shares of the busiest device: by kernels alone, and by all that it does."""
    file = samples / FOLDER / H100
    everything = work(file, 0, WORK)
    window = max(end for _, end in everything) - min(start for start, _ in everything)
    kernels = work(file, 0, ("KERNEL",))
    assert round(100 - 100 * union(kernels) / window, 1) == 97.7
    assert round(100 - 100 * union(everything) / window, 2) == 0.68


def test_an_export_cut_at_90_percent(samples: Path, tmp_path: Path) -> None:
    whole = samples / FOLDER / H100
    content = whole.read_bytes()
    cut = tmp_path / "cut.sqlite"
    cut.write_bytes(content[: len(content) * 9 // 10])
    trace, report = imported(cut, tmp_path / "out")
    complete = sum(
        n for table in ("KERNEL", "RUNTIME") for (n,) in
        ask(whole, f"SELECT count(*) FROM CUPTI_ACTIVITY_KIND_{table}")
    )  # fmt: skip
    assert 0.5 * complete < count(trace, "kernel") + count(trace, "call") <= complete
    assert any("ends early" in reason for reason in losses(report))
    assert any("page that cannot be read" in reason for reason in losses(report))
    with pytest.raises(InputError, match="ends early"):
        imported(cut, tmp_path / "strict", strict=True)
