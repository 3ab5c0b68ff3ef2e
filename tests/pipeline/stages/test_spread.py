"""`spread` against numpy and `statistics`, and by hand."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from pasta.errors import ConfigError
from pasta.pipeline.stage import STAGES
from pasta.pipeline.stages.spread import spread


def counts(groups):
    """Return how often each value occurs in each group: name -> values."""
    rows = [(name, v, c) for name, values in groups.items() for v, c in Counter(values).items()]
    schema = {"name": pl.String, "dur": pl.Int64, "count": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def test_by_hand():
    """Of 10, 10, 12, 14, 100 the median is 12, the deviations 2, 2, 0, 2, 88, and the mean 29.2.

    The fence is 12 + 7.5 * 2 = 27; 100 lies 88 above the median.
    """
    (row,) = spread(counts({"k": [10, 14, 100, 10, 12]}), by=["name"], value="dur").to_dicts()
    assert (row["size"], row["total"], row["mean"]) == (5, 146, 29.2)
    assert (row["median"], row["median_deviation"], row["quartile_range"]) == (12, 2, 4)
    assert row["mean_deviation"] == pytest.approx((19.2 * 2 + 17.2 + 15.2 + 70.8) / 5)
    assert (row["largest"], row["fence"], row["beyond"], row["excess"]) == (100, 27, 1, 88)


def test_what_a_coarse_clock_cannot_tell_apart_is_no_outlier():
    """Durations in ticks of 1000 ns: 3 is one tick above 2, and 5 is three above."""
    durations = [2_000] * 20 + [3_000, 5_000]
    (row,) = spread(counts({"k": durations}), by=["name"], value="dur").to_dicts()
    assert row["median_deviation"] == 0
    assert (row["fence"], row["beyond"], row["excess"]) == (4_000, 1, 3_000)


def test_a_tick_that_is_given_holds():
    """Two ticks of 1000 ns above the median, where the values alone are multiples of 4000 ns."""
    rows = counts({"k": [4_000] * 20 + [8_000]}).with_columns(tick=1_000)
    (row,) = spread(rows, by=["name"], value="dur", tick="tick").to_dicts()
    assert (row["fence"], row["beyond"], row["excess"]) == (6_000, 1, 4_000)


def quartile(values, quarter):
    """Return a quartile, linear between values and rounded half up, in integers."""
    ordered, (place, rest) = sorted(values), divmod(quarter * (len(values) - 1), 4)
    low, high = ordered[place], ordered[min(place + 1, len(values) - 1)]
    return (4 * low + (high - low) * rest + 2) // 4


@given(
    st.dictionaries(
        st.sampled_from("abc"), st.lists(st.integers(0, 60) | st.integers(0, 10**9), min_size=1)
    )
)
def test_against_numpy(groups):
    found = spread(counts(groups), by=["name"], value="dur", scatters=3, least=0)
    assert found["name"].to_list() == sorted(groups)
    tick = math.gcd(*(value for values in groups.values() for value in values))
    for row in found.to_dicts():
        values = np.array(groups[row["name"]])
        median = quartile(values, 2)
        scatter = quartile(abs(values - median), 2)
        assert row["median"] == median == pytest.approx(np.median(values), abs=0.5)
        assert row["median_deviation"] == scatter
        assert row["quartile_range"] == quartile(values, 3) - quartile(values, 1)
        assert row["mean_deviation"] == pytest.approx(abs(values - values.mean()).mean(), abs=1e-6)
        assert row["standard_deviation"] == pytest.approx(values.std(), abs=1e-6)
        assert row["fence"] == median + max(3 * scatter, 2 * tick)
        beyond = values[values > row["fence"]]
        assert (row["beyond"], row["excess"]) == (len(beyond), (beyond - median).sum())
        assert (row["size"], row["total"], row["largest"]) == (
            len(values),
            values.sum(),
            values.max(),
        )


@given(st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 60), min_size=1)))
def test_groups_apart_give_what_all_give(groups):
    rows = counts(groups).with_columns(tick=1)
    given = {"by": ["name"], "value": "dur", "tick": "tick"}
    found = [spread(part, **given) for part in rows.partition_by("name") or [rows]]
    within = STAGES.get("spread").within
    assert within is not None
    assert within.keys(given) == ["name"]
    assert within.keys({**given, "tick": None}) == []
    gathered = within.gather(pl.concat(reversed(found)).lazy(), **given).collect()
    assert_frame_equal(gathered, spread(rows, **given))


def test_no_rows_and_no_groups():
    assert spread(counts({}), by=["name"], value="dur").height == 0
    assert spread(counts({"a": [1], "b": [3]}), by=[], value="dur")["median"].to_list() == [2]


def test_mistakes():
    with pytest.raises(ConfigError, match="scatters: must be 0 or more"):
        spread(counts({"a": [1]}), by=["name"], value="dur", scatters=-1.0)
