"""PyTorch's profiler traces: Chrome JSON as written by Kineto, of today and of 2021."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from pasta.collect.importer import Imported, importer
from pasta.collect.importers.json_events import BLOCK_BYTES, EventReader
from pasta.collect.importers.kineto_events import Event, decode_events
from pasta.collect.importers.kineto_finish import finish_transforms
from pasta.collect.importers.kineto_origin import Origin
from pasta.collect.importers.kineto_pairs import BeginEndPairs
from pasta.collect.importers.kineto_tables import KinetoTables
from pasta.collect.losses import Losses
from pasta.collect.sources import Source
from pasta.trace_writer import PartWriter

_BLANK = b" \t\r\n\xef\xbb\xbf"
_OPERATOR, _ANNOTATION, _FUNCTION = "operator", "annotation", "function"
_CALL, _KERNEL, _COPY, _SYNC = "call", "kernel", "copy", "sync"
_CATEGORIES = {
    "cpu_op": _OPERATOR,
    "Operator": _OPERATOR,
    "user_annotation": _ANNOTATION,
    "python_function": _FUNCTION,
    "Runtime": _CALL,
    "kernel": _KERNEL,
    "Kernel": _KERNEL,
    "gpu_memcpy": _COPY,
    "Memcpy": _COPY,
    "gpu_memset": _COPY,
    "Memset": _COPY,
    "cuda_sync": _SYNC,
}
_CALL_CATEGORY = re.compile(r"\w+_(?:runtime|driver)")
_MTIA_DEVICE = "mtia_ccp_events"
_MTIA_KINDS = {"dma_request": _COPY, "event_record": _SYNC, "event_wait": _SYNC}
_FLOWS = frozenset("stf")
_SKIPPED = {
    "gpu_user_annotation": "the profiler derives them from host ranges",
    "Trace": "the extent of the recording",
    "overhead": "the profiler's own work",
}
_STEP = r"^ProfilerStep#\d+"
_PHASE = r"^Optimizer\.(?:step|zero_grad)#"
_MODULE = "nn.Module: "


@importer("kineto")
class Kineto:
    """Imports one file of one process; MTIA's device work is told apart by event name."""

    format = "PyTorch profiler (Kineto JSON)"
    version = 1

    def __init__(self, block_bytes: int = BLOCK_BYTES) -> None:
        self._block_bytes = block_bytes

    def recognises(self, head: bytes) -> bool:
        """Tell whether a file starts as a JSON object or array."""
        return head.lstrip(_BLANK)[:1] in (b"{", b"[")

    def read(self, source: Source, part: PartWriter, losses: Losses) -> Imported:
        """Append the events of `source` to `part`."""
        reader = EventReader(
            source.chunks, decode_events, losses, source.damage, block_bytes=self._block_bytes
        )
        tables = KinetoTables(part, losses)
        origin = Origin()
        pairs = BeginEndPairs(losses)
        for events in reader:
            _sort_out(events, tables, origin, pairs, losses)
        pairs.report_open()
        origin.read_metadata(reader.metadata)
        origin.append_tables(tables, part, losses)
        return Imported(
            rank=origin.rank,
            pid=origin.pid,
            transforms=finish_transforms(origin.pid, origin.base_ns, losses),
            shift_ns=origin.base_ns,
        )


def _sort_out(
    events: list[Event],
    tables: KinetoTables,
    origin: Origin,
    pairs: BeginEndPairs,
    losses: Losses,
) -> None:
    """Hand each event of a block to the table of its category."""
    by_category: dict[tuple[str, str | None], list[Event]] = {}
    for event in events:
        key = (event.ph, event.cat)
        if key in by_category:
            by_category[key].append(event)
        else:
            by_category[key] = [event]
    ended = [
        event
        for phase in ("B", "E")
        for key in [key for key in by_category if key[0] == phase]
        for event in by_category.pop(key)
    ]
    if ended:
        order = {id(event): place for place, event in enumerate(events)}
        ended.sort(key=lambda event: order[id(event)])
        for event in pairs.match(ended):
            by_category.setdefault(("X", event.cat), []).append(event)
    for (phase, category), group in by_category.items():
        if phase == "X":
            _add_complete(category or "", group, tables, losses)
        elif phase == "M":
            origin.read_names(group)
        elif phase in ("i", "I"):
            _add_instants(group, tables, losses)
        elif phase not in _FLOWS:
            losses.skip(
                f"event of phase '{phase}', category '{category or ''}': left out", len(group)
            )


def _add_complete(category: str, events: list[Event], tables: KinetoTables, losses: Losses) -> None:
    kind = _CATEGORIES.get(category)
    if kind is None and _CALL_CATEGORY.fullmatch(category):
        kind = _CALL
    if category == _MTIA_DEVICE:
        for device_kind in (_KERNEL, _COPY, _SYNC):
            chosen = [e for e in events if _MTIA_KINDS.get(e.name, _KERNEL) == device_kind]
            if chosen:
                _ADD[device_kind](tables, chosen)
    elif kind is None:
        why = _SKIPPED.get(category, "no table holds them")
        losses.skip(f"event of category '{category}' ({why}): left out", len(events))
    else:
        _ADD[kind](tables, events)


def _add_instants(events: list[Event], tables: KinetoTables, losses: Losses) -> None:
    memory = [event for event in events if event.name == "[memory]"]
    if memory:
        tables.add_memory(memory)
    others = len(events) - len(memory)
    losses.skip("instant event (marks of the recording and others): left out", others)


def _constant_level(level: str) -> Callable[[list[str]], pa.Array[Any]]:
    return lambda names: pa.repeat(pa.scalar(level, pa.string()), len(names))


def _annotation_level(names: list[str]) -> pa.Array[Any]:
    texts = pa.array(names, pa.string())
    phase = pc.if_else(pc.match_substring_regex(texts, _PHASE), "phase", "annotation")
    return pc.if_else(pc.match_substring_regex(texts, _STEP), "step", phase)


def _function_level(names: list[str]) -> pa.Array[Any]:
    module = pc.starts_with(pa.array(names, pa.string()), _MODULE)
    return pc.if_else(module, "module", "function")


_operator_level = _constant_level(_OPERATOR)
_ADD: dict[str, Callable[[KinetoTables, list[Event]], None]] = {
    _OPERATOR: lambda tables, events: tables.add_spans(events, _operator_level),
    _ANNOTATION: lambda tables, events: tables.add_spans(events, _annotation_level),
    _FUNCTION: lambda tables, events: tables.add_spans(events, _function_level),
    _CALL: KinetoTables.add_calls,
    _KERNEL: KinetoTables.add_kernels,
    _COPY: KinetoTables.add_copies,
    _SYNC: KinetoTables.add_syncs,
}
