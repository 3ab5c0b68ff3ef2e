"""The stage `busy`."""

from __future__ import annotations

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pasta.errors import ConfigError
from pasta.pipeline.stages.busy import busy

KERNELS = pl.DataFrame(
    {
        "device": [0, 0, 1, 0, 0, 0, 1, 0],
        "ts": [30, 0, 100, 5, 10, 45, 101, None],
        "dur": [5, 10, 1, 2, 5, 0, None, 7],
        "name": list("abcdefgh"),
    },
    schema_overrides={"device": pl.Int32},
)


def table(**columns):
    return pl.DataFrame(columns, schema_overrides={"device": pl.Int32})


def test_merges_per_group():
    expected = table(device=[0, 0, 1], ts=[0, 30, 100], dur=[15, 5, 1])
    assert_frame_equal(busy(KERNELS, by=["device"]), expected)


def test_gaps_lie_between_the_first_start_and_the_last_end():
    assert_frame_equal(
        busy(KERNELS, by=["device"], gaps=True), table(device=[0], ts=[15], dur=[15])
    )


def test_without_keys_all_rows_are_one_group():
    expected = pl.DataFrame({"ts": [0, 30, 100], "dur": [15, 5, 1]})
    assert_frame_equal(busy(KERNELS, by=[]), expected)


def test_a_null_key_is_a_group_of_its_own():
    rows = table(device=[None, 0, None], ts=[0, 1, 2], dur=[2, 1, 3])
    assert_frame_equal(busy(rows, by=["device"]), table(device=[None, 0], ts=[0, 1], dur=[5, 1]))


def test_other_columns_and_empty_input():
    rows = KERNELS.clear().rename({"ts": "began", "dur": "took"})
    found = busy(rows, by=["name", "device"], start="began", duration="took")
    assert found.schema == {
        "name": pl.String,
        "device": pl.Int32,
        "began": pl.Int64,
        "took": pl.Int64,
    }


def test_missing_columns_are_named():
    with pytest.raises(ConfigError, match="needs column 'duration'"):
        busy(KERNELS, by=["device"], duration="duration")
    with pytest.raises(ConfigError, match=r"'devic'\. Did you mean 'device'"):
        busy(KERNELS, by=["devic"])


def test_times_at_the_ends_of_64_bits():
    last, first = 2**63 - 1, -(2**63)
    found = busy(table(ts=[last - 5, first], dur=[5, 3]), by=[])
    assert found.rows() == [(first, 3), (last - 5, 5)]
    with pytest.raises(ConfigError, match="ends after the last time"):
        busy(table(ts=[last - 5], dur=[6]), by=[])
    with pytest.raises(OverflowError, match="longer than 64 bits"):
        busy(table(ts=[last - 5, first], dur=[5, 3]), by=[], gaps=True)
