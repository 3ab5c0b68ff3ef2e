"""rocprofiler-compute's database: dispatches, and metrics of kernels."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from pasta.collect.containers.sqlite_tables import SqliteTables
from pasta.collect.importers.rocm.lookup import Lookups
from pasta.collect.importers.rocm.rows import RocmRows, chosen
from pasta.collect.losses import Losses
from pasta.trace_writer import PartWriter

_I64: pa.DataType = pa.int64()
_F64: pa.DataType = pa.float64()
_TEXT: pa.DataType = pa.string()
_SEVERAL = (
    "metrics of kernels that were dispatched several times, which are of no one launch: left out"
)
_WHOLE = "metrics of the whole run, not of a kernel: left out"
_DISPATCHES = ("dispatch_uuid", "kernel_uuid", "gpu_id", "start_timestamp", "end_timestamp")


def read(tables: SqliteTables, lookups: Lookups, part: PartWriter, losses: Losses) -> int:
    """Append what a database holds; it names no process, so the result is 0."""
    rows = RocmRows(part, losses, 0)
    names = lookups.of_table("compute_kernel", {"kernel_name": _TEXT}, key="kernel_uuid")
    dispatches = lookups.of_table(
        "compute_dispatch", dict.fromkeys(_DISPATCHES[1:], _I64), key="dispatch_uuid"
    )
    table = dispatches.rows.combine_chunks()
    columns = {name: table[name].combine_chunks() for name in _DISPATCHES}
    if table.num_rows:
        (kernel_names,) = names.of(columns["kernel_uuid"], "kernel_name")
        rows.kernels({**_times(columns), "name": kernel_names})
    _append_metrics(tables, lookups, rows, columns, losses)
    whole = sum(
        batch.num_rows
        for batch in tables.read("compute_workload_metric_value", {"value_uuid": _I64})
    )
    losses.skip(_WHOLE, whole)
    part.append("process", _process(tables))
    return 0


def _times(dispatches: dict[str, pa.Array[Any]]) -> dict[str, pa.Array[Any]]:
    return {
        "start": dispatches["start_timestamp"],
        "end": dispatches["end_timestamp"],
        "device": dispatches["gpu_id"].cast(pa.int32(), safe=False),
        "launch_id": dispatches["dispatch_uuid"].cast(pa.uint64(), safe=False),
    }


def _append_metrics(
    tables: SqliteTables,
    lookups: Lookups,
    rows: RocmRows,
    dispatches: dict[str, pa.Array[Any]],
    losses: Losses,
) -> None:
    """Append metrics of kernels that were dispatched once, as those of that launch."""
    definitions = lookups.of_table(
        "compute_metric_definition", {"name": _TEXT, "unit": _TEXT}, key="metric_uuid"
    )
    kernels = dispatches["kernel_uuid"].fill_null(0).to_numpy(zero_copy_only=False)
    distinct, first, counts = np.unique(kernels, return_index=True, return_counts=True)
    once = {
        kernel: place
        for kernel, place, count in zip(distinct.tolist(), first.tolist(), counts, strict=True)
        if count == 1
    }
    wanted = {"metric_uuid": _I64, "kernel_uuid": _I64, "value_name": _TEXT, "value": _F64}
    for batch in tables.read("compute_kernel_metric_value", wanted):
        places = [once.get(kernel or 0) for kernel in batch["kernel_uuid"].to_pylist()]
        kept = np.array([place is not None for place in places], dtype=bool)
        losses.skip(_SEVERAL, int((~kept).sum()))
        names, units = definitions.of(batch["metric_uuid"], "name", "unit")
        raw = {
            "place": pa.array(places, _I64),
            "name": _joined(names, batch["value_name"]),
            "unit": units.fill_null(""),
            "value": batch["value"],
        }
        columns = chosen(raw, kept)
        place = columns.pop("place")
        launch = {name: column.take(place) for name, column in _times(dispatches).items()}
        rows.metrics({**launch, **columns})


def _joined(names: pa.Array[Any], values: pa.Array[Any]) -> pa.Array[Any]:
    pairs = zip(names.to_pylist(), values.to_pylist(), strict=True)
    return pa.array([f"{name or ''} {value or ''}".strip() for name, value in pairs], _TEXT)


def _process(tables: SqliteTables) -> pa.Table:
    """Return the row of `process`, from what describes the system."""
    told = tables.table("compute_workload", {"sys_info_extdata": _TEXT})["sys_info_extdata"]
    try:
        system = json.loads(told[0].as_py() or "{}") if len(told) else {}
    except (ValueError, RecursionError):
        system = {}
    host, command = (
        str(system[key]) if isinstance(system, dict) and system.get(key) else None
        for key in ("hostname", "command")
    )
    return pa.table(
        {
            "pid": pa.array([0], _I64),
            "host": pa.array([host], _TEXT),
            "command": pa.array([command], _TEXT),
        }
    )
