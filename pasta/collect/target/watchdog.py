"""Spans that stay open, and programs that no longer move: both are told while they last."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator

from .rows import Rows
from .spans import Open, Spans
from .stacks import Stacks

SAMPLE_COLUMNS = ("tid", "ts", "kind", "stack_id", "weight")
LONG_NS = 1_000_000_000
"""A span that has been open for so long is written as it is, so that it is seen and survives a kill."""
HANG_SECONDS = 10.0
_LOOK_NS = 1_000_000_000
"""One look counts for so much at most: where the whole process stood still, nothing hangs."""

AllOpen = list[tuple[int, tuple[Open, ...]]]


class Watchdog:
    """Looks at the open spans of all threads, from a thread of its own.

    Args:
        spans: the open spans.
        ended: the rows of spans that have ended.
        open_rows: takes the rows of spans that stay open; their `dur` is null.
        samples: takes the stacks of all threads of a program that no longer moves.
        stacks: interns them.
        clock: the trace's clock, in ns.
        hang_seconds: how long nothing has to begin or end for that.
    """

    def __init__(
        self,
        spans: Spans,
        ended: Rows,
        *,
        open_rows: Rows,
        samples: Rows,
        stacks: Stacks,
        clock: Callable[[], int],
        hang_seconds: float = HANG_SECONDS,
    ) -> None:
        self._spans = spans
        self._ended = ended
        self._open_rows = open_rows
        self._samples = samples
        self._stacks = stacks
        self._clock = clock
        self._hang_ns = int(hang_seconds * 1e9)
        self._signs: list[Callable[[], object]] = []
        self._written: set[int] = set()
        self._seen: tuple[int, list[int]] | None = None
        self._seen_signs: list[object] | None = None
        self._looked = clock()
        self._quiet_ns = 0
        self._told = False
        self._paused = False

    def watch(self, sign: Callable[[], object]) -> None:
        """Take a change of what `sign` returns for a sign of life as well.

        It is asked only where no span has begun or ended since the look before.
        """
        self._signs.append(sign)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Let no time inside the block count: the program waits for the collector."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False

    def look(self, *, recording: bool = True) -> None:
        """Write the spans that stay open, and the stacks of a program that no longer moves."""
        now = self._clock()
        opened = self._spans.all_open()
        self._write_long(opened, now)
        if self._paused or not recording or not opened or self._moves(opened):
            self._quiet_ns, self._told = 0, False
        else:
            self._quiet_ns += min(now - self._looked, _LOOK_NS)
            if self._quiet_ns >= self._hang_ns and not self._told:
                self._told = True
                self._write_stacks(now)
        self._looked = now

    def _write_long(self, opened: AllOpen, now: int) -> None:
        long = {
            span.span_id: (tid, span)
            for tid, spans in opened
            for span in spans
            if now - span.ts > LONG_NS
        }
        for span_id, (tid, span) in long.items():
            if span_id not in self._written:
                self._open_rows.append(self._spans.row(tid, span, None))
        self._written = {*long}

    def _moves(self, opened: AllOpen) -> bool:
        """Tell whether a span has begun or ended since the last look, or there is another sign."""
        innermost = [spans[-1].span_id for _, spans in opened]
        seen = (self._ended.appended, innermost)
        before, self._seen = self._seen, seen
        if seen != before:
            self._seen_signs = None
            return True
        signs = [sign() for sign in self._signs]
        signs_before, self._seen_signs = self._seen_signs, signs
        return signs_before is not None and signs != signs_before

    def _write_stacks(self, now: int) -> None:
        native = {thread.ident: thread.native_id for thread in threading.enumerate()}
        own = threading.get_ident()
        weight = self._quiet_ns / 1e9
        for ident, frame in sys._current_frames().items():  # noqa: SLF001 - documented for this
            tid = native.get(ident)
            if ident != own and tid is not None:
                self._samples.append((tid, now, "hang", self._stacks.of(frame), weight))
