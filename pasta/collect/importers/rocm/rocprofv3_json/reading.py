"""Reading a file of rocprofv3: what it describes, and its records."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from pasta.ahead import ahead
from pasta.collect.containers import json_records
from pasta.collect.containers.json_records import RecordReader
from pasta.collect.containers.json_uniform import UniformRecords
from pasta.collect.importers.rocm.rocprofv3_json.described import Described
from pasta.collect.importers.rocm.rocprofv3_json.records import (
    Agent,
    AllocationRecord,
    ApiRecord,
    CopyRecord,
    Counter,
    CounterRecord,
    KernelRecord,
    LeftOut,
    Symbol,
    decoder_of,
)
from pasta.collect.importers.rocm.rocprofv3_json.rows import RecordRows
from pasta.collect.losses import Losses
from pasta.collect.sources import Source, open_sources
from pasta.errors import InputError
from pasta.trace_writer import PartWriter

_ROOT = "rocprofiler-sdk-tool"
_BUFFER, _CALLBACK = "buffer_records", "callback_records"
_ENTERED = {(), (_ROOT,), (_ROOT, "strings"), (_ROOT, _BUFFER), (_ROOT, _CALLBACK)}
_DESCRIPTIONS: dict[str, type[msgspec.Struct]] = {
    "agents": Agent,
    "kernel_symbols": Symbol,
    "counters": Counter,
}
_UNUSED = frozenset({"code_objects", "host_functions", "summary"})
_NEEDED = frozenset({("agents",), ("kernel_symbols",), ("strings", _BUFFER)})

_RECORDS: dict[str, tuple[type[msgspec.Struct], Callable[[RecordRows, Any, str], None]]] = {
    "kernel_dispatch": (KernelRecord, RecordRows.kernels),
    "counter_collection": (CounterRecord, RecordRows.counted),
    "hip_api": (ApiRecord, RecordRows.calls),
    "hsa_api": (ApiRecord, RecordRows.calls),
    "rccl_api": (ApiRecord, RecordRows.calls),
    "rocdecode_api": (ApiRecord, RecordRows.calls),
    "rocjpeg_api": (ApiRecord, RecordRows.calls),
    "scratch_memory": (ApiRecord, RecordRows.calls),
    "marker_api": (ApiRecord, RecordRows.markers),
    "memory_copy": (CopyRecord, RecordRows.copies),
    "memory_allocation": (AllocationRecord, RecordRows.allocations),
}
"""Array -> what its records are, and what appends them."""

_TWICE = "process with the pid of one before it: taken as the same, described by the first"
_KINDS: list[type[msgspec.Struct]] = [
    LeftOut,
    *_DESCRIPTIONS.values(),
    *(kind for kind, _ in _RECORDS.values()),
]
_DECODERS = {kind: decoder_of(kind) for kind in _KINDS}


class Reading:
    """Reads one file into a part: on a thread of its own records are decoded, on this one columns made.

    Where records come before what describes them, the descriptions are read first, in a pass of their
    own.

    Args:
        file: the file on disk, plain or gzip.
        part: where rows go.
        losses: where what cannot be kept is counted.
    """

    def __init__(self, file: Path, part: PartWriter, losses: Losses) -> None:
        self.pid = 0
        self._file = file
        self._part = part
        self._losses = losses
        self._ahead: list[Described] | None = None
        self._processes = 0
        self._described = Described()
        self._rows: RecordRows | None = None
        self._met: set[tuple[str, ...]] = set()
        self._known: set[int] = set()

    def read(self, source: Source) -> None:
        """Read the file from start to end.

        Raises:
            InputError: the file holds no process.
        """
        damage = Losses(self._losses.collector, self._losses.source, strict=self._losses.strict)
        reader = _reader(source, damage, _decoder)
        numbered = ((reader.entered.get((_ROOT,), 0), path, value) for path, value in reader)
        for process, path, value in ahead(numbered):
            if process != self._processes:
                self._end_process()
                self._begin_process(process)
            self._take(path[1:], value)
        self._end_process()
        for loss in damage:
            self._losses.add(loss)
        if not self._processes:
            raise InputError(f"{self._losses.source}: JSON without a process in '{_ROOT}'")
        if reader.cut:
            self._losses.fault(f"{reader.cut}, {reader.kept} records kept")

    def _begin_process(self, number: int) -> None:
        self._processes = number
        self._described = Described()
        self._met = set()
        self._rows = None

    def _end_process(self) -> None:
        if not self._processes:
            return
        described = self._described
        rows = self._rows or RecordRows(self._part, self._losses, described)
        rows.finish()
        self.pid = self.pid or described.pid
        if described.pid in self._known:
            self._losses.fault(_TWICE)
            return
        self._known.add(described.pid)
        self._part.append("process", described.process_row(self._losses))
        self._part.append("device", described.device_rows())

    def _take(self, path: tuple[str, ...], value: Any) -> None:
        if len(path) == 2 and path[0] in (_BUFFER, _CALLBACK):
            self._take_records(path[0], path[1], value)
        elif path and path[0] not in _UNUSED:
            self._met.add(path)
            self._described.take(path, value)

    def _take_records(self, group: str, array: str, records: Any) -> None:
        if not isinstance(records, list | UniformRecords) or not len(records):
            return
        if array not in _RECORDS:
            self._losses.skip(f"records of {array}: left out", len(records))
            return
        if self._rows is None:
            self._read_ahead()
            self._rows = RecordRows(self._part, self._losses, self._described)
        _RECORDS[array][1](self._rows, records, group)

    def _read_ahead(self) -> None:
        """Read the descriptions that come after the records, if they do."""
        if self._met >= _NEEDED:
            return
        if self._ahead is None:
            self._ahead = _descriptions(self._file)
        if self._processes <= len(self._ahead):
            self._described = self._ahead[self._processes - 1]


def _descriptions(file: Path) -> list[Described]:
    """Return what a file tells of each of its processes, beside records."""
    found: list[Described] = []
    with opened(file) as source:
        reader = _reader(source, Losses(""), _description_decoder)
        for path, value in reader:
            while len(found) < reader.entered.get((_ROOT,), 0):
                found.append(Described())
            if found and path[1:2] and path[1] not in (_BUFFER, _CALLBACK):
                found[-1].take(path[1:], value)
    return found


@contextlib.contextmanager
def opened(file: Path) -> Iterator[Source]:
    """Open a file, plain or gzip, as a stream."""
    with contextlib.closing(open_sources([file])) as sources:
        yield next(sources)


def _reader(
    source: Source,
    losses: Losses,
    decoder: Callable[[json_records.Path], json_records.Decode | None],
) -> RecordReader:
    return RecordReader(source.chunks, _ENTERED.__contains__, decoder, losses, source.damage)


def _decoder(path: json_records.Path) -> json_records.Decode | None:
    if len(path) == 3 and path[0] == _ROOT and path[1] in (_BUFFER, _CALLBACK):
        return _DECODERS[_RECORDS[path[2]][0] if path[2] in _RECORDS else LeftOut]
    return _description_decoder(path)


def _description_decoder(path: json_records.Path) -> json_records.Decode | None:
    if len(path) == 2 and path[0] == _ROOT:
        if path[1] in _DESCRIPTIONS:
            return _DECODERS[_DESCRIPTIONS[path[1]]]
        return _DECODERS[LeftOut] if path[1] in _UNUSED else None
    in_records = len(path) == 3 and path[0] == _ROOT and path[1] in (_BUFFER, _CALLBACK)
    return _DECODERS[LeftOut] if in_records else None
