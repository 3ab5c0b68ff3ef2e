"""Stage `sample`: the rows of a share of all things."""

from __future__ import annotations

import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.columns import check_columns
from pasta.pipeline.stage import stage

_HASHES = 1 << 64
_SHIFTS = (30, 27, 31)
_FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


@stage("sample", row_wise=True)
def sample(rows: pl.LazyFrame, *, by: str, rate: float) -> pl.LazyFrame:
    """Keep all rows of about a share `rate` of the distinct values of `by`.

    Whether a value is kept depends on the value alone, by a hash of it (the finalizer of
    SplitMix64: Steele, Lea and Flood 2014), so that every run, and every part of a trace, keeps the
    same.

    Args:
        rows: any rows.
        by: a column of integers, as the number of a granule; null is left out.
        rate: from 2^-64 up to 1, which keeps all.

    Raises:
        ConfigError: `by` is absent or holds no integers, or `rate` is not 2^-64 to 1.

    YAML: `some: {use: sample, from: sectors, by: sector, rate: 0.01}`
    """
    check_columns(rows, [by], "by")
    if not rows.collect_schema()[by].is_integer():
        raise ConfigError("by", f"column '{by}' holds no integers")
    if not 1 / _HASHES <= rate <= 1:
        raise ConfigError("rate", f"must be at least 2^-64 (5.4e-20) and at most 1, got {rate}")
    mixed = pl.col(by).cast(pl.UInt64, strict=False, wrap_numerical=True)
    for shift, factor in zip(_SHIFTS, (*_FACTORS, None), strict=True):
        mixed = mixed ^ (mixed // (1 << shift))
        mixed = mixed if factor is None else mixed * pl.lit(factor, pl.UInt64)
    return rows.filter(mixed <= pl.lit(int(rate * _HASHES) - 1, pl.UInt64))
