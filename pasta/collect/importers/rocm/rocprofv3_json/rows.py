"""Records of rocprofv3 as columns of a trace's tables."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pasta.collect.containers.json_uniform import UniformRecords
from pasta.collect.importers.rocm.rocprofv3_json.described import Described
from pasta.collect.importers.rocm.rocprofv3_json.fields import Fields
from pasta.collect.importers.rocm.rows import RocmRows, chosen
from pasta.collect.losses import Losses
from pasta.collect.shaping.columns import Columns
from pasta.collect.shaping.copies import copy_device, copy_kind
from pasta.trace_writer import PartWriter

_COMPILERS = frozenset({"HIP_COMPILER_API", "HIP_COMPILER_API_EXT"})
_RANGES = frozenset(
    {"roctxMarkA", "roctxRangePushA", "roctxRangeStartA", "roctxThreadRangeA", "roctxProcessRangeA"}
)
_EVENTS = {
    "MEMORY_ALLOCATION_ALLOCATE": "allocate",
    "MEMORY_ALLOCATION_VMEM_ALLOCATE": "allocate",
    "MEMORY_ALLOCATION_FREE": "release",
    "MEMORY_ALLOCATION_VMEM_FREE": "release",
}
_INSERTED = "calls that the compiler puts around launches and into start-up: left out"
_NO_RANGE = "roctx call that is no range or mark: left out"
_NO_NAME = "operation that the file does not name: named by its number"
_NO_ALLOCATION = "memory event that is no allocation or release: left out"

Batch = list[Any] | UniformRecords


class RecordRows:
    """Appends the records of one process.

    Args:
        part: where the rows go.
        losses: where what cannot be kept is counted.
        described: what the numbers in records mean.
    """

    def __init__(self, part: PartWriter, losses: Losses, described: Described) -> None:
        self._rows = RocmRows(part, losses, described.pid)
        self._losses = losses
        self._described = described
        self._columns = Columns(losses)
        self._counted: NDArray[np.uint64] = np.zeros(0, dtype=np.uint64)

    def finish(self) -> None:
        """Append what is known once all records have been read."""
        self._rows.finish()

    def kernels(self, batch: Batch, _group: str) -> None:
        """Append kernels, but those that were appended with their counters."""
        columns = self._kernel_columns(Fields(batch, self._columns), "", "dispatch_info.")
        if len(self._counted):
            launches = columns["launch_id"].to_numpy(zero_copy_only=False)
            fresh = pa.array(~np.isin(launches, self._counted))
            columns = {name: column.filter(fresh) for name, column in columns.items()}
        self._rows.kernels(columns)

    def counted(self, batch: Batch, _group: str) -> None:
        """Append kernels and the values of their counters."""
        fields = Fields(batch, self._columns)
        columns = self._kernel_columns(fields, "dispatch_data.", "dispatch_data.dispatch_info.")
        launches = columns["launch_id"].to_numpy(zero_copy_only=False)
        self._counted = np.union1d(self._counted, launches[launches > 0])
        self._rows.kernels(columns)
        if isinstance(batch, list):
            self._append_metrics(batch, columns)

    def calls(self, batch: Batch, group: str) -> None:
        """Append calls of an API, and work of the runtime on host threads."""
        fields = Fields(batch, self._columns)
        kinds, operations = self._operations(fields, group)
        columns = {
            **_host(fields),
            "correlation": fields.ids("correlation_id.internal"),
            "name": pa.array(operations, pa.string()),
            "result": pa.array([_result(value) for value in fields.values("retval")], pa.int32()),
        }
        kept = np.array([kind not in _COMPILERS for kind in kinds], dtype=bool)
        self._losses.skip(_INSERTED, int((~kept).sum()))
        self._rows.calls(chosen(columns, kept))

    def markers(self, batch: Batch, group: str) -> None:
        """Append roctx ranges and marks as spans."""
        fields = Fields(batch, self._columns)
        _, operations = self._operations(fields, group)
        correlations = fields.ids("correlation_id.internal").to_pylist()
        names = [
            self._described.messages.get(correlation or 0, operation)
            for correlation, operation in zip(correlations, operations, strict=True)
        ]
        kept = np.array([operation in _RANGES for operation in operations], dtype=bool)
        self._losses.skip(_NO_RANGE, int((~kept).sum()))
        self._rows.spans(chosen({**_host(fields), "name": pa.array(names, pa.string())}, kept))

    def copies(self, batch: Batch, _group: str) -> None:
        """Append copies; their kind is told by where they come from and go to."""
        fields = Fields(batch, self._columns)
        sources, destinations = (
            self._described.devices(fields.values(f"{end}_agent_id.handle"), self._losses)
            for end in ("src", "dst")
        )
        ends = list(zip(sources, destinations, strict=True))
        self._rows.copies(
            {
                **_times(fields),
                "device": pa.array([copy_device(*each) for each in ends], pa.int32()),
                "correlation": fields.ids("correlation_id.internal"),
                "stream": fields.numbers("stream_id.handle", pa.int64()),
                "kind": pa.array([copy_kind(*each) for each in ends], pa.string()),
                "source_address": _addresses(fields.values("src_address")),
                "destination_address": _addresses(fields.values("dst_address")),
                "bytes": fields.numbers("bytes", pa.int64()),
            }
        )

    def allocations(self, batch: Batch, group: str) -> None:
        """Append allocations and releases; those on a CPU's memory are pinned."""
        fields = Fields(batch, self._columns)
        _, operations = self._operations(fields, group)
        events = [_EVENTS.get(operation) for operation in operations]
        handles = zip(events, fields.values("agent_id.handle"), strict=True)
        devices = [
            self._described.device(handle, self._losses) if event == "allocate" else None
            for event, handle in handles
        ]
        spaces = ["pinned" if device == -1 else "device" for device in devices]
        kept = np.array([event is not None for event in events], dtype=bool)
        self._losses.skip(_NO_ALLOCATION, int((~kept).sum()))
        columns = {
            **_host(fields),
            "event": pa.array(events, pa.string()),
            "device": pa.array(devices, pa.int32()),
            "space": pa.array(spaces, pa.string()),
            "address": _addresses(fields.values("address")),
            "bytes": fields.numbers("allocation_size", pa.int64()),
        }
        self._rows.allocations(chosen(columns, kept))

    def _kernel_columns(self, fields: Fields, told: str, info: str) -> dict[str, pa.Array[Any]]:
        """Return the columns of kernels.

        Args:
            fields: the records.
            told: path below which times and correlation stand.
            info: path below which the launch is described.
        """
        described = self._described
        kernels = fields.numbers(f"{info}kernel_id", pa.int64())
        columns: dict[str, pa.Array[Any]] = {
            **_times(fields, told),
            **described.kernel_columns(kernels, self._losses),
            "device": described.device_column(
                fields.numbers(f"{info}agent_id.handle", pa.uint64()), self._losses
            ),
            "launch_id": fields.ids(f"{info}dispatch_id"),
            "correlation": fields.ids(f"{told}correlation_id.internal"),
            "stream": fields.numbers("stream_id.handle", pa.int64()),
            "shared_bytes": fields.numbers(f"{info}group_segment_size", pa.uint32()),
            "local_bytes": fields.numbers(f"{info}private_segment_size", pa.uint64()),
        }
        if columns["stream"].null_count:
            queues = fields.numbers(f"{info}queue_id.handle", pa.int64())
            columns["stream"] = pc.coalesce(columns["stream"], queues)
        for axis in "xyz":
            columns[f"block_{axis}"] = fields.numbers(f"{info}workgroup_size.{axis}", pa.uint32())
            columns[f"threads_{axis}"] = fields.numbers(f"{info}grid_size.{axis}", pa.uint32())
        return columns

    def _append_metrics(self, batch: list[Any], kernels: dict[str, pa.Array[Any]]) -> None:
        """Append a value of each counter, summed over the parts of the device."""
        rows: list[int] = []
        names: list[str] = []
        values: list[float] = []
        for row, record in enumerate(batch):
            sums: defaultdict[int, float] = defaultdict(float)
            for counter in record.records:
                sums[counter.counter_id.handle or 0] += counter.value
            rows += [row] * len(sums)
            names += [self._described.counter(handle, self._losses) for handle in sums]
            values += sums.values()
        chosen = pa.array(rows, pa.int64())
        of_kernel = ("start", "end", "device", "launch_id")
        self._rows.metrics(
            {
                **{name: kernels[name].take(chosen) for name in of_kernel},
                "name": pa.array(names, pa.string()),
                "value": pa.array(values, pa.float64()),
                "unit": pa.repeat("", len(rows)),
            }
        )

    def _operations(self, fields: Fields, group: str) -> tuple[list[str], list[str]]:
        """Return what kinds and operations of records are called."""
        pairs = list(zip(fields.values("kind"), fields.values("operation"), strict=True))
        known = {pair: self._described.operation(group, *pair) for pair in set(pairs)}
        unnamed = sum(not known[pair][1] for pair in pairs)
        self._losses.fault(_NO_NAME, unnamed)
        kinds = [known[pair][0] for pair in pairs]
        return kinds, [known[pair][1] or f"operation {pair[1]} of kind {pair[0]}" for pair in pairs]


def _times(fields: Fields, below: str = "") -> dict[str, pa.Array[Any]]:
    return {
        "start": fields.numbers(f"{below}start_timestamp", pa.int64()),
        "end": fields.numbers(f"{below}end_timestamp", pa.int64()),
    }


def _host(fields: Fields) -> dict[str, pa.Array[Any]]:
    return {**_times(fields), "tid": fields.numbers("thread_id", pa.int64())}


def _addresses(values: list[Any]) -> pa.Array[Any]:
    """Return addresses, which are written as numbers, in hexadecimal, or as handles."""
    return pa.array([_address(value) for value in values], pa.uint64())


def _address(value: Any) -> int | None:
    if isinstance(value, dict):
        value = value.get("handle")
    if isinstance(value, str):
        try:
            value = int(value, 16)
        except ValueError:
            return None
    return value if type(value) is int and 0 <= value < 1 << 64 else None


def _result(value: Any) -> int | None:
    """Return the status in `{"hipError_t_retval": 0}`; `None`: the call returns none."""
    if isinstance(value, dict) and len(value) == 1:
        (status,) = value.values()
        if type(status) is int and -(1 << 31) <= status < 1 << 31:
            return status
    return None
