"""`containment` against a search through every span, and on overlaps that are planted."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.pipeline.stages.containment import containment

OVERHANG = 1000
SCHEMA = {"span_id": pl.UInt64, "tid": pl.Int64, "ts": pl.Int64, "dur": pl.Int64}


def spans(rows):
    table = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    return table.with_columns(rank=pl.lit(0, pl.Int32), pid=pl.lit(1, pl.Int64))


def columns(found):
    return found.select("span_id", "enclosed", "within_id", "overlaps").rows()


def test_a_child_a_span_that_overlaps_in_part_and_another_thread():
    found = containment(
        spans(
            [
                (3, 1, 5_000, 9_000),
                (1, 1, 0, 20_000),
                (2, 1, 1_000, 8_000),
                (4, 1, 30_000, 10_000),
                (5, 1, 35_000, 9_000),
                (6, 2, 2_000, 100),
                (7, 1, 39_000, 1_500),
                (8, 1, 32_000, None),
            ]
        )
    )
    assert columns(found) == [
        (3, True, 1, True),
        (1, False, 0, False),
        (2, True, 1, False),
        (4, False, 0, False),
        (5, False, 0, True),
        (6, False, 0, False),
        (7, True, 5, False),
        (8, True, 4, False),
    ]


def test_of_identical_spans_the_smaller_id_is_around_the_other():
    rows = [(9, 1, 0, 50), (4, 1, 0, 50), (0, 1, 10, 5), (0, 1, 12, 2)]
    for given_rows in (rows, rows[::-1]):
        found = {row[0]: row[1:] for row in columns(containment(spans(given_rows))) if row[0]}
        assert found == {4: (False, 0, False), 9: (True, 4, False)}
    inner = containment(spans(rows)).filter(span_id=0)
    assert inner.select("enclosed", "within_id").rows() == [(True, 9), (True, 0)]


def by_definition(rows):
    """Look at every span for each: quadratic, and nothing else."""
    ends = [ts + (dur or 0) for _, _, ts, dur in rows]
    rank = {i: (row[2], -ends[i], row[0]) for i, row in enumerate(rows)}
    result = []
    for child, (span_id, tid, ts, _) in enumerate(rows):
        opened = [
            i for i, row in enumerate(rows)
            if row[1] == tid and rank[i] < rank[child] and (row[2] == ts or ends[i] > ts)
        ]  # fmt: skip
        around = [i for i in opened if ends[child] - ends[i] < OVERHANG]
        inner = max(around, key=rank.__getitem__, default=None)
        first = max(opened, key=rank.__getitem__, default=None)
        parent = 0 if inner is None else rows[inner][0]
        result.append((span_id, inner is not None, parent, inner != first))
    return result


ROW = st.tuples(
    st.integers(1, 2),
    st.integers(0, 30).map(lambda ts: ts * 100),
    st.sampled_from([0, 100, 500, 900, 1000, 1500, 3000, None]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(ROW, max_size=30), st.randoms(use_true_random=False))
def test_all_spans_searched_give_the_same(rows, chance):
    ids = list(range(1, len(rows) + 1))
    chance.shuffle(ids)
    table = [(number, *row) for number, row in zip(ids, rows, strict=True)]
    assert columns(containment(spans(table))) == by_definition(table)
