"""What devices did: kernels, whole graphs, copies, memsets, synchronisations, page faults, memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pasta.collect.importers.nsys.session import Batch, Integers, Session, constant, no_ids
from pasta.collect.importers.nsys.texts import joined, taken
from pasta.collect.shaping import collectives
from pasta.collect.shaping.sizes import not_negative

_U32, _U64, _I32, _I64 = pa.uint32(), pa.uint64(), pa.int32(), pa.int64()
_NAMES_BYTES_MAX = 16 << 20
_NO_EVENT, _NO_STREAM = (1 << 32) - 1, (1 << 32) - 1
_HOST = -1

_ON_DEVICE = (
    "start",
    "end",
    "deviceId",
    "contextId",
    "streamId",
    "correlationId",
    "globalPid",
)
_SHAPES = {
    f"{shape}_{axis}": f"{shape}{axis.upper()}" for shape in ("grid", "block") for axis in "xyz"
}
_SIZES = {
    "registers": "registersPerThread",
    "static_shared": "staticSharedMemory",
    "dynamic_shared": "dynamicSharedMemory",
}
_COPY_KINDS = (
    "unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP",
    "migration", "migration", "migration",
)  # fmt: skip
_MIGRATIONS = {11: ("host", "device"), 12: ("device", "host"), 13: ("device", "device")}
_MEMORY_KINDS = (
    "pageable", "pinned", "device", "array", "managed", "device static", "managed static", "",
)  # fmt: skip
_SPACES = ("host", "pinned", "device", "device", "managed", "device", "managed", "device")
_SYNC_KINDS = ("Unknown", "Event sync", "Stream wait sync", "Stream sync", "Context sync")


def add_kernels(session: Session) -> None:
    """Append the kernels, and those of them that communicate also as collectives."""
    operations = _operations(session)
    columns = (
        *_ON_DEVICE, *_SHAPES.values(), *_SIZES.values(),
        "demangledName", "shortName", "localMemoryPerThread", "graphId", "graphNodeId",
    )  # fmt: skip
    launched = 0
    for batch in session.batches("CUPTI_ACTIVITY_KIND_KERNEL", *columns):
        timed, times = session.timed(batch, "kernel", never_zero=True, ends=True)
        rows = _device_columns(session, timed) | times
        rows["launch_id"] = pa.array(np.arange(launched + 1, launched + 1 + len(timed), dtype="u8"))
        launched += len(timed)
        for column, name in (_SHAPES | _SIZES).items():
            rows[column] = timed.number(name, _U32)
        rows["local_bytes"] = timed.ids("localMemoryPerThread")
        rows["graph_id"] = timed.ids("graphId")
        rows["graph_node_id"] = timed.ids("graphNodeId")
        places = _name_places(session, timed)
        _append_named(session, rows, places)
        _add_collectives(session, rows, taken(operations, places))
    _add_graphs(session, launched)


def _name_places(session: Session, batch: Batch) -> Integers:
    """Return where the names of kernels stand: the demangled one, else the short one."""
    places = session.texts.places(batch.integers("demangledName", -1))
    if (places < 0).any():
        places = np.where(places < 0, session.texts.places(batch.integers("shortName", -1)), places)
        session.losses.skip(
            "kernel whose name is not in the file: kept without a name", int((places < 0).sum())
        )
    return places


def _append_named(session: Session, rows: dict[str, pa.Array[Any]], places: Integers) -> None:
    """Append kernels, so many at a time that their names fit into memory."""
    if not len(places):
        return
    size = int(session.texts.lengths[places[places >= 0]].sum())
    step = max(len(places) // (size // _NAMES_BYTES_MAX + 1), 1)
    for first in range(0, len(places), step):
        piece = {name: column.slice(first, step) for name, column in rows.items()}
        piece["name"] = taken(session.texts.values, places[first : first + step])
        session.append("kernel", piece)


def _add_graphs(session: Session, launched: int) -> None:
    """Append CUDA graphs that were recorded as a whole, each execution as one kernel."""
    for batch in session.batches("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", *_ON_DEVICE, "graphId"):
        timed, times = session.timed(batch, "CUDA graph", never_zero=True, ends=True)
        session.losses.skip(
            "CUDA graph recorded as a whole: kept as one kernel (nsys profile"
            " --cuda-graph-trace=node records its kernels)",
            len(timed),
        )
        rows = _device_columns(session, timed) | times
        rows["launch_id"] = pa.array(np.arange(launched + 1, launched + 1 + len(timed), dtype="u8"))
        launched += len(timed)
        rows["graph_id"] = timed.ids("graphId")
        rows["graph_node_id"] = no_ids(len(timed))
        rows["name"] = constant("CUDA graph", len(timed), pa.string())
        session.append("kernel", rows)


def _operations(session: Session) -> pa.Array[Any]:
    """Return for each text the collective operation that it names as a kernel, else null."""
    values = session.texts.values
    candidates: Any = pc.indices_nonzero(pc.match_substring(values, "ccl", ignore_case=True))
    operations: list[str | None] = [None] * len(values)
    for place in candidates.to_pylist():
        name = values[place].as_py()
        if collectives.is_communication(name):
            operations[place] = collectives.operation_of_kernel(name)
    return pa.array(operations, pa.string())


def _add_collectives(
    session: Session, rows: dict[str, pa.Array[Any]], operations: pa.Array[Any]
) -> None:
    if operations.null_count == len(operations):
        return
    communicate = operations.is_valid()
    shared = ("pid", "device", "ts", "dur", "launch_id", "correlation", "stream")
    chosen = {name: rows[name].filter(communicate) for name in shared}
    count = len(chosen["ts"])
    session.append(
        "collective",
        chosen
        | {
            "operation": operations.filter(communicate),
            "communicator": constant("", count, pa.string()),
            "dtype": constant("", count, pa.string()),
            "source": constant("name", count, pa.string()),
        },
    )


def add_copies(session: Session) -> None:
    """Append copies and page migrations."""
    columns = (*_ON_DEVICE, "bytes", "copyKind", "srcKind", "dstKind", "virtualAddress")
    for batch in session.batches("CUPTI_ACTIVITY_KIND_MEMCPY", *columns):
        timed, times = session.timed(batch, "copy", never_zero=True, ends=True)
        kind = timed.integers("copyKind")
        migrates = np.isin(kind, list(_MIGRATIONS))
        address = pc.if_else(pa.array(migrates), timed.addresses("virtualAddress"), None)
        session.append(
            "copy",
            _device_columns(session, timed)
            | times
            | {
                "kind": _labelled(_COPY_KINDS, kind),
                "source": _memory_kind(timed, "srcKind", kind, 0),
                "destination": _memory_kind(timed, "dstKind", kind, 1),
                "source_address": address,
                "destination_address": address,
                "bytes": not_negative(timed.column("bytes"), session.losses),
            },
        )
    _add_memsets(session)


def _memory_kind(batch: Batch, name: str, copy_kind: Integers, side: int) -> pa.Array[Any]:
    """Return the kind of memory on one side of copies, which for migrations their kind tells."""
    values = list(_MEMORY_KINDS) + [sides[side] for sides in _MIGRATIONS.values()]
    kind = batch.integers(name, len(_MEMORY_KINDS) - 1)
    kind = np.where((kind < 0) | (kind >= len(_MEMORY_KINDS)), len(_MEMORY_KINDS) - 1, kind)
    for place, migration in enumerate(_MIGRATIONS):
        kind = np.where(copy_kind == migration, len(_MEMORY_KINDS) + place, kind)
    return taken(pa.array(values, pa.string()), kind)


def _add_memsets(session: Session) -> None:
    for batch in session.batches("CUPTI_ACTIVITY_KIND_MEMSET", *_ON_DEVICE, "bytes", "memKind"):
        timed, times = session.timed(batch, "memset", never_zero=True, ends=True)
        session.append(
            "copy",
            _device_columns(session, timed)
            | times
            | {
                "kind": constant("memset", len(timed), pa.string()),
                "source": constant("", len(timed), pa.string()),
                "destination": _memory_kind(timed, "memKind", np.zeros(len(timed), np.int64), 1),
                "bytes": not_negative(timed.column("bytes"), session.losses),
            },
        )


def add_synchronisations(session: Session) -> None:
    """Append synchronisations."""
    columns = (*_ON_DEVICE, "syncType", "deprecatedSyncType", "eventId")
    for batch in session.batches("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", *columns):
        timed, times = session.timed(batch, "synchronisation", ends=True)
        rows = _device_columns(session, timed) | times
        stream = rows["stream"].fill_null(_NO_STREAM).to_numpy()
        event = np.maximum(timed.integers("eventId"), 0)
        kind = np.where(
            timed.known("syncType"),
            timed.integers("syncType"),
            timed.integers("deprecatedSyncType"),
        )
        rows["stream"] = pa.array(stream, mask=(stream < 0) | (stream == _NO_STREAM))
        rows["event_id"] = pa.array(np.where(event == _NO_EVENT, 0, event).astype(np.uint64))
        rows["waited_correlation"] = no_ids(len(timed))
        rows["kind"] = _labelled(_SYNC_KINDS, kind)
        session.append("sync", rows)


def add_page_faults(session: Session) -> None:
    """Append faults of unified memory as metrics: when, how many, on which side."""
    columns = ("start", "end", "globalPid", "deviceId", "numberOfPageFaults")
    for batch in session.batches("CUDA_UM_GPU_PAGE_FAULT_EVENTS", *columns):
        timed, times = session.timed(batch, "page fault")
        count = timed.integers("numberOfPageFaults", 1)
        rows = {"device": timed.number("deviceId", _I32).fill_null(_HOST)}
        _add_faults(session, timed, times | rows, "gpu_page_faults", count)
    columns = ("start", "end", "globalPid", "sourceFile", "sourceLine")
    for batch in session.batches("CUDA_UM_CPU_PAGE_FAULT_EVENTS", *columns):
        timed, times = session.timed(batch, "page fault")
        rows = {"device": constant(_HOST, len(timed), _I32), "source": _source(session, timed)}
        count = np.ones(len(timed), dtype=np.int64)
        _add_faults(session, timed, times | rows, "cpu_page_faults", count)


def _add_faults(
    session: Session, batch: Batch, rows: dict[str, pa.Array[Any]], name: str, count: Integers
) -> None:
    session.losses.skip("address of a page fault: left out, the fault is kept", len(batch))
    rows |= {
        "pid": pa.array(session.processes(batch)),
        "launch_id": no_ids(len(batch)),
        "name": constant(name, len(batch), pa.string()),
        "value": pa.array(count.astype(np.float64)),
        "unit": constant("faults", len(batch), pa.string()),
    }
    session.append("metric", rows)


def _source(session: Session, batch: Batch) -> pa.Array[Any]:
    """Return the source lines of faults as `file:line`; null where unknown."""
    file = session.texts.take(batch.integers("sourceFile", -1))
    line = pa.array(batch.integers("sourceLine")).cast(pa.string())
    return joined(file, line, ":")


def add_memory(session: Session) -> None:
    """Append allocations and releases."""
    columns = (
        "start", "end", "globalPid", "deviceId", "address", "bytes", "memKind",
        "memoryOperationType", "streamId", "localMemoryPoolAddress",
    )  # fmt: skip
    for batch in session.batches("CUDA_GPU_MEMORY_USAGE_EVENTS", *columns):
        timed, times = session.timed(batch, "allocation or release")
        kind = timed.integers("memKind", 2)
        pooled = timed.integers("localMemoryPoolAddress") != 0
        on_host = np.isin(kind, (0, 1))
        device = timed.number("deviceId", _I32).fill_null(_HOST).to_numpy()
        operation = timed.integers("memoryOperationType")
        session.append(
            "memory",
            {
                "pid": pa.array(session.processes(timed)),
                "device": pa.array(np.where(on_host, np.int32(_HOST), device)),
                "ts": times["ts"],
                "event": _labelled(("allocate", "release"), operation),
                "space": pc.if_else(pa.array(pooled), "pool", _labelled(_SPACES, kind)),
                "address": timed.addresses("address"),
                "bytes": not_negative(timed.column("bytes"), session.losses),
                "object_id": no_ids(len(timed)),
                "stream": timed.column("streamId"),
            },
        )


def _labelled(labels: tuple[str, ...], numbers: Integers) -> pa.Array[Any]:
    """Return the label of each number, else the number itself."""
    known = (numbers >= 0) & (numbers < len(labels))
    found = taken(pa.array(labels, pa.string()), np.where(known, numbers, -1))
    return found if known.all() else pc.coalesce(found, pa.array(numbers).cast(pa.string()))


def _device_columns(session: Session, batch: Batch) -> dict[str, pa.Array[Any]]:
    """Return what all work of devices has."""
    return {
        "pid": pa.array(session.processes(batch)),
        "device": batch.number("deviceId", _I32).fill_null(_HOST),
        "correlation": batch.ids("correlationId"),
        "external_id": no_ids(len(batch)),
        "context": batch.column("contextId").fill_null(0),
        "stream": batch.column("streamId"),
    }
