"""Launches and their counters, from the lines of ncu's raw page."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from pasta.collect.demangle import demangled
from pasta.collect.importers.ncu.numbers import (
    comma_is_the_point,
    instances,
    nanoseconds,
    number,
    triple,
)
from pasta.collect.importers.ncu.source import SourceLines
from pasta.collect.losses import Losses
from pasta.collect.shaping.columns import Columns
from pasta.schema import arrow_schema
from pasta.trace_writer import PartWriter

_KERNEL_NAME = "Kernel Name"
_BEFORE_RANGES = 4
_FIELDS = frozenset(
    {
        *("ID", "Process ID", "Process Name", "Host Name", _KERNEL_NAME, "Context", "Stream"),
        *("Block Size", "Grid Size", "Device", "CC"),
    }
)
_OF_THE_MACHINE = ("device__attribute_", "nvlink__", "numa__", "c2clink__")
_DURATIONS = ("gpu__time_duration.sum", "gpu__time_duration.avg", "gpu__time_duration")
_START = "launch__function_pcs"
_LARGEST_KERNEL = 1 << 28
_RESOURCES = {
    "launch__registers_per_thread": "registers",
    "launch__shared_mem_per_block_static": "static_shared",
    "launch__shared_mem_per_block_dynamic": "dynamic_shared",
}
_BATCH_ROWS = 1 << 16
_ID_DIGITS_MAX = 18
_NO_NUMBER = "values that are no numbers: left out"
_MACHINE = "attributes of the machine, which are no counters of a launch: left out"
_RANGES = "counters of whole ranges, which are of no single launch: left out"
_NO_DURATION = "durations that are no whole number of ns: null; print with --print-units base"
_ROUNDED = "durations printed in a larger unit than ns: as rounded by ncu"


class Launches:
    """Turns lines of the raw page into rows.

    Args:
        part: where rows go.
        losses: where what is left out is counted.
        lines: the source lines of instructions, as far as they are known by then.

    Attributes:
        units_follow: whether the next line has the units.
        first_pid: the process of the first launch; 0: there is none.
    """

    def __init__(self, part: PartWriter, losses: Losses, lines: SourceLines) -> None:
        self.units_follow = False
        self.first_pid = 0
        self._part = part
        self._losses = losses
        self._lines = lines
        self._names: list[str] = []
        self._units: list[str] = []
        self._columns = Columns(losses)
        self._launches: dict[int, int] = {}
        self._devices: set[tuple[int, int]] = set()
        self._rows: dict[str, list[dict[str, Any]]] = {}

    def begin(self, names: list[str]) -> None:
        """Begin a table."""
        self._names = names
        self._units = [""] * len(names)
        self.units_follow = True

    def take_units(self, fields: list[str]) -> None:
        """Take the line of units; a table without one has none."""
        self.units_follow = False
        if fields[:1] == [""] and len(fields) == len(self._names):
            self._units = fields
        else:
            self.take(fields)

    def take(self, fields: list[str]) -> bool:
        """Take the line of a launch; tell whether it has the fields of the table."""
        fields = self._without_ranges(fields)
        if not self._names or len(fields) != len(self._names):
            return False
        cells = dict(zip(self._names, fields, strict=True))
        pid = _id(cells["Process ID"])
        if pid is None:
            return False
        grid = triple(cells.get("Grid Size", ""))
        if grid is None:
            self._losses.skip(_RANGES)
            return True
        comma = comma_is_the_point(fields)
        self.first_pid = self.first_pid or pid
        if pid not in self._launches:
            self._add("process", {"pid": pid, "command": cells["Process Name"], "stack_id": 0})
        self._launches[pid] = launch_id = self._launches.get(pid, 0) + 1
        launch = {"pid": pid, "device": _id(cells.get("Device", "")) or 0, "launch_id": launch_id}
        self._add_device(launch, cells, comma=comma)
        self._add_counters(launch, fields, _start(cells), comma=comma)
        self._add_kernel(launch, cells, grid, comma=comma)
        return True

    def finish(self) -> None:
        """Append what is held back."""
        for table, rows in self._rows.items():
            columns = [
                self._column(field, [row.get(field.name) for row in rows])
                for field in arrow_schema(table)
            ]
            self._part.append(table, pa.Table.from_arrays(columns, schema=arrow_schema(table)))
        self._rows = {}

    def _column(self, field: pa.Field[Any], values: list[Any]) -> pa.Array[Any]:
        if pa.types.is_integer(field.type):
            return self._columns.numbers(values, field.type, field.name)
        others: pa.Array[Any] = pa.array(values, field.type)
        return others

    def _without_ranges(self, fields: list[str]) -> list[str]:
        """Return the fields with those of NVTX ranges empty, whose quotes ncu does not escape."""
        if not self._names:
            return fields
        name = self._names.index(_KERNEL_NAME)
        after = len(self._names) - name
        if name == _BEFORE_RANGES or len(fields) < len(self._names):
            return fields
        return [*fields[:_BEFORE_RANGES], *[""] * (name - _BEFORE_RANGES), *fields[-after:]]

    def _add_kernel(
        self,
        launch: dict[str, int],
        cells: dict[str, str],
        grid: tuple[int, int, int],
        *,
        comma: bool,
    ) -> None:
        block = triple(cells.get("Block Size", "")) or (None, None, None)
        self._add(
            "kernel",
            {
                **launch,
                "dur": self._duration(cells, comma=comma),
                **dict.fromkeys(("correlation", "external_id", "graph_id", "graph_node_id"), 0),
                "context": _id(cells.get("Context", "")) or 0,
                "stream": _id(cells.get("Stream", "")) or 0,
                "name": demangled(cells[_KERNEL_NAME]),
                **{f"grid_{axis}": size for axis, size in zip("xyz", grid, strict=True)},
                **{f"block_{axis}": size for axis, size in zip("xyz", block, strict=True)},
                **self._resources(cells, comma=comma),
            },
        )

    def _duration(self, cells: dict[str, str], *, comma: bool) -> int | None:
        name = next((name for name in _DURATIONS if name in cells), None)
        value = None if name is None else number(cells[name], comma=comma)
        if name is None or value is None:
            return None
        unit = self._unit(name)
        duration = nanoseconds(value, unit)
        if duration is None:
            self._losses.fault(_NO_DURATION)
        elif not unit.startswith("n"):
            self._losses.skip(_ROUNDED)
        return duration

    def _resources(self, cells: dict[str, str], *, comma: bool) -> dict[str, int]:
        """Return registers and shared memory, where they are given in units of one."""
        found = {}
        for name, column in _RESOURCES.items():
            value = number(cells.get(name, ""), comma=comma)
            whole = self._unit(name).startswith(("byte", "register"))
            if value is not None and whole:
                found[column] = int(value)
        return found

    def _unit(self, name: str) -> str:
        return self._units[self._names.index(name)] if name in self._names else ""

    def _add_device(self, launch: dict[str, int], cells: dict[str, str], *, comma: bool) -> None:
        of = (launch["pid"], launch["device"])
        if of in self._devices:
            return
        self._devices.add(of)

        def attribute(name: str) -> int | None:
            value = number(cells.get(f"device__attribute_{name}", ""), comma=comma)
            return None if value is None or value < 0 else int(value)

        self._add(
            "device",
            {
                "pid": launch["pid"],
                "device": launch["device"],
                "vendor": "nvidia",
                "name": cells.get("device__attribute_display_name"),
                "memory_bytes": attribute("total_memory"),
                "multiprocessors": attribute("multiprocessor_count"),
                "compute_capability": cells.get("CC"),
                "cache_bytes": attribute("l2_cache_size"),
            },
        )

    def _add_counters(
        self, launch: dict[str, int], fields: list[str], start: int | None, *, comma: bool
    ) -> None:
        first = self._names.index(_KERNEL_NAME)
        for name, unit, cell in list(zip(self._names, self._units, fields, strict=True))[first:]:
            if name in _FIELDS:
                continue
            if name.startswith(_OF_THE_MACHINE):
                self._losses.skip(_MACHINE)
                continue
            value = number(cell, comma=comma)
            if value is None:
                self._losses.skip(_NO_NUMBER)
                continue
            counter = {**launch, "name": name, "unit": unit}
            self._add("metric", {**counter, "value": float(value)})
            if start is not None and name != _START:
                self._add_by_instruction(counter, instances(cell, comma=comma), start)

    def _add_by_instruction(
        self, counter: dict[str, Any], values: Iterable[tuple[int, Decimal]], start: int
    ) -> None:
        """Add the values, of those that belong to addresses in the kernel, that are not 0."""
        for address, value in values:
            if value and 0 <= address - start < _LARGEST_KERNEL:
                where = {"pc": address - start, "source": self._lines.of(address)}
                self._add("metric", {**counter, **where, "value": float(value)})

    def _add(self, table: str, row: dict[str, Any]) -> None:
        self._rows.setdefault(table, []).append(row)
        if len(self._rows[table]) >= _BATCH_ROWS:
            self.finish()


def _start(cells: dict[str, str]) -> int | None:
    """Return the address at which the kernel starts, where instances are printed."""
    starts = [int(value) for _, value in instances(cells.get(_START, ""))]
    return starts[0] if starts else None


def _id(cell: str) -> int | None:
    return int(cell) if cell.isdecimal() and len(cell) <= _ID_DIGITS_MAX else None
