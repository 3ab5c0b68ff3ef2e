"""The stage `chain` against following each row back by hand."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.errors import ConfigError
from pasta.pipeline.expressions import parse
from pasta.pipeline.stages.chain import chain

TYPES = {"process": pl.Int64, "lane": pl.String, "at": pl.Int64, "from_lane": pl.String, "from_at": pl.Int64, "is_end": pl.Boolean}  # fmt: skip
LANE, AT = st.sampled_from("ab"), st.integers(0, 6)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "process": st.integers(0, 1),
            "lane": LANE,
            "at": st.none() | AT,
            "from_lane": st.none() | LANE,
            "from_at": st.none() | AT,
            "is_end": st.none() | st.booleans(),
        }
    ),
    max_size=30,
)
HOW = {"by": ["process"], "on": {"from_lane": "lane", "from_at": "at"}, "where": parse("is_end", "", {})}  # fmt: skip


def follow(rows):
    """Return the places of the rows on the chains: circles, doubles and unknown rows included."""
    found: set[int] = set()
    for place, row in enumerate(rows):
        at = place if row["is_end"] else None
        while at is not None and at not in found:
            found.add(at)
            asked = [rows[at]["process"], rows[at]["from_lane"], rows[at]["from_at"]]
            same = [n for n, other in enumerate(rows) if [other["process"], other["lane"], other["at"]] == asked]  # fmt: skip
            at = None if None in asked or not same else same[0]
    return sorted(found)


@given(ROWS)
def test_equals_following_every_row(rows):
    frame = pl.DataFrame(rows, schema=TYPES).with_row_index("place")
    found = chain(frame, **HOW)
    assert found["place"].to_list() == follow(rows)
    assert found.equals(frame[follow(rows)])


def test_a_long_chain():
    count = 5_000
    frame = pl.DataFrame({"at": range(count), "from_at": [None, *range(count - 1)]})
    found = chain(frame, by=[], on={"from_at": "at"}, where=parse("at = 4321", "", {}))
    assert found["at"].to_list() == list(range(4322))


def test_columns_must_be_there_and_alike():
    frame = pl.DataFrame({"at": [1], "from_at": [1.5]})
    with pytest.raises(ConfigError, match="cast one"):
        chain(frame, by=[], on={"from_at": "at"}, where=parse("at = 1", "", {}))
    with pytest.raises(ConfigError, match="absent"):
        chain(frame, by=[], on={"absent": "at"}, where=parse("at = 1", "", {}))
    with pytest.raises(ConfigError, match="at least one"):
        chain(frame, by=[], on={}, where=parse("at = 1", "", {}))
