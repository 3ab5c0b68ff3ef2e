"""The stage `coverage`."""

from __future__ import annotations

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pasta.errors import ConfigError
from pasta.pipeline.stages.coverage import coverage

ACTIVITY = pl.DataFrame(
    {
        "device": [0, 0, 0, 0, 1],
        "activity": ["compute", "communication", "compute", "other", "communication"],
        "ts": [0, 5, 20, 12, 7],
        "dur": [10, 10, 5, 1, 3],
    }
)
KINDS = ["compute", "communication"]


def test_pieces_carry_the_kinds_that_cover_them():
    found = coverage(ACTIVITY, by=["device"], kind="activity", kinds=KINDS)
    expected = pl.DataFrame(
        [
            (0, 0, 5, True, False),
            (0, 5, 5, True, True),
            (0, 10, 5, False, True),
            (0, 15, 5, False, False),
            (0, 20, 5, True, False),
            (1, 7, 3, False, True),
        ],
        schema=["device", "ts", "dur", *KINDS],
        orient="row",
    )
    assert_frame_equal(found, expected)


def test_empty_input():
    found = coverage(ACTIVITY.clear(), by=["device"], kind="activity", kinds=["compute"])
    assert found.schema == {
        "device": pl.Int64,
        "ts": pl.Int64,
        "dur": pl.Int64,
        "compute": pl.Boolean,
    }


def test_kinds_must_be_new_names():
    with pytest.raises(ConfigError, match="kinds: each kind becomes a column"):
        coverage(ACTIVITY, by=["device"], kind="activity", kinds=["device"])
    with pytest.raises(ConfigError, match="expected 1 to 62 kinds, got 0"):
        coverage(ACTIVITY, by=["device"], kind="activity", kinds=[])
