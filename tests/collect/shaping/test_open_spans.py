"""Begins and ends are paired innermost first, and what began first is the outer of like spans."""

from __future__ import annotations

import polars as pl

from pasta.collect.losses import Losses
from pasta.collect.shaping.open_spans import BegunParents, OpenSpans


def test_the_innermost_span_of_a_thread_ends_first() -> None:
    spans: OpenSpans[str] = OpenSpans()
    spans.begin("t", "a")
    spans.begin("u", "x")
    spans.begin("t", "b")
    assert spans.of("t") == ["a", "b"]
    assert [spans.end("t"), spans.end("t"), spans.end("t")] == ["b", "a", None]
    assert list(spans.left_open()) == ["x"]


def test_an_end_may_belong_to_an_outer_span() -> None:
    spans: OpenSpans[str] = OpenSpans()
    for name in "aba":
        spans.begin("t", name)
    assert spans.end("t", lambda name: name == "b") == "b"
    assert spans.of("t") == ["a", "a"]
    assert spans.end("t", lambda name: name == "z") is None


def test_like_spans_nest_in_the_order_in_which_they_began() -> None:
    frame = pl.DataFrame(
        {
            "pid": [1, 1, 1],
            "tid": [1, 1, 1],
            "ts": [5, 5, 5],
            "dur": [9, 9, 9],
            "span_id": pl.Series([3, 1, 2], dtype=pl.UInt64),
        }
    )
    found = BegunParents(Losses("test")).add(frame)
    assert dict(found.select("span_id", "parent_id").rows()) == {1: 0, 2: 1, 3: 2}
