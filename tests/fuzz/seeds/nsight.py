"""Exports of Nsight Systems: an SQLite file, and folders of Arrow or Parquet files."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.collect.importers import nsys_help as help_of
from tests.collect.importers.nsys_help import kernel, mark, process, thread
from tests.fuzz.content import Content, one_file

_WORK: dict[str, help_of.Table] = {
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        help_of.KERNEL,
        [kernel(100, 130, graphId=9, graphNodeId=1), kernel(130, 135, demangledName=3)],
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (help_of.COPY, [help_of.copy(10, 20, 1), help_of.copy(30, 31, 11)]),
    "CUPTI_ACTIVITY_KIND_RUNTIME": (help_of.RUNTIME, [[90, 99, 0, thread(), 5, 4, 0, 1]]),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (
        (*help_of.COPY[:7], "syncType", "eventId"),
        [(10, 20, 0, 1, 22, 6, process(), 2, 40)],
    ),
    "NVTX_EVENTS": (
        help_of.NVTX,
        [
            mark(1, None, 75, "NCCL", domainId=3),
            mark(10, 100, 59, "outer"),
            mark(20, 30, 59, None, textId=6),
            mark(40, 50, 60, "other", domainId=3),
            mark(60, None, 59, "open"),
        ],
    ),
    "PROCESSES": (("globalPid", "pid", "name"), [(process(), help_of.PROCESS, "train")]),
    "ThreadNames": (("nameId", "globalTid"), [(7, thread())]),
}  # fmt: skip
_HOST: dict[str, help_of.Table] = {
    "OSRT_API": (("start", "end", "globalTid", "nameId", "callchainId"), [(10, 20, thread(), 10, 1)]),
    "OSRT_CALLCHAINS": (("id", "symbol", "module", "stackDepth"), [(1, 10, 9, 0), (1, 7, 9, 1)]),
    "COMPOSITE_EVENTS": (("id", "start", "globalTid", "cpuCycles"), [(1, 15, thread(), 500)]),
    "SAMPLING_CALLCHAINS": (("id", "symbol", "module", "stackDepth"), [(1, 7, 9, 0)]),
    "GPU_METRICS": (("timestamp", "typeId", "metricId", "value"), [(20, 257, 5, 62), (30, 257, 5, 63)]),
    "TARGET_INFO_GPU_METRICS": (("metricId", "metricName"), [(5, "SM active")]),
    "CUDA_UM_GPU_PAGE_FAULT_EVENTS": (
        ("start", "end", "globalPid", "deviceId", "address", "numberOfPageFaults"),
        [(10, 15, process(), 1, 4096, 3)],
    ),
    "TARGET_INFO_GPU": (("id", "cuDevice", "name", "smCount", "totalMemory"), [(3, 0, "H100", 132, 1 << 36)]),
    "TARGET_INFO_CUDA_DEVICE": (("gpuId", "cudaId", "pid"), [(3, 0, help_of.PROCESS)]),
}  # fmt: skip


def nsys() -> list[Content]:
    """Return exports of all kinds with what ran on the GPU and on the host."""
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        for number, tables in enumerate((_WORK, _HOST)):
            database = help_of.export(Path(scratch, f"{number}.sqlite"), **tables)
            found.append(one_file(database.read_bytes(), "sqlite"))
            for kind in ("arrow", "parquet"):
                folder = help_of.folder(Path(scratch, f"{number}-{kind}"), kind, **tables)
                files = {file.name: file.read_bytes() for file in sorted(folder.iterdir())}
                found.append(Content(files, "arrow", folder=True))
    return found
