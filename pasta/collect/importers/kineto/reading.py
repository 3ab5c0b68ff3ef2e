"""Reading the events of one Kineto file, or of half of one, into the tables of a part."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pasta.collect.containers.json_events import EventReader
from pasta.collect.importers.kineto.events import (
    Begin,
    Category,
    End,
    Event,
    Instant,
    Naming,
    Other,
    decode_events,
    phase,
)
from pasta.collect.importers.kineto.halves import Half
from pasta.collect.importers.kineto.origin import Origin
from pasta.collect.importers.kineto.pairs import BeginEndPairs
from pasta.collect.importers.kineto.tables import KinetoTables
from pasta.collect.importers.kineto.window import Window
from pasta.collect.losses import Losses
from pasta.collect.sources import Source
from pasta.trace_writer import PartWriter

_OPERATOR, _ANNOTATION, _FUNCTION = "operator", "annotation", "function"
_CALL, _KERNEL, _COPY, _SYNC = "call", "kernel", "copy", "sync"
_KINDS = {
    Category.CPU_OP: _OPERATOR,
    Category.OPERATOR_2021: _OPERATOR,
    Category.USER_ANNOTATION: _ANNOTATION,
    Category.PYTHON_FUNCTION: _FUNCTION,
    Category.RUNTIME_2021: _CALL,
    Category.KERNEL: _KERNEL,
    Category.KERNEL_2021: _KERNEL,
    Category.GPU_MEMCPY: _COPY,
    Category.MEMCPY_2021: _COPY,
    Category.GPU_MEMSET: _COPY,
    Category.MEMSET_2021: _COPY,
    Category.CUDA_SYNC: _SYNC,
}
_CALL_CATEGORY = re.compile(r"\w+_(?:runtime|driver)")
_MTIA_KINDS = {"dma_request": _COPY, "event_record": _SYNC, "event_wait": _SYNC}
_SKIPPED = {
    "gpu_user_annotation": "the profiler derives them from host ranges",
    "Trace": "the extent of the recording",
    "overhead": "the profiler's own work",
}
_STEP = r"^ProfilerStep#\d+"
_PHASE = r"^Optimizer\.(?:step|zero_grad)#"
_MODULE = "nn.Module: "


class Reading:
    """Hands each event to the table of its category.

    Args:
        source: the file.
        part: where the rows go.
        losses: where what cannot be kept is counted.
        block_bytes: how much is decoded at once.
        stop: end at the first event boundary at or after this byte.
        launches: number kernels after this one.
    """

    def __init__(
        self,
        source: Source,
        part: PartWriter,
        losses: Losses,
        block_bytes: int,
        *,
        stop: int | None = None,
        launches: int = 0,
    ) -> None:
        self.tables = KinetoTables(part, losses, launches)
        self.origin = Origin()
        self.window = Window()
        self._losses = losses
        self._pairs = BeginEndPairs(losses)
        self._kept_after = 0
        self._cut_after = ""
        self._reader = EventReader(
            source.chunks,
            decode_events,
            losses,
            source.damage,
            block_bytes=block_bytes,
            start=source.start,
            stop=stop,
        )

    @property
    def seam(self) -> int | None:
        """Where reading stopped for somebody else to go on; `None` if it went to the end."""
        return self._reader.seam

    def read(self) -> None:
        """Read from the start."""
        self._sort_out_all(iter(self._reader))

    def read_on(self) -> None:
        """Read from the seam to the end."""
        self._sort_out_all(self._reader.go_on())

    def read_after(self, byte: int, *, bare: bool) -> None:
        """Read from the first event boundary at or after `byte` to the end of a `bare` array."""
        self._sort_out_all(self._reader.start_after(byte, bare=bare))

    def describe(self, half: Half) -> None:
        """Write what was found, beside the rows, into `half`."""
        half.seam = self._reader.seam
        half.kept = self._reader.kept
        half.cut = self._reader.cut
        half.launches = self.tables.launches
        half.host_threads = [(*key, n) for key, n in self.tables.host_threads.items()]
        half.devices = sorted(self.tables.devices)
        half.device_communicators = sorted(self.tables.device_communicators)
        half.first, half.last = self.tables.first, self.tables.last
        half.window = (self.window.first, self.window.last)
        half.names = [(*key, label) for key, label in self.origin.names.items()]
        half.metadata = self._reader.metadata
        half.pairs = self._pairs.left_over()

    def merge(self, half: Half) -> None:
        """Take over what somebody else found from the seam on."""
        for pid, tid, count in half.host_threads:
            self.tables.host_threads[pid, tid] += count
        self.tables.devices.update(half.devices)
        self.tables.device_communicators.update(half.device_communicators)
        self.tables.extend(half.first, half.last)
        self.window.extend(*half.window)
        self.origin.names.update({(kind, pid, tid): name for kind, pid, tid, name in half.names})
        self._reader.metadata.update(half.metadata)
        for loss in half.losses:
            self._losses.add(loss)
        self._add_paired(half.pairs)
        self._kept_after, self._cut_after = half.kept, half.cut

    def finish(self) -> None:
        """Report what only the end of the file tells."""
        self._pairs.report_left_over()
        self.origin.read_metadata(self._reader.metadata)
        if cut := self._cut_after or self._reader.cut:
            kept = self._reader.kept + self._kept_after
            self._losses.fault(f"{cut}, {kept} events kept", where=cut.rpartition(" at ")[2])

    def _sort_out_all(self, blocks: Iterator[list[Any]]) -> None:
        for events in blocks:
            self._sort_out(events)

    def _sort_out(self, events: list[Any]) -> None:
        """Hand each event to the table of its category, or count it."""
        by_kind: dict[Any, list[Any]] = {}
        for event in events:
            kind = type(event)
            if kind is Event:
                kind = event.cat
            if kind in by_kind:
                by_kind[kind].append(event)
            else:
                by_kind[kind] = [event]
        for kind, group in by_kind.items():
            if kind is None or isinstance(kind, Category):
                self._add_complete(kind or Category.OTHER, group)
            elif issubclass(kind, Naming):
                self.origin.read_names(group)
            elif issubclass(kind, Instant):
                self._add_instants(group)
            elif issubclass(kind, Other):
                self._count_others(group)
        if Begin in by_kind or End in by_kind:
            self._add_paired([event for event in events if isinstance(event, Begin | End)])

    def _count_others(self, events: list[Other]) -> None:
        for event in events:
            category = event.cat.value if event.cat else ""
            reason = f"event of phase '{phase(event)}', category '{category}': left out"
            self._losses.skip(reason)

    def _add_paired(self, events: list[Begin | End]) -> None:
        by_category: dict[Category, list[Event]] = {}
        for event in self._pairs.match(events):
            by_category.setdefault(event.cat or Category.OTHER, []).append(event)
        for category, group in by_category.items():
            self._add_complete(category, group)

    def _add_complete(self, category: Category, events: list[Event]) -> None:
        kind = _KINDS.get(category)
        if kind is None and _CALL_CATEGORY.fullmatch(category.value):
            kind = _CALL
        if category is Category.MTIA_CCP_EVENTS:
            for device_kind in (_KERNEL, _COPY, _SYNC):
                chosen = [e for e in events if _MTIA_KINDS.get(e.name, _KERNEL) == device_kind]
                if chosen:
                    _ADD[device_kind](self.tables, chosen)
        elif kind is None:
            why = _SKIPPED.get(category.value, "no table holds them")
            reason = f"event of category '{category.value}' ({why}): left out"
            self._losses.skip(reason, len(events))
        else:
            _ADD[kind](self.tables, events)

    def _add_instants(self, events: list[Instant]) -> None:
        memory = [event for event in events if event.name == "[memory]"]
        if memory:
            self.tables.add_memory(memory)
        self.window.take(events)
        others = len(events) - len(memory)
        self._losses.skip("instant event (marks of the recording and others): left out", others)


def _operator_level(names: list[str]) -> Any:
    return _level_of_ranges(names, _OPERATOR)  # in the dialect of 2021 steps are among operators


def _annotation_level(names: list[str]) -> Any:
    return _level_of_ranges(names, "annotation")


def _level_of_ranges(names: list[str], other: str) -> Any:
    texts = pa.array(names, pa.string())
    phase = pc.if_else(pc.match_substring_regex(texts, _PHASE), "phase", other)
    return pc.if_else(pc.match_substring_regex(texts, _STEP), "step", phase)


def _function_level(names: list[str]) -> Any:
    module = pc.starts_with(pa.array(names, pa.string()), _MODULE)
    return pc.if_else(module, "module", "function")


_ADD: dict[str, Callable[[KinetoTables, list[Event]], None]] = {
    _OPERATOR: lambda tables, events: tables.add_spans(events, _operator_level),
    _ANNOTATION: lambda tables, events: tables.add_spans(events, _annotation_level),
    _FUNCTION: lambda tables, events: tables.add_spans(events, _function_level),
    _CALL: KinetoTables.add_calls,
    _KERNEL: KinetoTables.add_kernels,
    _COPY: KinetoTables.add_copies,
    _SYNC: KinetoTables.add_syncs,
}
