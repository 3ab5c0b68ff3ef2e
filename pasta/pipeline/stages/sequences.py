"""Stage `sequences`: patterns of rows that follow each other again and again."""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.arguments import Nanoseconds
from pasta.pipeline.columns import check_keys, integers, number_groups, ordinals, require
from pasta.pipeline.frames import beside, from_arrays, gather, stacked
from pasta.pipeline.kernels.namespace import array_namespace
from pasta.pipeline.kernels.ordering import numbered, order_by
from pasta.pipeline.kernels.sequences import Sequences, recurring
from pasta.pipeline.kernels.trees import sums_at
from pasta.pipeline.stage import stage

MOST_ITEMS = 32


@stage("sequences", order="own")
def sequences(
    rows: pl.DataFrame,
    *,
    by: list[str],
    item: str,
    order: list[str] = [],  # noqa: B006 (never mutated)
    longest: int = 5,
    least: int = 2,
    most_gap: Nanoseconds | None = None,
    start: str = "ts",
    duration: str = "dur",
) -> pl.DataFrame:
    """Find which sequences of 2 to `longest` items recur, how long they take and wait inside.

    Occurrences do not overlap: from each lane's first on, the next that begins after the last one's end.
    A sequence that lies in one of one item more, which occurs as often, is left out: the longer one tells it.
    Those of `longest` items stay.

    Args:
        rows: rows with a start and a duration, as kernels; those without are left out.
        by: columns that name a lane, as a stream; rows follow each other within it.
        item: the column of texts that make up a sequence, as names.
        order: columns of integers that say which of rows that begin at once is first.
        longest: most items of a sequence, up to 32.
        least: how often, over all lanes, a sequence must occur.
        most_gap: how long after the end of one item the next may begin; default any time.
        start: column of starts, ns.
        duration: column of durations, ns.

    Returns:
        A row for each sequence and lane: `by`, `sequence` (the items, joined as in `a > b > c`), `first` and `last`
        of them, `length`, `times` in that lane, `time_ns` (the sum of the durations) and `gap_ns` (between the items of an
        occurrence, where the next begins after the end of the one before). In order of `by`, length and text.

    Raises:
        ConfigError: `longest` is not 2 to 32, or a column is absent.

    YAML: `{use: sequences, from: kernels, by: [rank, pid, device, stream], item: name, order: [launch_id], longest: 8}`
    """
    if not 2 <= longest <= MOST_ITEMS:
        raise ConfigError("longest", f"expected 2 to {MOST_ITEMS} items, got {longest}")
    require(rows, [*by, item, start, duration, *order])
    check_keys(rows, [item], "item")
    rows = rows.drop_nulls([start, duration, item])
    keys, (lanes,) = number_groups(by, rows)
    _, (items,) = number_groups([item], rows)
    places = order_by(lanes, integers(rows, start), *(ordinals(rows, name) for name in order))
    lanes, items = lanes[places], items[places]
    begins, lengths = integers(rows, start)[places], integers(rows, duration)[places]
    texts = gather(rows.select(pl.col(item).cast(pl.String)), places)
    gaps = array_namespace(begins).maximum(begins[1:] - begins[:-1] - lengths[:-1], 0)
    where = _Lanes(keys, lanes, texts)
    sums = _Sums(lengths, gaps)
    parts = [
        _summed(found, where, sums, least)
        for found in recurring(_runs(lanes, gaps, most_gap), items, longest)
    ]
    return stacked(parts).sort(*by, "length", "sequence", nulls_last=False)


def _runs(lanes: Any, gaps: Any, most_gap: int | None) -> Any:
    """Number what lies in one lane with no longer gap inside."""
    xp = array_namespace(lanes)
    ends = lanes[1:] != lanes[:-1]
    if most_gap is not None:
        ends |= gaps > most_gap
    return xp.append(xp.zeros(min(len(lanes), 1), dtype=xp.int64), xp.cumsum(ends))


class _Lanes(NamedTuple):
    """The keys of all lanes, and the lane and the text of each place."""

    keys: pl.DataFrame
    lanes: Any
    texts: pl.DataFrame


class _Sums:
    """Sums of durations, and of gaps before all but the first item, of occurrences."""

    def __init__(self, lengths: Any, gaps: Any) -> None:
        xp = array_namespace(lengths)
        nothing = xp.zeros(1, dtype=xp.int64)
        self.durations = xp.append(nothing, xp.cumsum(lengths))
        self.gaps = xp.append(nothing, xp.cumsum(gaps))

    def of(self, starts: Any, length: int) -> tuple[Any, Any]:
        """Return both sums for occurrences at `starts`."""
        durations = self.durations[starts + length] - self.durations[starts]
        return durations, self.gaps[starts + length - 1] - self.gaps[starts]


def _summed(found: Sequences, where: _Lanes, sums: _Sums, least: int) -> pl.DataFrame:
    """Return the rows of all closed sequences of one length that occur often enough."""
    xp, lanes, texts = array_namespace(where.lanes), where.lanes, where.texts
    frequent = found.closed & (found.times >= least)
    kept = frequent[found.of_occurrences]
    which, starts = found.of_occurrences[kept], found.starts[kept]
    lane_count = int(lanes.max()) + 1 if len(lanes) else 1
    cells, cell = numbered(which * lane_count + lanes[starts])
    durations, gaps = sums.of(starts, found.length)
    columns = {
        "length": xp.full(len(cells), found.length, dtype=xp.int64),
        "times": sums_at(cell, xp.ones(len(cell), dtype=xp.int64), len(cells)),
        "time_ns": sums_at(cell, durations, len(cells)),
        "gap_ns": sums_at(cell, gaps, len(cells)),
    }
    firsts = found.first[cells // lane_count]
    names = [
        gather(texts, firsts + offset).select(pl.first().alias(f"# {offset}"))
        for offset in range(found.length)
    ]
    items = names[0]
    for more in names[1:]:
        items = beside(items, more)
    text = items.select(
        pl.concat_str(items.columns, separator=" > ").alias("sequence"),
        pl.col(items.columns[0]).alias("first"),
        pl.col(items.columns[-1]).alias("last"),
    )
    counted = beside(text, from_arrays(columns, like=texts))
    if where.keys.width == 0:
        return counted
    return beside(gather(where.keys, cells % lane_count), counted)
