"""The stage `overlap`."""

from __future__ import annotations

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pasta.errors import ConfigError
from pasta.pipeline.stages.overlap import overlap

COMMUNICATION = pl.DataFrame({"device": [0, 0, 1, 2], "ts": [0, 8, 0, 0], "dur": [10, 12, 5, None]})
COMPUTE = pl.DataFrame({"device": [0, 0, 0, 2], "ts": [5, 7, 20, 0], "dur": [4, 1, 3, 4]})


def test_shared_time():
    expected = pl.DataFrame({"device": [0], "ts": [5], "dur": [4]})
    assert_frame_equal(overlap(COMMUNICATION, COMPUTE, by=["device"]), expected)


def test_time_of_the_left_alone():
    found = overlap(COMMUNICATION, COMPUTE, by=["device"], keep="left_only")
    expected = pl.DataFrame({"device": [0, 0, 1], "ts": [0, 9, 0], "dur": [5, 11, 5]})
    assert_frame_equal(found, expected)


def test_one_empty_side():
    nothing = COMPUTE.clear()
    assert overlap(COMMUNICATION, nothing, by=["device"]).is_empty()
    found = overlap(COMMUNICATION, nothing, by=["device"], keep="left_only")
    assert found["dur"].to_list() == [20, 5]
    assert overlap(nothing, nothing, by=[]).schema == {"ts": pl.Int64, "dur": pl.Int64}


def test_keys_of_two_types_are_refused():
    with pytest.raises(ConfigError, match="'device' as Int64 and Int32"):
        overlap(COMMUNICATION, COMPUTE.cast({"device": pl.Int32}), by=["device"])


def test_a_missing_column_names_the_input():
    with pytest.raises(ConfigError, match="right: needs column 'dur'"):
        overlap(COMMUNICATION, COMPUTE.drop("dur"), by=["device"])
