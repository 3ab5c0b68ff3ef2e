"""Time every tool on an imported trace beside a query written by hand in Polars.

    python benchmarks/tools.py TRACE [RUNS]

Both sides run in one process, in turn, RUNS times (default 7); medians are printed, in seconds, and
the answers are compared. Reading the Parquet files is part of both; starting Python is not, nor is
reading and checking the tool, which has a column of its own.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

import pasta
from pasta import api


def scan(trace: Path, table: str) -> pl.LazyFrame:
    """Return a table of the trace as anybody would read it."""
    return pl.scan_parquet(trace / table / "*.parquet")


def summary(trace: Path) -> Any:
    """Rows, first start and last end of each rank in each table."""
    plans = []
    for folder in trace.iterdir():
        if not folder.is_dir():
            continue
        rows = scan(trace, folder.name)
        columns = rows.collect_schema().names()
        times = [pl.col("ts").min().alias("first")] if "ts" in columns else []
        if "dur" in columns:
            times.append((pl.col("ts") + pl.col("dur").fill_null(0)).max().alias("last"))
        plans.append(rows.group_by("rank").agg(pl.len(), *times))
    return sum(rows["len"].sum() for rows in pl.collect_all(plans))


def kernel_frequency(trace: Path) -> Any:
    """Calls and time of each kernel, and how few make most of the calls and of the time."""
    rows = (
        scan(trace, "kernel")
        .group_by("name")
        .agg(
            pl.len().alias("calls"),
            pl.col("dur").sum().alias("time"),
            pl.col("dur").min().alias("least"),
            pl.col("dur").max().alias("most"),
        )
        .with_columns(share=pl.col("calls") / pl.col("calls").sum())
        .sort("calls", "name", descending=[True, False])
    )
    before = [
        ((pl.col(c).cum_sum() - pl.col(c)) / pl.col(c).sum()).alias(f"{c}_before")
        for c in ("calls", "time")
    ]
    by_time = rows.sort("time", descending=True).with_columns(before[1])
    few = [
        (pl.col(f"{c}_before") < share).sum().alias(f"{c}{share}")
        for c in ("calls", "time")
        for share in (0.5, 0.8, 0.95)
    ]
    plans = [
        rows.head(20),
        rows.with_columns(before[0]).select(few[:3]),
        by_time.select(few[3:]),
    ]
    top, *_ = pl.collect_all(plans, engine="streaming")
    return top["calls"][0]


def union(intervals: pl.LazyFrame, device: str = "device") -> pl.LazyFrame:
    """Merge intervals of each device by the running maximum of ends."""
    ordered = (
        intervals.drop_nulls("dur")
        .sort(device, "ts")
        .with_columns(end=pl.col("ts") + pl.col("dur"))
    )
    reached = pl.col("end").cum_max().over(device).shift(1).over(device)
    return ordered.with_columns(
        covered=(pl.col("end") - pl.max_horizontal("ts", reached.fill_null(0))).clip(0)
    )


def device_time(trace: Path) -> Any:
    """Busy, compute, communication, their union and copy time, each by a union of its own."""
    kernels, copies = scan(trace, "kernel"), scan(trace, "copy")
    collective = scan(trace, "collective").select("launch_id")
    columns = ["device", "ts", "dur"]
    compute = kernels.join(collective, on="launch_id", how="anti").select(columns)
    communication = kernels.join(collective, on="launch_id", how="semi").select(columns)
    copying = copies.select(columns)
    both = pl.concat([compute, communication])
    sets = [pl.concat([both, copying]), compute, communication, both, copying]
    plans = [union(rows).group_by("device").agg(pl.col("covered").sum()) for rows in sets]
    busy, _, *_ = pl.collect_all(plans, engine="streaming")
    return busy["covered"].item()


def memory_timeline(trace: Path) -> Any:
    """The peak of live bytes, and what was live then by allocating operator."""
    events = scan(trace, "memory").sort("ts").collect()
    keys = ["device", "space"]
    peaks = events.group_by(keys).agg(
        pl.col("total_allocated").max(), pl.col("total_reserved").max(), pl.len()
    )
    top = peaks.sort("total_allocated", descending=True).head(1)
    at = events.join(top, on=[*keys, "total_allocated"], how="semi").sort("ts").head(1)
    place = [*keys, "address"]
    numbered = events.with_columns(
        allocation=(pl.col("event") == "allocate").cast(pl.Int64).cum_sum().over(place)
    )
    starts = numbered.filter(event="allocate")
    ends = (
        numbered.filter(event="release")
        .group_by([*place, "allocation"])
        .agg(pl.col("ts").min().alias("end"))
    )
    lives = starts.join(ends, on=[*place, "allocation"], how="left")
    when = at["ts"].item()
    held = lives.filter(pl.col("ts") <= when, pl.col("end").is_null() | (pl.col("end") > when))
    spans = scan(trace, "span").select("tid", "ts", "dur", "name").sort("ts").collect()
    named = held.sort("ts").join_asof(spans, on="ts", by="tid")
    named.group_by("name").agg(pl.col("bytes").sum()).sort("bytes", descending=True).head(10)
    return at["total_allocated"].item()


def operator_time(trace: Path) -> Any:
    """Self time by operator, and device time by the innermost operator around each launch."""
    spans = scan(trace, "span").select("span_id", "parent_id", "tid", "ts", "dur", "name").collect()
    children = spans.group_by("parent_id").agg(pl.col("dur").sum().alias("below"))
    own = spans.join(children, left_on="span_id", right_on="parent_id", how="left").with_columns(
        self_ns=pl.col("dur") - pl.col("below").fill_null(0)
    )
    calls = scan(trace, "call").select("correlation", "tid", "ts")
    launched = (
        scan(trace, "kernel")
        .select("correlation", kernel_ns="dur")
        .join(calls, on="correlation")
        .sort("ts")
        .collect()
    )
    found = launched.join_asof(
        spans.with_columns(end=pl.col("ts") + pl.col("dur"), start="ts").sort("ts"),
        on="ts",
        by="tid",
    )
    ends = spans.select("span_id", "parent_id", (pl.col("ts") + pl.col("dur")).alias("end"))
    for _ in range(4):
        inside = (pl.col("ts") < pl.col("end")).fill_null(value=True)
        outside = found.filter(~inside).drop("span_id", "end")
        climbed = outside.join(
            ends, left_on="parent_id", right_on="span_id", how="left", suffix="_up"
        )
        climbed = climbed.rename({"parent_id": "span_id"}).rename({"parent_id_up": "parent_id"})
        found = pl.concat([found.filter(inside), climbed.select(found.columns)])
    device = found.group_by("span_id").agg(pl.col("kernel_ns").sum(), pl.len().alias("kernels"))
    timed = own.join(device, on="span_id", how="left")
    codes = timed.select("span_id", "parent_id", path=pl.col("name").hash())
    level = codes.join(codes.select("span_id"), left_on="parent_id", right_on="span_id", how="anti")
    levels = [level]
    while level.height:
        level = codes.join(
            level.select("span_id", above="path"), left_on="parent_id", right_on="span_id"
        )
        level = level.select("span_id", "parent_id", path=pl.struct("path", "above").hash())
        levels.append(level)
    paths = pl.concat(levels).join(timed, on="span_id")
    paths.group_by("path").agg(
        pl.len(),
        pl.col("dur").sum(),
        pl.col("self_ns").sum(),
        pl.col("kernel_ns").sum(),
        pl.col("kernels").sum(),
    )
    by_name = timed.group_by("name").agg(pl.col("self_ns").sum()).sort("self_ns", descending=True)
    return by_name["name"][0]


BY_HAND: dict[str, tuple[Callable[[Path], Any], Callable[[Any], Any]]] = {
    "summary": (summary, lambda report: report.facts["rows"]),
    "kernel_frequency": (kernel_frequency, lambda report: report.tables["top"]["calls"][0]),
    "device_time": (device_time, lambda report: report.tables["devices"]["busy_ns"].item()),
    "memory_timeline": (
        memory_timeline,
        lambda report: report.tables["peak_by_space"]["peak_bytes"].max(),
    ),
    "operator_time": (operator_time, lambda report: report.tables["slowest"]["name"][0]),
}


def seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    """Return how long `function` took, and its result."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def main() -> None:
    """Print a line for each tool."""
    trace = Path(sys.argv[1])
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    print(f"polars {pl.__version__}, {pl.thread_pool_size()} threads, median of {runs}")
    print(f"{'tool':<18} {'check s':>8} {'run s':>8} {'by hand s':>10} {'ratio':>6}  same answer")
    for tool, (by_hand, answer) in BY_HAND.items():
        checks, own, hand = [], [], []
        for _ in range(runs + 1):
            checks.append(seconds(lambda tool=tool: api.check(tool)))
            own.append(seconds(lambda tool=tool: pasta.run(tool, trace=trace)))
            hand.append(seconds(lambda by_hand=by_hand: by_hand(trace)))
        same = answer(own[-1][1]) == hand[-1][1]
        check, whole, other = (
            statistics.median(s for s, _ in side[1:]) for side in (checks, own, hand)
        )
        run = whole - check
        print(f"{tool:<18} {check:>8.3f} {run:>8.3f} {other:>10.3f} {run / other:>6.2f}  {same}")


if __name__ == "__main__":
    main()
