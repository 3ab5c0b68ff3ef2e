"""The stage `sequences` against counting every sequence by hand."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.errors import ConfigError
from pasta.pipeline.stages.sequences import sequences

TYPES = {"rank": pl.Int32, "name": pl.String, "ts": pl.Int64, "dur": pl.Int64, "id": pl.UInt64}
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "rank": st.integers(0, 1),
            "name": st.sampled_from(["a", "b", "c"]),
            "ts": st.integers(0, 30) | st.none(),
            "dur": st.integers(0, 4),
        }
    ),
    max_size=25,
).map(lambda rows: [{**row, "id": n} for n, row in enumerate(rows)])


def counted(rows, longest, least, most_gap):
    lanes = defaultdict(list)
    for row in sorted((r for r in rows if r["ts"] is not None), key=lambda r: (r["ts"], r["id"])):
        lanes[row["rank"]].append(row)
    found = defaultdict(dict)
    for rank, lane in lanes.items():
        for length in range(2, longest + 1):
            free, sums = {}, {}
            for at in range(len(lane) - length + 1):
                part = lane[at : at + length]
                text = tuple(row["name"] for row in part)
                if free.get(text, 0) > at:
                    continue
                gaps = [max(0, b["ts"] - a["ts"] - a["dur"]) for a, b in pairwise(part)]
                if max(gaps) > most_gap:
                    continue
                free[text] = at + length
                times, time, gap = sums.get(text, (0, 0, 0))
                sums[text] = (times + 1, time + sum(row["dur"] for row in part), gap + sum(gaps))
            for text, values in sums.items():
                found[text][rank] = values
    totals = {text: sum(times for times, _, _ in of.values()) for text, of in found.items()}
    told = {
        text
        for text, times in totals.items()
        if times >= least
        and not any(len(o) == len(text) + 1 and text in (o[1:], o[:-1]) and n == times for o, n in totals.items())
    }  # fmt: skip
    return sorted(
        (rank, len(text), " > ".join(text), *values)
        for text in told
        for rank, values in found[text].items()
    )


@given(ROWS, st.integers(2, 5), st.integers(1, 3), st.integers(0, 9))
def test_equals_counting_by_hand(rows, longest, least, most_gap):
    frame = pl.DataFrame(rows, schema=TYPES)
    found = sequences(
        frame,
        by=["rank"],
        item="name",
        order=["id"],
        longest=longest,
        least=least,
        most_gap=most_gap,
    )
    columns = ["rank", "length", "sequence", "times", "time_ns", "gap_ns"]
    assert found.select(columns).rows() == counted(rows, longest, least, most_gap)


def test_occurrences_do_not_overlap():
    frame = pl.DataFrame({"name": ["a"] * 5, "ts": range(0, 50, 10), "dur": [7] * 5})
    found = sequences(frame, by=[], item="name", longest=2)
    assert found.rows() == [("a > a", "a", "a", 2, 2, 28, 6)]


def test_of_a_loop_of_more_items_its_longest_parts_are_told():
    """Each part of 3 items lies in one of 4 as often, which is longer than what is asked for."""
    frame = pl.DataFrame({"name": list("abcde") * 9, "ts": range(45), "dur": [1] * 45})
    found = sequences(frame, by=[], item="name", longest=3)
    assert found.select("sequence", "times").rows() == [
        ("a > b > c", 9), ("b > c > d", 9), ("c > d > e", 9), ("d > e > a", 8), ("e > a > b", 8),
    ]  # fmt: skip


def test_mistakes():
    frame = pl.DataFrame({"name": ["a"], "ts": [0], "dur": [1]})
    with pytest.raises(ConfigError, match="2 to 32"):
        sequences(frame, by=[], item="name", longest=1)
    with pytest.raises(ConfigError, match="absent"):
        sequences(frame, by=[], item="absent")
