"""The stage `prune`."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from pasta.pipeline.stages.prune import prune

IDS = {"span_id": pl.UInt64, "parent_id": pl.UInt64}
KEEP = pl.col("level") != "function"


def spans(*rows):
    table = pl.DataFrame(
        rows,
        schema={"span_id": pl.UInt64, "parent_id": pl.UInt64, "level": pl.String},
        orient="row",
    )
    return table.with_columns(rank=0, pid=1)


def parents(rows, keep=KEEP):
    return prune(rows, keep=keep).select("span_id", "parent_id").rows()


def test_rows_below_what_goes_belong_to_the_next_above():
    rows = spans(
        (1, 0, "step"), (2, 1, "function"), (3, 2, "function"), (4, 3, "operator"),
        (5, 4, "operator"), (6, 0, "function"), (7, 6, "operator"), (8, 99, "operator"),
    )  # fmt: skip
    assert parents(rows) == [(1, 0), (4, 1), (5, 4), (7, 0), (8, 99)]


def test_rows_of_a_circle_that_goes_leave_roots():
    rows = spans((1, 2, "function"), (2, 1, "function"), (3, 1, "operator"))
    assert parents(rows) == [(3, 0)]


def test_ids_count_within_a_process():
    rows = spans((1, 0, "function"), (2, 1, "operator"))
    other = spans((1, 0, "operator"), (2, 1, "operator")).with_columns(pid=2)
    assert parents(pl.concat([rows, other])) == [(2, 0), (1, 0), (2, 1)]


def test_nothing_or_all_may_go():
    rows = spans((1, 0, "operator"), (2, 1, None))
    assert prune(rows, keep=pl.col("rank") == 0).equals(rows)
    assert parents(rows) == [(1, 0)]
    assert prune(rows, keep=pl.col("rank") > 0).schema == rows.schema
    assert prune(rows.clear(), keep=KEEP).schema == rows.schema


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=30))
def test_equals_walking_up(raw):
    above = {i + 1: min(parent, i) for i, (parent, _) in enumerate(raw)}
    kept = {i + 1: stays for i, (_, stays) in enumerate(raw)}

    def walk(node):
        parent = above[node]
        return parent if parent == 0 or kept[parent] else walk(parent)

    rows = spans(*((n, above[n], "operator" if kept[n] else "function") for n in above))
    assert parents(rows) == [(n, walk(n)) for n in above if kept[n]]
