"""The stage `nearest` against looking at every row."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.errors import ConfigError
from pasta.pipeline.expressions import parse
from pasta.pipeline.stages.nearest import nearest

TYPES = {"thing": pl.UInt64, "ts": pl.Int64, "launch": pl.UInt64, "writes": pl.Int64}
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "thing": st.integers(0, 2),
            "ts": st.none() | st.integers(-3, 3),
            "launch": st.integers(0, 2**64 - 1) | st.integers(0, 2),
            "writes": st.none() | st.integers(0, 1),
        }
    ),
    max_size=20,
)


def moment(row):
    return (-(2**70) if row["ts"] is None else row["ts"], row["launch"])


def walk(rows, side):
    """For each row the place of the nearest written one, of equals the closest in order of rows."""
    for row in rows:
        others = [
            (moment(other), place)
            for place, other in enumerate(rows)
            if other["thing"] == row["thing"] and other["writes"]
        ]
        if side == "before":
            yield max((o for o in others if o[0] < moment(row)), default=(0, None))[1]
        else:
            yield min((o for o in others if o[0] > moment(row)), default=(0, None))[1]


@given(ROWS, st.sampled_from(["before", "after"]))
def test_equals_looking_at_every_row(rows, side):
    frame = pl.DataFrame(rows, schema=TYPES).with_row_index("place")
    found = nearest(
        frame,
        by=["thing"],
        order=["ts", "launch"],
        side=side,
        where=parse("writes > 0", "", {}),
        columns={"writer": "place", "at": "ts"},
    )
    assert found["writer"].to_list() == list(walk(rows, side))
    assert found["at"].to_list() == [None if at is None else rows[at]["ts"] for at in walk(rows, side)]  # fmt: skip
    assert found.select(frame.columns).equals(frame)


def test_all_rows_are_one_group_by_default():
    rows = pl.DataFrame({"ts": [5, 3, 9], "name": ["b", "a", "c"]})
    found = nearest(rows, by=[], order=["ts"], columns={"before": "name"})
    assert found["before"].to_list() == ["a", None, "b"]
    found = nearest(rows, by=[], order=["ts"], side="after", columns={"name": "name"})
    assert found["name"].to_list() == ["c", "b", None]


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"order": []}, "order"),
        ({"columns": {"a": "nothing"}}, "columns"),
        ({"columns": {"^a$": "ts"}}, "columns"),
        ({"order": ["name"]}, ""),
    ],
)
def test_mistakes(arguments, path):
    rows = pl.DataFrame({"ts": [1], "name": ["a"]})
    with pytest.raises(ConfigError) as error:
        nearest(rows, **{"by": [], "order": ["ts"], "columns": {"a": "ts"}, **arguments})
    assert error.value.path == path
