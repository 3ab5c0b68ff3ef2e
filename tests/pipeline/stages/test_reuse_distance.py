"""The stage `reuse_distance` against a stack of things, the last used on top."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.errors import ConfigError
from pasta.pipeline.stages.reuse_distance import reuse_distance

TYPES = {"pid": pl.Int64, "sector": pl.Int64, "launch_id": pl.UInt64, "lane": pl.UInt8}
USES = st.lists(
    st.tuples(st.integers(1, 2), st.integers(0, 5), st.integers(0, 3), st.integers(0, 3)),
    max_size=40,
)


def walk(rows):
    """For each use, how deep its thing lies in the stack of its process, and what it was used by."""
    found = [(None, None)] * len(rows)
    stacks, last = {}, {}
    for place in sorted(range(len(rows)), key=lambda at: (*rows[at][2:], at)):
        pid, sector = rows[place][:2]
        stack = stacks.setdefault(pid, [])
        if sector in stack:
            found[place] = (stack.index(sector), last[pid, sector])
            stack.remove(sector)
        stack.insert(0, sector)
        last[pid, sector] = place
    return found


@given(USES)
def test_equals_a_walk_with_a_stack(rows):
    uses = pl.DataFrame(rows, schema=TYPES, orient="row").with_row_index("place")
    found = reuse_distance(
        uses,
        by=["pid"],
        of=["sector"],
        order=["launch_id", "lane"],
        columns={"after": "place"},
    )
    assert found.select("distance", "after").rows() == walk(rows)
    assert found.select(uses.columns).equals(uses)


def distances(sectors, **more):
    uses = pl.DataFrame({"sector": sectors, "at": range(len(sectors))})
    return reuse_distance(uses, by=[], of=["sector"], order=["at"], **more)["distance"].to_list()


def test_known_programs():
    """A stream never comes back; a working set of W comes back after the W - 1 others."""
    assert distances(list(range(50))) == [None] * 50
    assert distances(list(range(64)) * 3) == [None] * 64 + [63] * 128


def test_sampled_distances_are_scaled():
    assert distances([1, 2, 3, 1], sampled=0.4) == [None, None, None, 5]


def test_empty():
    uses = pl.DataFrame(schema=TYPES)
    found = reuse_distance(uses, by=["pid"], of=["sector"], order=["lane"], columns={"a": "lane"})
    assert found.height == 0
    assert found.schema == {**TYPES, "distance": pl.Int64, "a": pl.UInt8}


@pytest.mark.parametrize(
    ("arguments", "path"),
    [({"of": []}, "of"), ({"sampled": 0.0}, "sampled"), ({"columns": {"a": "b"}}, "columns")],
)
def test_mistakes(arguments, path):
    uses = pl.DataFrame({"sector": [1], "at": [0]})
    with pytest.raises(ConfigError) as error:
        reuse_distance(uses, **{"by": [], "of": ["sector"], "order": ["at"], **arguments})
    assert error.value.path == path
