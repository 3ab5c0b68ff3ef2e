"""RPD files, the older format of the name: `rocpd_op` ran on devices, `rocpd_api` on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pasta.collect.containers.sqlite_tables import SqliteTables
from pasta.collect.demangle import demangled
from pasta.collect.importers.rocm.lookup import Lookup, Lookups
from pasta.collect.importers.rocm.rows import RocmRows, chosen, fitting
from pasta.collect.losses import Losses
from pasta.trace_writer import PartWriter

_I64: pa.DataType = pa.int64()
_F64: pa.DataType = pa.float64()
_TEXT: pa.DataType = pa.string()
_U32: pa.DataType = pa.uint32()
_COPIES = {
    "CopyHostToDevice": "HtoD",
    "CopyDeviceToHost": "DtoH",
    "CopyDeviceToDevice": "DtoD",
    "CopyHostToHost": "HtoH",
    "FillBuffer": "memset",
}
_WAITS = frozenset({"Barrier", "BarrierAnd", "BarrierOr", "Marker"})
_IN_THREADS = frozenset({"hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel"})
_MARKER = "UserMarker"
_NO_WORK = "barriers and markers of queues, which do no work: left out"
_NO_CALL = "operation that no call is recorded of: given the first process"
_AXES = "XYZ"


def read(tables: SqliteTables, lookups: Lookups, part: PartWriter, losses: Losses) -> int:
    """Append what an RPD file holds, and return its first process."""
    return _Rpd(tables, lookups, part, losses).read()


class _Rpd:
    """One file; all rows that name no process are of the first."""

    def __init__(
        self, tables: SqliteTables, lookups: Lookups, part: PartWriter, losses: Losses
    ) -> None:
        self._tables = tables
        self._lookups = lookups
        self._part = part
        self._losses = losses
        self._texts = lookups.of_table("rocpd_string", {"string": _TEXT})
        self._calls = lookups.of_table("rocpd_api", {"pid": _I64, "apiName_id": _I64})
        pids = self._calls.distinct("pid").drop_null().to_pylist()
        self._pids: list[int] = [pid for pid in pids if pid is not None] or [0]
        self._rows = {pid: RocmRows(part, losses, pid) for pid in self._pids}

    def read(self) -> int:
        """Write the rows of all tables; return the process id of the first process, 0 where unknown."""
        self._read_calls()
        self._read_operations()
        self._read_monitor()
        for rows in self._rows.values():
            rows.finish()
        self._part.append("process", pa.table({"pid": pa.array(self._pids, _I64)}))
        return self._pids[0]

    def _read_calls(self) -> None:
        columns = dict.fromkeys(("id", "pid", "tid", "start", "end", "apiName_id", "args_id"), _I64)
        for batch in self._tables.read("rocpd_api", columns):
            (names,) = self._texts.of(batch["apiName_id"], "string")
            (arguments,) = self._texts.of(batch["args_id"], "string")
            times = {name: batch[name] for name in ("start", "end", "tid")}
            marks = np.array([name == _MARKER for name in names.to_pylist()], dtype=bool)
            self._append("spans", batch["pid"], {**times, "name": arguments}, marks)
            correlation = batch["id"].cast(pa.uint64(), safe=False)
            self._append(
                "calls", batch["pid"], {**times, "name": names, "correlation": correlation}, ~marks
            )

    def _read_operations(self) -> None:
        launches = self._lookups.of_table(
            "rocpd_kernelapi",
            {
                **{f"grid{axis}": _I64 for axis in _AXES},
                **{f"workgroup{axis}": _I64 for axis in _AXES},
                "groupSegmentSize": _I64,
                "privateSegmentSize": _I64,
            },
            key="api_ptr_id",
        )
        copies = self._lookups.of_table("rocpd_copyapi", {"size": _I64}, key="api_ptr_id")
        api_of = self._lookups.of_table("rocpd_api_ops", {"api_id": _I64}, key="op_id")
        wanted = ("id", "gpuId", "queueId", "start", "end", "description_id", "opType_id")
        for batch in self._tables.read("rocpd_op", dict.fromkeys(wanted, _I64)):
            (api,) = api_of.of(batch["id"], "api_id")
            self._append_operations(batch, api, launches, copies)

    def _append_operations(
        self, batch: pa.RecordBatch, api: pa.Array[Any], launches: Lookup, copies: Lookup
    ) -> None:
        (kinds,) = self._texts.of(batch["opType_id"], "string")
        (descriptions,) = self._texts.of(batch["description_id"], "string")
        pids, api_names = self._calls.of(api, "pid", "apiName_id")
        self._losses.skip(_NO_CALL, pids.null_count)
        told = kinds.to_pylist()
        copied = np.array([kind in _COPIES for kind in told], dtype=bool)
        waits = np.array([kind in _WAITS for kind in told], dtype=bool)
        self._losses.skip(_NO_WORK, int(waits.sum()))
        common = {
            "start": batch["start"],
            "end": batch["end"],
            "device": batch["gpuId"].cast(pa.int32(), safe=False),
            "stream": batch["queueId"],
            "correlation": api.fill_null(0).cast(pa.uint64(), safe=False),
        }
        (size,) = copies.of(api, "size")
        kind = pa.array([_COPIES.get(each or "") for each in told], _TEXT)
        self._append("copies", pids, {**common, "kind": kind, "bytes": size}, copied)
        names = [
            demangled(description) if description else each
            for description, each in zip(descriptions.to_pylist(), told, strict=True)
        ]
        launch_ids = batch["id"].cast(pa.uint64(), safe=False)
        shapes = self._shapes(api, api_names, launches)
        kernels = {**common, **shapes, "name": pa.array(names, _TEXT), "launch_id": launch_ids}
        self._append("kernels", pids, kernels, ~copied & ~waits)

    def _shapes(
        self, api: pa.Array[Any], api_names: pa.Array[Any], launches: Lookup
    ) -> dict[str, pa.Array[Any]]:
        """Return the shapes of launches; grids are in blocks, but in threads for some calls."""
        (functions,) = self._texts.of(api_names, "string")
        in_threads = pc.is_in(functions, pa.array(sorted(_IN_THREADS)))
        shapes: dict[str, pa.Array[Any]] = {}
        for axis in _AXES:
            grid, block = launches.of(api, f"grid{axis}", f"workgroup{axis}")
            threads = pc.if_else(in_threads, grid, pc.multiply(grid, block))
            shapes[f"threads_{axis.lower()}"] = fitting(threads, _I64)
            shapes[f"block_{axis.lower()}"] = fitting(block, _U32)
        shared, local = launches.of(api, "groupSegmentSize", "privateSegmentSize")
        return {
            **shapes,
            "shared_bytes": fitting(shared, _U32),
            "local_bytes": fitting(local, _U32).cast(pa.uint64()),
        }

    def _read_monitor(self) -> None:
        columns = {
            "deviceId": _I64, "monitorType": _TEXT, "start": _I64, "end": _I64, "value": _TEXT,
        }  # fmt: skip
        for batch in self._tables.read("rocpd_monitor", columns):
            raw = {
                "start": batch["start"],
                "end": batch["end"],
                "device": batch["deviceId"].cast(pa.int32(), safe=False),
                "name": batch["monitorType"],
                "value": pa.array([_number(text) for text in batch["value"].to_pylist()], _F64),
                "unit": pa.repeat("", batch.num_rows),
            }
            self._rows[self._pids[0]].metrics(raw)

    def _append(
        self, what: str, pids: pa.Array[Any], raw: dict[str, pa.Array[Any]], kept: Any
    ) -> None:
        """Append those of the rows that are kept, process by process."""
        owners = pids.fill_null(self._pids[0]).to_numpy(zero_copy_only=False)
        for pid, rows in self._rows.items():
            mine = kept & (owners == pid)
            if mine.any():
                getattr(rows, what)(chosen(raw, mine))


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None
