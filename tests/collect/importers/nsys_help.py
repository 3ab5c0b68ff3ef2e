"""Small exports of Nsight Systems, made by hand."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from pasta.collect.importing import ImportReport, import_trace
from pasta.trace import Trace

BASE = 1_700_000_000_000_000_000
PROCESS, OTHER = 41, 42
NODE = 1 << 48

STRINGS = {
    1: "void add<float>(float*, int)",
    2: "add",
    3: "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    4: "cudaLaunchKernel_v7000",
    5: "cuMemcpyHtoD_v2",
    6: "registered",
    7: "main",
    8: "worker",
    9: "libc.so",
    10: "poll",
    11: "fault.cu",
}

Table = tuple[Sequence[str], Iterable[Sequence[Any]]]

KERNEL = (
    "start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid",
    "demangledName", "shortName", "registersPerThread", "gridX", "gridY", "gridZ",
    "blockX", "blockY", "blockZ", "staticSharedMemory", "dynamicSharedMemory",
    "localMemoryPerThread", "graphNodeId", "graphId",
)  # fmt: skip
COPY = (
    "start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "bytes",
    "copyKind", "srcKind", "dstKind", "virtualAddress",
)  # fmt: skip
RUNTIME = (
    "start", "end", "eventClass", "globalTid", "correlationId", "nameId", "returnValue",
    "callchainId",
)  # fmt: skip
NVTX = ("start", "end", "eventType", "text", "textId", "globalTid", "domainId")


def process(pid: int = PROCESS) -> int:
    return NODE | pid << 24


def thread(tid: int = 7, pid: int = PROCESS) -> int:
    return process(pid) | tid


def kernel(start: int, end: int | None, **changed: Any) -> list[Any]:
    row = dict.fromkeys(KERNEL, None) | {
        "start": start, "end": end, "deviceId": 0, "contextId": 1, "streamId": 7,
        "correlationId": 5, "globalPid": process(), "demangledName": 1, "shortName": 2,
        "registersPerThread": 16, "gridX": 2, "gridY": 3, "gridZ": 4, "blockX": 32, "blockY": 1,
        "blockZ": 1, "staticSharedMemory": 64, "dynamicSharedMemory": 128,
        "localMemoryPerThread": 8,
    }  # fmt: skip
    return list((row | changed).values())


def copy(start: int, end: int, kind: int, **changed: Any) -> list[Any]:
    row = dict.fromkeys(COPY, None) | {
        "start": start, "end": end, "deviceId": 0, "contextId": 1, "streamId": 7,
        "correlationId": 6, "globalPid": process(), "bytes": 100, "copyKind": kind,
    }  # fmt: skip
    return list((row | changed).values())


def mark(start: int, end: int | None, kind: int, text: str | None, **changed: Any) -> list[Any]:
    row = dict.fromkeys(NVTX, None) | {
        "start": start, "end": end, "eventType": kind, "text": text, "globalTid": thread(),
        "domainId": 0,
    }  # fmt: skip
    return list((row | changed).values())


def export(path: Path, **tables: Table) -> Path:
    """Write an SQLite export with texts, a time base and the given tables."""
    path.unlink(missing_ok=True)
    everything: dict[str, Table] = {
        "StringIds": (("id INTEGER PRIMARY KEY", "value"), STRINGS.items()),
        "TARGET_INFO_SESSION_START_TIME": (("utcEpochNs",), [(BASE,)]),
        **tables,
    }
    connection = sqlite3.connect(path)
    for name, (columns, rows) in everything.items():
        quoted = ", ".join(column if " " in column else f'"{column}"' for column in columns)
        connection.execute(f'CREATE TABLE "{name}" ({quoted})')
        places = ", ".join("?" * len(columns))
        connection.executemany(f'INSERT INTO "{name}" VALUES ({places})', rows)
    connection.commit()
    connection.close()
    return path


def folder(path: Path, kind: str, **tables: Table) -> Path:
    """Write the same as a folder of Arrow or Parquet files."""
    path.mkdir()
    everything: dict[str, Table] = {
        "StringIds": (("id", "value"), STRINGS.items()),
        "TARGET_INFO_SESSION_START_TIME": (("utcEpochNs",), [(BASE,)]),
        **tables,
    }
    for name, (columns, rows) in everything.items():
        table = pa.table(
            {
                column: list(values)
                for column, values in zip(columns, zip(*rows, strict=True), strict=True)
            }
        )
        if kind == "parquet":
            pq.write_table(table, path / f"{name}.parquet")
        else:
            with pa.ipc.new_file(str(path / f"{name}.arrow"), table.schema) as writer:
                writer.write_table(table)
    return path


def imported(path: Path, out: Path, *, strict: bool = False) -> tuple[Trace, ImportReport]:
    report = import_trace([path], out, strict=strict)
    return Trace.open(out), report


def rows(trace: Trace, table: str) -> list[dict[str, Any]]:
    found: pl.DataFrame = trace.scan(table).collect()
    return found.rows(named=True)


def losses(report: ImportReport) -> dict[str, int]:
    return {reason: count for _, reason, count, _ in report.losses}
