"""The files of one process that rocprofv3 wrote as CSV, as rows of a trace."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pasta.collect.containers.csv_rows import CsvRows
from pasta.collect.demangle import demangled
from pasta.collect.importers.rocm.cells import Cells
from pasta.collect.importers.rocm.rows import RocmRows, chosen
from pasta.collect.losses import Losses
from pasta.collect.shaping.copies import copy_device, copy_kind
from pasta.collect.sources import Source
from pasta.trace_writer import PartWriter

_HOST = -1
_AGENT = re.compile(r"(?:(?P<type>CPU|GPU|Agent)[ _-]?)?(?P<number>\d{1,9})")
_DIRECTIONS = {
    "HOST_TO_DEVICE": "HtoD",
    "DEVICE_TO_HOST": "DtoH",
    "DEVICE_TO_DEVICE": "DtoD",
    "HOST_TO_HOST": "HtoH",
}
_EVENTS = {
    "ALLOCATE": "allocate",
    "VMEM_ALLOCATE": "allocate",
    "FREE": "release",
    "VMEM_FREE": "release",
}
_INSERTED = "calls that the compiler puts around launches and into start-up: left out"
_NO_RANGE = "roctx call that is no range or mark: left out"
_NO_ALLOCATION = "memory event that is no allocation or release: left out"
_NO_AGENT = "agent that cannot be told: device unknown"
_OPERATION = re.compile(r"^(?:MEMORY_COPY_|MEMORY_ALLOCATION_)")
_NO_RANGES = frozenset({"roctxRangePop", "roctxRangeStop", "roctxGetThreadId"})


class CsvTables:
    """Appends the rows of one process, file after file.

    Args:
        part: where they go.
        losses: where what cannot be kept is counted.
        pid: the process.
    """

    def __init__(self, part: PartWriter, losses: Losses, pid: int) -> None:
        self.pid = pid
        self._part = part
        self._losses = losses
        self._rows = RocmRows(part, losses, pid)
        self._ordinals: dict[int, int] = {}
        self._counted: NDArray[np.uint64] = np.zeros(0, dtype=np.uint64)

    def read(self, kind: str, source: Source) -> None:
        """Append the rows of a file of one kind."""
        take = {
            "agents": self._agents,
            "counters": self._counters,
            "kernels": self._kernels,
            "copies": self._copies,
            "allocations": self._allocations,
            "scratch": self._scratch,
            "calls": self._calls,
        }[kind]
        for batch in CsvRows(source, self._losses).batches():
            take(Cells(batch, self._losses))
        for damage in source.damage:
            self._losses.fault(damage)

    def finish(self) -> None:
        """Append process and threads."""
        self._rows.finish()
        self._part.append("process", pa.table({"pid": pa.array([self.pid], pa.int64())}))

    def _agents(self, cells: Cells) -> None:
        nodes, types = cells.numbers("Node_Id").to_pylist(), cells.texts("Agent_Type").to_pylist()
        order = sorted(range(len(nodes)), key=lambda row: nodes[row] or 0)
        gpus = [row for row in order if types[row] == "GPU"]
        self._ordinals.update((nodes[row] or 0, _HOST) for row in order if row not in gpus)
        self._ordinals.update((nodes[row] or 0, place) for place, row in enumerate(gpus))
        chosen = pa.array(gpus, pa.int64())
        rows = {
            "pid": pa.repeat(pa.scalar(self.pid, pa.int64()), len(gpus)),
            "device": pa.array(range(len(gpus)), pa.int32()),
            "vendor": pa.repeat("amd", len(gpus)),
            "name": cells.texts("Product_Name").take(chosen),
            "compute_capability": cells.texts("Name").take(chosen),
            "multiprocessors": cells.numbers("Cu_Count", pa.int32()).take(chosen),
        }
        self._part.append("device", pa.table(rows))

    def _kernels(self, cells: Cells) -> None:
        columns = self._kernel_columns(cells)
        for axis in "xyz":
            columns[f"block_{axis}"] = cells.numbers(f"Workgroup_Size_{axis.upper()}", pa.uint32())
            columns[f"threads_{axis}"] = cells.numbers(f"Grid_Size_{axis.upper()}", pa.uint32())
        launches = columns["launch_id"].to_numpy(zero_copy_only=False)
        self._rows.kernels(chosen(columns, ~np.isin(launches, self._counted)))

    def _counters(self, cells: Cells) -> None:
        """Append a kernel for each new dispatch, and a value for each row."""
        columns = self._kernel_columns(cells)
        block, threads = (
            cells.numbers(f"{size}_Size", pa.uint32()) for size in ("Workgroup", "Grid")
        )
        columns.update(block_x=block, threads_x=threads)
        launches = columns["launch_id"].to_numpy(zero_copy_only=False)
        first = np.zeros(len(launches), dtype=bool)
        first[np.unique(launches, return_index=True)[1]] = True
        self._rows.kernels(chosen(columns, first & ~np.isin(launches, self._counted)))
        self._counted = np.union1d(self._counted, launches[launches > 0])
        of_kernel = ("start", "end", "device", "launch_id")
        self._rows.metrics(
            {
                **{name: columns[name] for name in of_kernel if name in columns},
                "name": cells.texts("Counter_Name"),
                "value": cells.floats("Counter_Value"),
                "unit": pa.repeat("", len(cells)),
            }
        )

    def _kernel_columns(self, cells: Cells) -> dict[str, pa.Array[Any]]:
        names = cells.texts("Kernel_Name").dictionary_encode()
        plain = pa.array(
            [name and demangled(name.removesuffix(".kd")) for name in names.dictionary.to_pylist()],
            pa.string(),
        )
        columns = {
            "device": self._devices(cells.texts("Agent_Id")),
            "launch_id": cells.numbers("Dispatch_Id", pa.uint64()).fill_null(0),
            "correlation": cells.numbers("Correlation_Id", pa.uint64()),
            "stream": cells.first_of("Stream_Id", "Queue_Id"),
            "name": plain.take(names.indices),
            "registers": cells.registers("VGPR_Count", "Accum_VGPR_Count"),
            "shared_bytes": cells.first_of(
                "LDS_Block_Size", "Group_Segment_Size", kind=pa.uint32()
            ),
            "local_bytes": cells.first_of("Scratch_Size", "Private_Segment_Size", kind=pa.uint64()),
        }
        return {**columns, **cells.times()}

    def _copies(self, cells: Cells) -> None:
        sources, destinations = (
            self._devices(cells.texts(f"{end}_Agent_Id")).to_pylist()
            for end in ("Source", "Destination")
        )
        directions = [_direction(text or "") for text in cells.texts("Direction").to_pylist()]
        ends = list(zip(sources, destinations, strict=True))
        kinds = [
            _copy_kind(direction, *each) for direction, each in zip(directions, ends, strict=True)
        ]
        self._rows.copies(
            {
                **cells.times(),
                "device": pa.array(
                    [_copy_device(kind, *each) for kind, each in zip(kinds, ends, strict=True)],
                    pa.int32(),
                ),
                "correlation": cells.numbers("Correlation_Id", pa.uint64()),
                "stream": cells.numbers("Stream_Id"),
                "kind": pa.array(kinds, pa.string()),
            }
        )

    def _allocations(self, cells: Cells) -> None:
        operations = [
            _OPERATION.sub("", text or "") for text in cells.texts("Operation").to_pylist()
        ]
        events = [_EVENTS.get(operation) for operation in operations]
        kept = np.array([event is not None for event in events], dtype=bool)
        self._losses.skip(_NO_ALLOCATION, int((~kept).sum()))
        agents = pc.if_else(
            pa.array([event == "allocate" for event in events]), cells.texts("Agent_Id"), None
        )
        devices = self._devices(agents)
        spaces = ["pinned" if device == _HOST else "device" for device in devices.to_pylist()]
        columns = {
            **cells.times(),
            "tid": cells.numbers("Thread_Id"),
            "event": pa.array(events, pa.string()),
            "device": devices,
            "space": pa.array(spaces, pa.string()),
            "address": pa.array(
                [_address(text) for text in cells.texts("Address").to_pylist()], pa.uint64()
            ),
            "bytes": cells.numbers("Allocation_Size"),
        }
        self._rows.allocations(chosen(columns, kept))

    def _scratch(self, cells: Cells) -> None:
        columns = {
            **cells.times(),
            "tid": cells.numbers("Thread_Id"),
            "name": cells.texts("Operation"),
        }
        self._rows.calls(columns)

    def _calls(self, cells: Cells) -> None:
        domains: pa.Array[Any] = cells.texts("Domain").fill_null("")
        names = cells.texts("Function")
        marks = _flags(pc.starts_with(domains, "MARKER"))
        inserted = _flags(pc.match_substring(domains, "COMPILER"))
        no_range = marks & _flags(pc.is_in(names, pa.array(sorted(_NO_RANGES))))
        self._losses.skip(_INSERTED, int(inserted.sum()))
        self._losses.skip(_NO_RANGE, int(no_range.sum()))
        columns = {**cells.times(), "tid": cells.numbers("Thread_Id"), "name": names}
        self._rows.spans(chosen(columns, marks & ~no_range))
        columns["correlation"] = cells.numbers("Correlation_Id", pa.uint64())
        self._rows.calls(chosen(columns, ~marks & ~inserted))

    def _devices(self, agents: pa.Array[Any]) -> pa.Array[Any]:
        """Return ordinals among the GPUs; where no file describes agents, the numbers they have."""
        encoded = agents.dictionary_encode()
        ordinals = [self._ordinal(text) for text in encoded.dictionary.to_pylist()]
        return pa.array(ordinals, pa.int32()).take(encoded.indices)

    def _ordinal(self, text: str | None) -> int | None:
        found = _AGENT.fullmatch((text or "").strip())
        if found is None:
            self._losses.fault(_NO_AGENT)
            return None
        number = int(found["number"])
        if found["type"] == "CPU":
            return _HOST
        return number if found["type"] == "GPU" else self._ordinals.get(number, number)


def _flags(column: pa.Array[Any]) -> NDArray[np.bool_]:
    flags: NDArray[np.bool_] = column.to_numpy(zero_copy_only=False)
    return flags


def _direction(text: str) -> str:
    plain = _OPERATION.sub("", text)
    return _DIRECTIONS.get(plain, text)


def _copy_kind(direction: str, source: int | None, destination: int | None) -> str:
    """Return the kind that the file tells; of copies between devices, by which they are."""
    if direction == "DtoD" and source is not None and destination is not None:
        return copy_kind(max(source, 0), max(destination, 0))
    return direction


def _copy_device(kind: str, source: int | None, destination: int | None) -> int | None:
    if kind == "HtoH":
        return _HOST
    if kind in ("HtoD", "DtoH"):
        return destination if kind == "HtoD" else source
    return None if source is None or destination is None else copy_device(source, destination)


def _address(text: str | None) -> int | None:
    try:
        value = int(text or "", 16)
    except ValueError:
        return None
    return value if 0 <= value < 1 << 64 else None
