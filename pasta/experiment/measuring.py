"""What each run of an experiment took, by level of the stack and by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pasta.experiment.plan import Experiment
from pasta.pipeline.kernels.trees import path_sums, tree
from pasta.pipeline.parentage import known_parents
from pasta.trace import Trace

RUN, STEP = "run", "step"
STACK = (RUN, STEP, "phase", "annotation", "module", "operator", "function", "library", "call")
DEVICE = ("kernel", "copy")
ORDER = {level: place for place, level in enumerate((*STACK, *DEVICE))}
"""Levels of the stack, from the program as a whole on."""

_SCHEMA = {
    "level": pl.String,
    "name": pl.String,
    "calls": pl.Int64,
    "time_ns": pl.Int64,
    "outer_ns": pl.Int64,
    "one_ns": pl.Int64,
}


def measure(experiment: Experiment, runs: Path) -> pl.DataFrame:
    """Return what each run took.

    Args:
        experiment: what was run.
        runs: folder of its runs.

    Returns:
        One row for each run, level of the stack and name: `case`, its number `case_number`, the collection
        level `collected` and its place `depth`, `round`; `level`, `name`, `calls`, `time_ns` (sum over calls),
        `outer_ns` (the same without calls within others of their level), `one_ns` (one call: the median of
        steps, else the mean).
    """
    cases = {case_text(case): number for number, case in enumerate(experiment.cases)}
    depths = {level.name: depth for depth, level in enumerate(experiment.levels)}
    frames = []
    for run in experiment.runs():
        case = case_text(run.case)
        rows = _of_run(Trace.open(runs / run.folder))
        frames.append(
            rows.select(
                pl.lit(case).alias("case"),
                pl.lit(cases[case], pl.Int64).alias("case_number"),
                pl.lit(run.level.name).alias("collected"),
                pl.lit(depths[run.level.name], pl.Int64).alias("depth"),
                pl.lit(run.round, pl.Int64).alias("round"),
                pl.all(),
            )
        )
    return pl.concat(frames)


def case_text(case: Mapping[str, Any]) -> str:
    """Return the values of a case as people read them; of an experiment without parameters, none."""
    return ", ".join(f"{name}={value}" for name, value in case.items()) or "(no parameters)"


def _of_run(trace: Trace) -> pl.DataFrame:
    found = [_whole(trace)]
    if trace.has("span"):
        found.append(_spans(trace.scan("span")))
    for level, name in (("call", "name"), ("kernel", "name"), ("copy", "kind")):
        if trace.has(level):
            found.append(_work(trace.scan(level), level, name))
    rows = [plan.select(_columns()).collect() for plan in found]
    return pl.concat(rows).sort("level", "name")


def _columns() -> list[pl.Expr]:
    return [pl.col(name).cast(kind) for name, kind in _SCHEMA.items()]


def _whole(trace: Trace) -> pl.LazyFrame:
    """The program, from its start to the end of its last process."""
    took = pl.col("ended").max() - pl.col("started").min()
    whole = trace.scan("process").select(time_ns=took).filter(pl.col("time_ns").is_not_null())
    return whole.with_columns(
        level=pl.lit(RUN), name=pl.lit("the program"), calls=1, outer_ns="time_ns", one_ns="time_ns"
    )


def _spans(spans: pl.LazyFrame) -> pl.LazyFrame:
    found = spans.select(
        *("rank", "pid", "tid", "span_id", "parent_id", "ts", "dur", "name"),
        pl.col("level").cast(pl.String),
    ).collect()
    named = pl.when(pl.col("level") == STEP).then(pl.lit(STEP)).otherwise("name")
    one = pl.when(pl.col("level").first() == STEP).then(pl.col("dur").median())
    return (
        found.lazy()
        .with_columns(name=named, outer=pl.lit(_outer(found)))
        .filter(pl.col("dur").is_not_null(), pl.col("level") != RUN)
        .group_by("level", "name")
        .agg(
            calls=pl.len(),
            time_ns=pl.col("dur").sum(),
            outer_ns=pl.col("dur").filter("outer").sum(),
            one_ns=one.otherwise(pl.col("dur").mean()).round(),
        )
    )


def _outer(spans: pl.DataFrame) -> pl.Series:
    """Tell which spans lie in no other of their level, whatever is between; in unfinished ones all may."""
    rows = tree(known_parents(spans, "span_id", "parent_id"))
    outer = np.zeros(spans.height, dtype=bool)
    for level in spans["level"].unique():
        own = spans.select(pl.col("dur").is_not_null() & (pl.col("level") == level)).to_series()
        around = path_sums(rows, own.to_numpy().astype(np.int64))
        outer |= own.to_numpy() & (around == 1)
    return pl.Series(outer)


def _work(rows: pl.LazyFrame, level: str, name: str) -> pl.LazyFrame:
    timed = rows.filter(pl.col("dur").is_not_null())
    return (
        timed.group_by(pl.col(name).alias("name"))
        .agg(
            calls=pl.len(),
            time_ns=pl.col("dur").sum(),
            outer_ns=pl.col("dur").sum(),
            one_ns=pl.col("dur").mean().round(),
        )
        .with_columns(level=pl.lit(level))
    )
