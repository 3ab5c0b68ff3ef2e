"""Snapshots of PyTorch's caching allocator, as `torch.cuda.memory._dump_snapshot` writes them.

A snapshot is a pickle of plain data: what the allocator holds (`segments`), what it did
(`device_traces`, a ring of entries for each device) and the program's annotations. Nothing in it is
ever run.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pyarrow as pa

from pasta.collect.containers.pickle_stream import PickleStream
from pasta.collect.importer import Imported, importer
from pasta.collect.importers.torch_memory.frames import SnapshotStacks
from pasta.collect.importers.torch_memory.history import DeviceHistory
from pasta.collect.importers.torch_memory.rows import BLOCKS, SEGMENTS, MemoryRows
from pasta.collect.importers.torch_memory.spans import Spans
from pasta.collect.importers.torch_memory.state import FinalState
from pasta.collect.losses import Losses
from pasta.collect.shaping.span_parents import SpanParents
from pasta.collect.shaping.stacks import Stacks
from pasta.collect.sources import Source, as_file
from pasta.errors import InputError
from pasta.schema import arrow_schema
from pasta.trace_writer import PartWriter

NO_HISTORY = (
    "history of allocations that was not recorded (_record_memory_history was not called before):"
    " what is live stands as allocated at time 0"
)
_START = re.compile(rb"\x80[\x00-\x05]|\([dl]p\d+\n|[}\]]q.", re.DOTALL)
_SEGMENTS, _HISTORIES, _ANNOTATIONS = "segments", "device_traces", "external_annotations"
_LISTS = {_SEGMENTS: 1, _HISTORIES: 2, _ANNOTATIONS: 1}
_DEVICES_MAX = 1 << 10


@importer("torch_memory")
class TorchMemory:
    """Imports one snapshot; all its rows are of process 0, as it names none."""

    format = "PyTorch memory snapshot (pickle)"
    version = 2
    general = False

    def recognises(self, source: Source) -> bool:
        """Tell whether a file starts as a pickle does."""
        return _START.match(source.head) is not None

    def read(self, source: Source, part: PartWriter, losses: Losses) -> Imported:
        """Append what the allocator did, its call stacks, annotations and devices.

        Raises:
            InputError: it is no pickle, no snapshot, or a pickle of anything but plain data.
        """
        scratch = part.folder.with_name(f"{part.folder.name}-scratch")
        reading = _Reading(part, losses)
        try:
            reading.read(as_file(source, scratch))
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        for damage in source.damage:
            losses.fault(damage)
        reading.finish()
        return Imported(
            transforms={"memory": reading.rows.absolute, "span": SpanParents(losses).add}
        )


class _Reading:
    """One snapshot on its way into a part."""

    def __init__(self, part: PartWriter, losses: Losses) -> None:
        self.rows = MemoryRows(part)
        self._part = part
        self._losses = losses
        self._stacks = Stacks(part)
        self._frames = SnapshotStacks(self._stacks, losses)
        self._state = FinalState(self._frames, losses)
        self._spans = Spans(part, losses)
        self._ids: dict[str, Iterator[int]] = {BLOCKS: count(1), SEGMENTS: count(1)}
        self._histories: dict[int, DeviceHistory] = {}

    def read(self, file: Path) -> None:
        """Take what the pickle holds, as it comes."""
        pickle = PickleStream(file, self._losses, _LISTS)
        for elements in pickle:
            if elements.key == _SEGMENTS:
                self._state.add(elements.items)
            elif elements.key == _ANNOTATIONS:
                self._spans.add(elements.items)
            else:
                self._history(elements.place).add(elements.items)
        if type(pickle.value) is list and all(type(one) is dict for one in pickle.value):
            self._state.add(pickle.value)
        elif not pickle.handed_out and not (
            type(pickle.value) is dict and {_SEGMENTS, _HISTORIES} & pickle.value.keys()
        ):
            raise InputError(
                f"{self._losses.source}: is a pickle, but no memory snapshot; write one with"
                " torch.cuda.memory._dump_snapshot"
            )

    def _history(self, device: int) -> DeviceHistory:
        if device not in self._histories:
            if len(self._histories) >= _DEVICES_MAX:
                raise InputError(f"{self._losses.source}: has more than {_DEVICES_MAX} devices")
            self._histories[device] = DeviceHistory(
                device, self.rows, self._frames, self._ids, self._losses
            )
        return self._histories[device]

    def finish(self) -> None:
        """Append what is known only once all is read."""
        starts = [h.first for h in self._histories.values() if h.first is not None]
        if not starts:
            self._losses.skip(NO_HISTORY)
        devices = sorted({*self._histories, *self._state.segments})
        for device in devices:
            history = self._history(device)
            first = history.first if history.first is not None else min(starts, default=1)
            history.finish(
                self._state.segments.get(device, []),
                self._state.blocks.get(device, []),
                first - 1,
            )
            for failure in history.failures:
                self._spans.add_failure(failure)
        self._spans.finish()
        self.rows.flush()
        self._stacks.flush()
        self._describe(devices)

    def _describe(self, devices: list[int]) -> None:
        """Append the process and its devices."""
        firsts = [h.first - 1 for h in self._histories.values() if h.first is not None]
        if self._spans.first is not None:
            firsts.append(self._spans.first)
        lasts = [self._spans.last, *(h.last for h in self._histories.values())]
        process = {
            "pid": 0,
            "started": min(firsts, default=0),
            "ended": max(lasts),
            "framework": "pytorch",
        }
        known = [device for device in devices if device >= 0]
        for table, rows in (
            ("process", [process]),
            ("device", [{"pid": 0, "device": device} for device in known]),
        ):
            self._part.append(table, pa.Table.from_pylist(rows, schema=arrow_schema(table)))
