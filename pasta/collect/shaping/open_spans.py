"""Spans that are told by their begins and ends, the last begun ending first."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

import polars as pl

from pasta.collect.losses import Losses
from pasta.collect.shaping.span_parents import SpanParents

B = TypeVar("B")


class OpenSpans(Generic[B]):
    """The spans that have begun and not ended, by thread."""

    def __init__(self) -> None:
        self._open: dict[Hashable, list[B]] = {}

    def begin(self, thread: Hashable, span: B) -> None:
        """Open a span inside those that are open on its thread."""
        self._open.setdefault(thread, []).append(span)

    def end(self, thread: Hashable, belongs: Callable[[B], bool] = lambda _: True) -> B | None:
        """Close the innermost span that the end belongs to; `None`: there is none."""
        spans = self._open.get(thread, [])
        for place in range(len(spans) - 1, -1, -1):
            if belongs(spans[place]):
                found = spans.pop(place)
                if not spans:
                    del self._open[thread]
                return found
        return None

    def of(self, thread: Hashable) -> list[B]:
        """Return the open spans of a thread, outermost first."""
        return self._open.get(thread, [])

    def left_open(self) -> Iterator[B]:
        """Yield the spans that never ended."""
        for spans in self._open.values():
            yield from spans


class BegunParents:
    """Finds the parents of spans that carry ids in the order in which they began.

    Of two spans with one start and one end, the one that began first encloses the other, in
    whatever order they were appended.

    Args:
        losses: where spans that only partly overlap their parent are counted.
    """

    def __init__(self, losses: Losses) -> None:
        self._parents = SpanParents(losses)

    def add(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Fill `parent_id` of one slice."""
        return self._parents.add(frame.sort("ts", "span_id", maintain_order=True))
