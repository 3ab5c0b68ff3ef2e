"""What is known only when a live trace is finished: spans that ended, totals, what a row lacked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from pasta.collect.losses import Losses
from pasta.collect.shaping.span_parents import SpanParents
from pasta.schema import TABLES
from pasta.trace_merge import Transform
from pasta.trace_writer import PartWriter

METRIC = "metric"
_FIRST_ID = 1 << 40
"""The first id given to spans that come without one: hooks count their own from 1."""


def complete_tables(
    part: PartWriter, rank: int, ended: Mapping[int, int], exit_codes: Mapping[int, int]
) -> None:
    """Complete and sort the tables of a rank, all but `metric`, where what that took is told.

    Args:
        part: the tables.
        rank: the rank.
        ended: pid -> when it was last heard of, in ns.
        exit_codes: pid -> exit code, negative for a signal, where it is known.
    """
    part.rewrite("process", processes(ended, exit_codes))
    part.rewrite("thread", combined(["pid", "tid"]))
    part.rewrite("device", combined(["pid", "device"]))
    losses = Losses("pasta")
    part.finish({"span": live_spans(losses)}, only=["span"])
    part.append("loss", losses.rows(rank, 0))
    part.finish({"memory": running_totals()}, only=TABLES.keys() - {METRIC})


def ended_spans(spans: pl.DataFrame) -> pl.DataFrame:
    """Drop the row of a span that was written while it was open, where one with its end is there.

    Both have one start, so that they meet in one slice.
    """
    open_ones = pl.col("dur").is_null() & (pl.col("span_id").fill_null(0) > 0)
    ended = spans.filter(pl.col("dur").is_not_null(), pl.col("span_id") > 0)
    kept = spans.filter(open_ones).join(ended, on=["pid", "span_id"], how="anti")
    kept = kept.unique(["pid", "span_id"], maintain_order=True)
    return pl.concat([spans.filter(~open_ones), kept]).sort("ts", maintain_order=True)


def live_spans(losses: Losses) -> Transform:
    """Return what completes spans: those written while open are dropped, ids and parents filled in.

    Where operators come without ids they get some, and all spans are given the innermost span that
    encloses them on their thread; an unfinished one encloses all that follows.

    Args:
        losses: where what parents leave doubtful is counted.
    """
    parents = SpanParents(losses, open_ended=True, first=_FIRST_ID)

    def complete(spans: pl.DataFrame) -> pl.DataFrame:
        ended = _with_phases_once(ended_spans(spans))
        numbered = (ended["span_id"].fill_null(0) > 0).all()
        return ended if numbered else parents.add(ended)

    return complete


def _with_phases_once(spans: pl.DataFrame) -> pl.DataFrame:
    """Drop PyTorch's own ranges around an optimizer's step, which the hooks tell as a phase.

    They would not nest: the step ends in a hook, inside of them. Those around `zero_grad` stay.
    """
    own = pl.col("level").is_in(["annotation", "phase"]) & (pl.col("span_id").fill_null(0) == 0)
    zero_grad = own & pl.col("name").str.starts_with("Optimizer.zero_grad#")
    level = pl.when(zero_grad).then(pl.lit("phase")).otherwise("level")
    twice = own & pl.col("name").str.starts_with("Optimizer.step#")
    return spans.filter(~twice.fill_null(value=False)).with_columns(level.alias("level"))


def combined(keys: list[str]) -> Transform:
    """Return what makes one row of those with equal `keys`, of the last known values; 0 is no stack."""

    def combine(rows: pl.DataFrame) -> pl.DataFrame:
        known = [pl.exclude(*keys, "stack_id").drop_nulls().last()]
        if "stack_id" in rows.columns:
            stack = pl.col("stack_id")
            known.append(stack.filter(stack > 0).last().fill_null(0))
        return rows.group_by(keys, maintain_order=True).agg(known).select(rows.columns)

    return combine


def processes(ended: Mapping[int, int], exit_codes: Mapping[int, int]) -> Transform:
    """Return what makes one row of each process, with its end.

    Args:
        ended: pid -> when it was last heard of, in ns, for those that did not say it themselves.
        exit_codes: pid -> exit code, negative for a signal, where it is known.
    """

    def complete(rows: pl.DataFrame) -> pl.DataFrame:
        pid = pl.col("pid")
        heard = pid.replace_strict(dict(ended), default=None, return_dtype=pl.Int64)
        code = pid.replace_strict(dict(exit_codes), default=None, return_dtype=pl.Int32)
        return combined(["pid"])(rows).with_columns(
            pl.col("ended").fill_null(heard), exit_code=pl.col("exit_code").fill_null(code)
        )

    return complete


def running_totals() -> Transform:
    """Return what fills `total_allocated` where it is null: live bytes by device and space.

    Totals are formed in the order of time, once that is certain: a finaliser may run between the
    reading of the clock for another event and that event's row.
    """
    carried: dict[tuple[Any, ...], int] = {}

    def fill(events: pl.DataFrame) -> pl.DataFrame:
        change = pl.when(pl.col("event") == "allocate").then("bytes").otherwise(-pl.col("bytes"))
        keys = ["pid", "device", "space"]
        before = pl.Series(
            [carried.get(key, 0) for key in events.select(keys).iter_rows()], dtype=pl.Int64
        )
        total = change.cum_sum().over(keys) + before
        filled = events.with_columns(pl.col("total_allocated").fill_null(total))
        sums = events.group_by(keys).agg(change.sum().alias("change"))
        for *key, by in sums.iter_rows():
            carried[tuple(key)] = carried.get(tuple(key), 0) + by
        return filled

    return fill
