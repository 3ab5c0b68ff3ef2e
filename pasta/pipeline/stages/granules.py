"""Stage `granules`: the aligned pieces of memory that a range of addresses lies in."""

from __future__ import annotations

import numpy as np
import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.arguments import Bytes
from pasta.pipeline.columns import check_added, integers, require, unsigned
from pasta.pipeline.frames import gather, mask, with_arrays
from pasta.pipeline.kernels.ranges import cut_evenly
from pasta.pipeline.stage import stage


def _on_device(rows: pl.DataFrame, *, size: Bytes, column: str) -> pl.DataFrame:
    starts = unsigned(rows, "address")
    ends = starts + integers(rows, "bytes").clip(0).astype(starts.dtype)
    known = mask(rows, pl.col("address").is_not_null())
    cut = cut_evenly(starts, ends * known, size)
    numbers = (cut.starts // size).astype(np.int64)
    return with_arrays(gather(rows, cut.rows), **{column: numbers})


@stage("granules", row_wise=True, on_device=_on_device)
def granules(rows: pl.LazyFrame, *, size: Bytes, column: str = "granule") -> pl.LazyFrame:
    """Repeat each row for each granule that its bytes lie in.

    Granules are `size` bytes long and aligned to absolute addresses: the number of one is its
    first address divided by `size`.

    Args:
        rows: rows with `address` and `bytes`; those whose range is empty or unknown are left out.
        size: bytes of a granule, as 32 for sectors, `4KiB` for pages.
        column: name of the new column, the number of the granule.

    Raises:
        ConfigError: `size` is below 1 byte, or the rows have a column of the new one's name.

    YAML: `sectors: {use: granules, from: accesses, size: 32, column: sector}`
    """
    require(rows, ["address", "bytes"])
    if size <= 0:
        raise ConfigError("size", f"must be 1 byte or more, got {size}")
    check_added(rows, [column], "column")
    end = pl.col("address") + pl.col("bytes").cast(pl.UInt64)
    first, beyond = pl.col("address") // size, (end + (size - 1)) // size
    ranges = pl.int_ranges(first.cast(pl.Int64), beyond.cast(pl.Int64))
    known = rows.filter(pl.col("bytes") > 0, pl.col("address").is_not_null())
    return known.with_columns(ranges.alias(column)).explode(column, empty_as_null=True)
