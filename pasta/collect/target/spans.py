"""Spans as threads open and close them: run, steps, annotations, phases, modules, operators."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .rows import Losses, Rows, Texts

SPAN_COLUMNS = (
    "tid",
    "ts",
    "dur",
    "span_id",
    "parent_id",
    "level",
    "name",
    "sequence",
    "input_shapes",
    "input_types",
    "stack_id",
)
THREAD_COLUMNS = ("tid", "name", "started")
HELD_STEP = "steps that could not end inside an annotation opened in them: they end with it"


@dataclass(frozen=True, slots=True)
class Open:
    """A span that has not ended; `key` tells spans of one level apart."""

    span_id: int
    parent_id: int
    level: str
    name: str
    ts: int
    key: object
    stack_id: int


class Stack(list[Open]):
    """The open spans of the thread `tid`, outermost first; a list that can be referred to weakly."""

    __slots__ = ("__weakref__", "tid")

    def __init__(self, tid: int) -> None:
        super().__init__()
        self.tid = tid


class Spans:
    """The open spans of every thread; closing one makes its row.

    The recording's own thread has the run at the bottom and the current step above it. A step
    opens with the first span in it, and starts where the one before it ended.

    Args:
        name: name of the run.
        rows: takes the `span` rows.
        threads: takes a `thread` row for each thread that opens a span.
        losses: counts what did not nest.
        clock: the trace's clock, in ns.
        step_begins: called with the number of each step but the first, as it begins.
        stack_id: returns the id of the calling thread's call stack; 0: not recorded.

    Attributes:
        has_steps: whether spans on the recording's own thread open a step.
    """

    def __init__(
        self,
        name: str,
        rows: Rows,
        threads: Rows,
        losses: Losses,
        clock: Callable[[], int],
        *,
        step_begins: Callable[[int], None] = lambda _step: None,
        stack_id: Callable[[], int] = lambda: 0,
    ) -> None:
        self._rows = rows
        self._threads = threads
        self._losses = losses
        self._clock = clock
        self._stack_id = stack_id
        self._ids = itertools.count(1)
        self._local = threading.local()
        self._stacks: list[weakref.ref[Stack]] = []
        self.has_steps = True
        self._step = 0
        self._step_begins = step_begins
        self._step_is_over = False
        self._run = self._push(self._stack(), "run", name, None, clock())
        self._step_from = self._run.ts

    def open(self, level: str, name: str, key: object = None) -> None:
        """Open a span on the calling thread."""
        self._push(self._nested_stack(), level, name, key, self._clock())

    def close(self, level: str, key: object = None) -> None:
        """Close the innermost such span of the calling thread, and all that is open inside it."""
        stack = self._stack()
        for depth in range(len(stack) - 1, -1, -1):
            if stack[depth].level == level and stack[depth].key == key:
                self._close_from(stack, depth)
                return

    def is_open(self, level: str) -> bool:
        """Tell whether the calling thread is inside a span of `level`."""
        return any(span.level == level for span in self._stack())

    def closed(
        self,
        name: str,
        start: int,
        end: int,
        sequence: int | None,
        inputs: tuple[Texts, Texts],
    ) -> int:
        """Make the row of an operator, which has no span inside it; return its id."""
        stack = self._nested_stack()
        span_id = next(self._ids)
        parent_id = stack[-1].span_id if stack else 0
        row = (start, end - start, span_id, parent_id, "operator", name, sequence, *inputs)
        self._rows.append((stack.tid, *row, self._stack_id()))
        return span_id

    def begin_first_step(self) -> None:
        """Begin the first step that the program tells of: step 0, where nothing came before it."""
        stack = self._stack()
        if self._step == 0 and len(stack) == 1 and stack[0] is self._run:
            self._step_from = self._clock()
        else:
            self.end_step()

    def end_step(self) -> None:
        """End the current step, or let it end as soon as the spans opened in it have closed."""
        stack = self._stack()
        if not stack or stack[0] is not self._run:
            return
        if len(stack) > 2:
            self._losses.count(HELD_STEP, self._clock())
            self._step_is_over = True
            return
        self._next_step(self._close_from(stack, 1))

    def finish(self) -> None:
        """Close whatever the calling thread has open, the run included."""
        self._close_from(self._stack(), 0)

    def all_open(self) -> list[tuple[int, tuple[Open, ...]]]:
        """Return (thread, its open spans, outermost first) of every thread; any thread may ask."""
        alive = (reference() for reference in (*self._stacks,))
        return [(stack.tid, (*stack,)) for stack in alive if stack]

    def row(self, tid: int, span: Open, end: int | None) -> tuple[Any, ...]:
        """Return the row of `span`, which ended at `end`; `None`: it is open."""
        ids = (span.span_id, span.parent_id)
        times = (tid, span.ts, None if end is None else end - span.ts)
        return (*times, *ids, span.level, span.name, None, (), (), span.stack_id)

    def _stack(self) -> Stack:
        try:
            stack: Stack = self._local.stack
        except AttributeError:
            tid = threading.get_native_id()
            stack = self._local.stack = Stack(tid)
            self._stacks.append(weakref.ref(stack, self._stacks.remove))
            self._threads.append((tid, _thread_name(tid), None))
        return stack

    def _nested_stack(self) -> Stack:
        """Return the thread's stack, with a step in it where the run was alone."""
        stack = self._stack()
        if self.has_steps and len(stack) == 1 and stack[0] is self._run:
            self._push(stack, "step", f"step {self._step}", None, self._step_from)
        return stack

    def _push(self, stack: Stack, level: str, name: str, key: object, ts: int) -> Open:
        parent_id = stack[-1].span_id if stack else 0
        span = Open(next(self._ids), parent_id, level, name, ts, key, self._stack_id())
        stack.append(span)
        return span

    def _close_from(self, stack: Stack, depth: int) -> int:
        """Close the spans from `depth` on, and the step if it waited for them; return when."""
        end = self._clock()
        for span in reversed(stack[depth:]):
            self._rows.append(self.row(stack.tid, span, end))
        del stack[depth:]
        if self._step_is_over and len(stack) == 2 and stack[0] is self._run:
            self._step_is_over = False
            self._rows.append(self.row(stack.tid, stack.pop(), end))
            self._next_step(end)
        return end

    def _next_step(self, start: int) -> None:
        self._step_from = start
        self._step += 1
        self._step_begins(self._step)


def _thread_name(tid: int) -> str:
    """Return the calling thread's name; the system's, where Python did not start the thread."""
    name = threading.current_thread().name
    comm = Path(f"/proc/self/task/{tid}/comm")
    return comm.read_text().strip() if name.startswith("Dummy-") and comm.exists() else name
