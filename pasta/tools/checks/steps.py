"""Steps of training or inference in which no kernel runs."""

from __future__ import annotations

import numpy as np
import polars as pl

from pasta.tools.checks.words import of, time
from pasta.trace import Trace
from pasta.trace_join.reading import batches

PROCESS = ["rank", "pid"]


def step_warnings(trace: Trace) -> list[str]:
    """Say how many steps neither see a kernel begin nor launch one, while others do."""
    if not (trace.has("kernel") and trace.has("span")):
        return []
    steps = _steps(trace)
    if not steps.height:
        return []
    counted = _with_kernels(trace, steps)
    empty = counted.filter(pl.col("kernels") == 0)
    if empty.height and trace.has("call"):
        empty = empty.join(_launching(trace, empty), on="step", how="anti")
    if not empty.height or empty.height == steps.height:
        return []
    first = empty.sort("ts", "rank").row(0, named=True)
    return [
        (
            f"{of(empty.height, steps.height, 'steps')} have no kernels, so that means over steps"
            f" mislead (first: rank {first['rank']}, '{first['name']}' at ts {first['ts']},"
            f" {time(first['dur'])} long)"
        )
    ]


def _steps(trace: Trace) -> pl.DataFrame:
    """Return the steps of processes that have kernels, each numbered, without repetition."""
    running = trace.scan("kernel").select(pl.col(PROCESS).fill_null(0)).unique()
    steps = (
        trace.scan("span")
        .filter(pl.col("level") == "step", pl.col("dur") > 0)
        .select(pl.col(PROCESS).fill_null(0), "ts", "dur", "name")
        .unique(["rank", "pid", "ts", "name"])
        .join(running, on=PROCESS, how="semi")
    )
    sorted_ = steps.collect(engine="streaming").sort("rank", "pid", "ts", "name")
    return sorted_.with_row_index("step")


def _with_kernels(trace: Trace, steps: pl.DataFrame) -> pl.DataFrame:
    """Return the steps with the number of kernels that begin in each."""
    counts = np.zeros(steps.height, dtype=np.int64)
    begin = steps["ts"].to_numpy()
    end = begin + steps["dur"].to_numpy()
    places = {
        key: rows["step"].to_numpy()
        for key, rows in steps.partition_by(PROCESS, as_dict=True, maintain_order=True).items()
    }
    for batch in batches(trace.files("kernel"), "kernel", ["rank", "pid", "ts"]):
        known = batch.with_columns(pl.col(PROCESS).fill_null(0)).drop_nulls("ts").sort("ts")
        for key, rows in known.partition_by(PROCESS, as_dict=True, maintain_order=True).items():
            if (own := places.get(key)) is not None:
                times = rows["ts"].to_numpy()
                counts[own] += times.searchsorted(end[own]) - times.searchsorted(begin[own])
    return steps.with_columns(kernels=counts)


def _launching(trace: Trace, steps: pl.DataFrame) -> pl.DataFrame:
    """Return those of a few steps in which a kernel is launched, whenever it then begins."""
    ends = steps.lazy().select(
        "step", pl.col(PROCESS), begin="ts", end=pl.col("ts") + pl.col("dur")
    )
    within = trace.scan("call").filter(
        pl.col("correlation") != 0,
        pl.col("ts").is_between(steps["ts"].min(), (steps["ts"] + steps["dur"]).max()),
    )
    key = [*PROCESS, "correlation"]
    launches = within.select(pl.col(PROCESS).fill_null(0), "correlation", "ts").join(
        trace.scan("kernel").select(pl.col(PROCESS).fill_null(0), "correlation"), on=key, how="semi"
    )
    found = launches.sort("ts").join_asof(
        ends.sort("begin"), left_on="ts", right_on="begin", by=PROCESS, check_sortedness=False
    )
    return found.filter(pl.col("ts") < pl.col("end")).select("step").unique().collect()
