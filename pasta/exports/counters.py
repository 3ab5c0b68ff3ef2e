"""Values over time: live bytes of each process, device and space, and metrics."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from pasta.exports.columns import numbered
from pasta.exports.exporter import Exported
from pasta.exports.timeline import Slice

_UNKNOWN = "releases of memory whose allocation is not in the trace: left out"
_NOT_FINITE = "metrics whose value is no number: left out"
_PLACE = ("rank", "pid", "device", "space")

Place = tuple[int, int, int, str]


class Counters:
    """Follows allocations, of which what is live is held, one number each.

    Args:
        exported: where rows that give no value are counted, and taken from those that are written.
    """

    TABLES = ("memory", "metric")

    def __init__(self, exported: Exported) -> None:
        self._exported = exported
        self._places: dict[Place, int] = {}
        self._live: list[dict[int, int]] = []
        self._totals: list[int] = []

    def values(self, found: Slice) -> list[pl.DataFrame]:
        """Return the values that rows of `memory` and `metric` tell.

        Returns:
            Frames of `ts`, `rank`, `pid`, `name` (unique in its process), `unit` and `value`: live bytes
            as Int64, metrics as Float64.
        """
        frames = []
        if "memory" in found:
            frames.append(self._live_bytes(found["memory"]))
        if "metric" in found:
            frames.append(self._metrics(found["metric"]))
        return [frame for frame in frames if frame.height]

    def _live_bytes(self, rows: pl.DataFrame) -> pl.DataFrame:
        rows = rows.with_columns(
            pl.col("device", "address", "bytes").fill_null(0),
            pl.col("space").cast(pl.String).fill_null("unknown"),
            pl.col("event") == "allocate",
        )
        where = pl.when(pl.col("device") >= 0).then(pl.format("GPU {}", "device")).otherwise(pl.lit("host"))  # fmt: skip
        found = rows.select(
            *("ts", "rank", "pid"),
            pl.format("{} live bytes ({})", where, "space").alias("name"),
            pl.lit("bytes").alias("unit"),
            pl.Series("value", list(self._follow(rows)), pl.Int64),
        )
        return self._known(found, "memory", _UNKNOWN)

    def _follow(self, rows: pl.DataFrame) -> Iterator[int | None]:
        """Give the live bytes of its place after each row; `None`: it tells none."""
        places = numbered(rows, _PLACE, self._place).tolist()
        columns = [rows[name].to_list() for name in ("event", "address", "bytes")]
        for place, allocated, address, size in zip(places, *columns, strict=True):
            live = self._live[place]
            if allocated:
                self._totals[place] += size - live.get(address, 0)
                live[address] = size
            elif address in live:
                self._totals[place] -= live.pop(address)
            else:
                yield None
                continue
            yield self._totals[place]

    def _place(self, key: Place) -> int:
        if key not in self._places:
            self._places[key] = len(self._places)
            self._live.append({})
            self._totals.append(0)
        return self._places[key]

    def _metrics(self, rows: pl.DataFrame) -> pl.DataFrame:
        rows = rows.with_columns(pl.col("name").cast(pl.String).fill_null("metric"))
        of_device = pl.col("device") >= 0
        found = rows.select(
            *("ts", "rank", "pid"),
            pl.when(of_device).then(pl.format("GPU {} {}", "device", "name")).otherwise("name").alias("name"),
            pl.col("unit").cast(pl.String).fill_null(""),
            pl.when(pl.col("value").is_finite()).then("value").alias("value"),
        )  # fmt: skip
        return self._known(found, "metric", _NOT_FINITE)

    def _known(self, found: pl.DataFrame, table: str, reason: str) -> pl.DataFrame:
        unknown = found["value"].null_count()
        self._exported.lose(reason, unknown)
        self._exported.rows[table] -= unknown
        return found.filter(pl.col("value").is_not_null())
