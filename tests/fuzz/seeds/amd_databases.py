"""SQLite files of AMD's tools: rocpd, the older RPD, and rocprofiler-compute's counters."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.collect.importers.test_rocpd import SCHEMAS, Database
from tests.collect.importers.test_rocprof_compute_csv import TEXT
from tests.fuzz.content import Content, one_file

Tables = dict[str, tuple[str, Sequence[Sequence[Any]]]]
"""By name: columns, separated by commas, and rows."""

_NAMES = [
    "",
    "hipLaunchKernel",
    "hipMemcpyAsync",
    "gemm.kd",
    "KernelExecution",
    "CopyHostToDevice",
    "UserMarker",
]
_RPD: Tables = {
    "rocpd_string": ("id integer PRIMARY KEY, string", list(enumerate(_NAMES, 1))),
    "rocpd_api": (
        "id integer PRIMARY KEY, pid, tid, start, end, apiName_id, args_id",
        [(1, 77, 78, 100, 200, 2, 1), (2, 77, 78, 300, 400, 3, 1), (3, 77, 78, 90, 900, 7, 4)],
    ),
    "rocpd_op": (
        "id integer PRIMARY KEY, gpuId, queueId, sequenceId, completionSignal, start, end, description_id, opType_id",
        [(1, 0, 1, 0, "", 210, 290, 4, 5), (2, 0, 1, 0, "", 410, 450, 1, 6)],
    ),
    "rocpd_api_ops": ("id integer PRIMARY KEY, api_id, op_id", [(1, 1, 1), (2, 2, 2)]),
    "rocpd_kernelapi": (
        "api_ptr_id integer PRIMARY KEY, stream, gridX, gridY, gridZ, workgroupX, workgroupY, workgroupZ, groupSegmentSize, privateSegmentSize, kernelName_id",
        [(1, "0x0", 1792, 2, 1, 256, 1, 1, 0, 0, 4)],
    ),
    "rocpd_copyapi": (
        "api_ptr_id integer PRIMARY KEY, stream, size, width, height, kind, dst, src, dstDevice, srcDevice, sync, pinned",
        [(2, "0x0", 4096, "", "", 1, "0x7f4043dc6040", "0x7f3ebca00000", 0, 0, 0, 0)],
    ),
    "rocpd_metadata": ("id integer PRIMARY KEY, tag, value", [(1, "schema_version", "2")]),
    "rocpd_monitor": (
        "id integer PRIMARY KEY, deviceType, deviceId, monitorType, start, end, value",
        [(1, "gpu", 0, "sclk", 10, 500, "800")],
    ),
}  # fmt: skip
_COMPUTE: Tables = {
    "compute_workload": (
        "workload_id INTEGER PRIMARY KEY, name, sub_name, sys_info_extdata, profiling_config_extdata",
        [(1, "w", "MI350", '{"hostname": "here", "command": "./x"}', "{}")],
    ),
    "compute_metadata": ("id INTEGER PRIMARY KEY, compute_version, schema_version", [(1, "3.5.0", "1.3.0")]),
    "compute_metric_definition": (
        "metric_uuid INTEGER PRIMARY KEY, workload_id, name, metric_id, description, table_name, sub_table_name, unit",
        [(1, 1, "VALU FLOPs", "2.1.0", "", "System", "", "GFLOP")],
    ),
    "compute_kernel": ("kernel_uuid INTEGER PRIMARY KEY, workload_id, kernel_name", [(1, 1, "gemm"), (2, 1, "add")]),
    "compute_dispatch": (
        "dispatch_uuid INTEGER PRIMARY KEY, kernel_uuid, dispatch_id, gpu_id, start_timestamp, end_timestamp",
        [(1, 1, 0, 0, 100, 200), (2, 2, 1, 0, 200, 300), (3, 2, 2, 0, 300, 310)],
    ),
    "compute_kernel_metric_value": (
        "value_uuid INTEGER PRIMARY KEY, metric_uuid, kernel_uuid, value_name, value",
        [(1, 1, 1, "Avg", 1.5), (2, 1, 2, "Avg", 2.5)],
    ),
}  # fmt: skip


def rpd() -> list[Content]:
    """Return a file of rocmProfileData."""
    return [_database(_RPD)]


def rocprof_compute_db() -> list[Content]:
    """Return a database of rocprofiler-compute."""
    return [_database(_COMPUTE)]


def rocprof_compute_csv() -> list[Content]:
    """Return counters as CSV."""
    return [one_file(TEXT, "lines", "pmc_perf.csv")]


def rocpd() -> list[Content]:
    """Return databases of every schema."""
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        for schema in SCHEMAS:
            file = Path(scratch, schema)
            database = Database(file, schema)
            database.fill()
            database.close()
            found.append(one_file(file.read_bytes(), "sqlite"))
    return found


def _database(tables: Tables) -> Content:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("PRAGMA page_size = 1024")
    for name, (columns, rows) in tables.items():
        quoted = columns.replace(" end", ' "end"')
        connection.execute(f"CREATE TABLE {name} ({quoted})")
        connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)
    content = one_file(connection.serialize(), "sqlite")
    connection.close()
    return content
