"""The stage `sample`."""

from __future__ import annotations

from fractions import Fraction

import polars as pl
import pytest

from pasta.errors import ConfigError
from pasta.pipeline.stages.sample import sample

MASK = (1 << 64) - 1


def hashed(value):
    """The finalizer of SplitMix64, as published."""
    value &= MASK
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & MASK
    return value ^ (value >> 31)


@pytest.mark.parametrize("rate", [1, 1.0, 0.3, 0.01, 2**-24])
@pytest.mark.parametrize("kind", [pl.Int64, pl.UInt64, pl.Int32])
def test_rows_whose_value_hashes_below_the_rate(rate, kind):
    values = [*range(1000), *range(1_000_000, 1_002_000, 7), *([-1, -5] if kind != pl.UInt64 else [])]  # fmt: skip
    rows = pl.LazyFrame({"sector": pl.Series(values, dtype=kind)})
    expected = [v for v in values if hashed(v) < Fraction(rate) * (1 << 64)]
    assert sample(rows, by="sector", rate=rate).collect()["sector"].to_list() == expected


def test_the_share_is_about_the_rate_on_any_stride():
    for stride in (1, 32, 4096, 1 << 20):
        rows = pl.LazyFrame({"sector": pl.int_range(0, 100_000 * stride, stride, eager=True)})
        kept = sample(rows, by="sector", rate=0.1).collect().height
        assert abs(kept - 10_000) < 5 * (100_000 * 0.1 * 0.9) ** 0.5


def test_a_rate_is_kept_to_the_hash():
    """Of a rate that were rounded, as to steps of 2^-24, stages that divide by it would know nothing."""
    rows = pl.LazyFrame({"sector": [7, 8]})
    lower, higher = sorted(hashed(value) / (1 << 64) for value in (7, 8))
    for rate, kept in ((lower * (1 - 1e-9), 0), (lower * (1 + 1e-9), 1), (higher * (1 + 1e-9), 2)):
        assert sample(rows, by="sector", rate=rate).collect().height == kept


def test_null_is_left_out():
    rows = pl.LazyFrame({"sector": pl.Series([None, 3], dtype=pl.Int64)})
    assert sample(rows, by="sector", rate=1).collect().height == 1


@pytest.mark.parametrize(
    ("by", "rate", "path"),
    [
        ("sector", 0.0, "rate"),
        ("sector", 2**-65, "rate"),
        ("sector", 1.5, "rate"),
        ("name", 0.5, "by"),
        ("x", 0.5, "by"),
    ],
)
def test_mistakes(by, rate, path):
    with pytest.raises(ConfigError) as error:
        sample(pl.LazyFrame({"sector": [1], "name": ["a"]}), by=by, rate=rate)
    assert error.value.path == path
