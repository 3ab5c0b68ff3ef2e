"""Calls and hits of probes, from lines of several CPUs in any order."""

from __future__ import annotations

from typing import NamedTuple

from pasta.collect.losses import Losses
from pasta.collect.shaping.rows import Rows
from pasta.trace_writer import PartWriter

_UNKNOWN = "hits of which bpftrace lost where they were: left out"
_NO_BEGIN = "returns of calls whose begin was not seen: left out"
_NO_RETURN = (
    "calls without a return, as by an exception or the thread's end: told without a duration"
)


class Context(NamedTuple):
    """Where a hit was: name of the probe, process, thread, call stack."""

    name: str
    pid: int
    tid: int
    stack_id: int


class _Open(NamedTuple):
    began: int
    number: int
    parent: int
    context: Context


class Calls:
    """Makes spans of calls, nested as they were on their thread, and samples of hits.

    Everything is held until the end, as lines of different CPUs come in any order.

    Args:
        part: where rows go.
        losses: where what cannot be told is counted.
        offset: ns from the kernel's monotonic clock to the trace's.
    """

    def __init__(self, part: PartWriter, losses: Losses, offset: int) -> None:
        columns = ("pid", "tid", "ts", "dur", "span_id", "parent_id", "level", "name", "stack_id")
        self._spans = Rows(part, "span", *columns)
        self._samples = Rows(part, "sample", "pid", "tid", "ts", "kind", "stack_id", "weight")
        self._losses = losses
        self._offset = offset
        self._contexts: dict[int, Context] = {}
        self._taken: list[tuple[int, int, str, int | Context]] = []
        self._open: dict[tuple[int, int], list[_Open]] = {}
        self._numbers = 0

    def know(self, context: int, name: str, pid: int, tid: int, stack_id: int) -> None:
        """Take what a context stands for."""
        self._contexts[context] = Context(name, pid, tid, stack_id)

    def take(self, kind: str, now: int, context: int) -> None:
        """Take a hit (`H`) or the begin of a call (`B`)."""
        self._taken.append((now, len(self._taken), kind, context))

    def end(self, now: int, pid: int, tid: int, name: str) -> None:
        """Take the return of a call."""
        self._taken.append((now, len(self._taken), "E", Context(name, pid, tid, 0)))

    def finish(self) -> None:
        """Append all spans and samples."""
        for now, _, kind, told in sorted(self._taken, key=lambda one: one[:2]):
            context = told if isinstance(told, Context) else self._contexts.get(told)
            if context is None:
                self._losses.fault(_UNKNOWN)
            elif kind == "H":
                name, pid, tid, stack_id = context
                self._samples.add(pid, tid, now + self._offset, name, stack_id, 1.0)
            elif kind == "B":
                self._begin(now, context)
            else:
                self._end(now, context)
        for calls in self._open.values():
            self._abandon(calls)
        self._spans.flush()
        self._samples.flush()

    def _begin(self, now: int, context: Context) -> None:
        calls = self._open.setdefault((context.pid, context.tid), [])
        self._numbers += 1
        calls.append(_Open(now, self._numbers, calls[-1].number if calls else 0, context))

    def _end(self, now: int, context: Context) -> None:
        calls = self._open.get((context.pid, context.tid), [])
        places = [place for place, call in enumerate(calls) if call.context.name == context.name]
        if not places:
            self._losses.fault(_NO_BEGIN)
            return
        self._abandon(calls[places[-1] + 1 :])
        call = calls[places[-1]]
        del calls[places[-1] :]
        self._add(call, now - call.began)

    def _abandon(self, calls: list[_Open]) -> None:
        self._losses.skip(_NO_RETURN, len(calls))
        for call in calls:
            self._add(call, None)

    def _add(self, call: _Open, spent: int | None) -> None:
        name, pid, tid, stack_id = call.context
        began = call.began + self._offset
        self._spans.add(
            pid, tid, began, spent, call.number, call.parent, "function", name, stack_id
        )
