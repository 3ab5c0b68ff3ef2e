"""The graphs of `benchmarks/engines.py` written by hand, for Polars, DuckDB and pandas.

Each function takes what reads a table (some columns of it) and returns the result's rows; `ANSWERS`
says which numbers of a result must agree between all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

Read = Callable[[str, list[str]], Any]

COLUMNS = {
    "page_set": {
        "access": ["rank", "launch_id", "address"],
        "kernel": ["rank", "launch_id", "name"],
    },
    "hot_blocks": {"access": ["rank", "launch_id", "address", "op"]},
    "reuse_gap": {"access": ["rank", "launch_id", "request", "lane", "address"]},
    "device_time": {"kernel": ["rank", "device", "ts", "dur"]},
}
"""Graph -> table -> the columns that it needs; reading them is the floor."""

ANSWERS = {
    "page_set": ["launches", "most", "total"],
    "hot_blocks": ["accesses", "writes"],
    "reuse_gap": ["reuses", "longest", "total"],
    "device_time": ["span_ns", "busy_ns"],
}
"""Graph -> columns of its result whose sums are compared, with the number of rows."""


def polars_page_set(read: Read) -> pl.LazyFrame:
    """Pages of 4 KiB that launches touch, by kernel."""
    accesses, kernels = (read(t, c) for t, c in COLUMNS["page_set"].items())
    pages = accesses.select("rank", "launch_id", page=pl.col("address") // 4096).unique()
    sizes = pages.group_by("rank", "launch_id").agg(pages=pl.len())
    measures = {"launches": pl.len(), "most": pl.col("pages").max(), "total": pl.col("pages").sum()}
    return (
        sizes.join(kernels, on=["rank", "launch_id"]).group_by("name").agg(**measures).sort("name")
    )


def polars_hot_blocks(read: Read) -> pl.LazyFrame:
    """Accesses and writes by window of 1,000 launches and block of 2 MiB."""
    accesses = read("access", COLUMNS["hot_blocks"]["access"])
    keys = {"window": pl.col("launch_id") // 1000, "hot": pl.col("address") // (2 << 20)}
    placed = accesses.select("rank", "op", **keys)
    cells = placed.group_by("rank", *keys).agg(
        accesses=pl.len(), writes=(pl.col("op") == 1).cast(pl.Int64).sum()
    )
    return cells.sort("rank", *keys)


def polars_reuse_gap(read: Read) -> pl.LazyFrame:
    """How long ago each page of 64 KiB was last touched, by launch."""
    place = pl.col("launch_id") * (1 << 32) + pl.col("request") * 32 + pl.col("lane")
    placed = read("access", COLUMNS["reuse_gap"]["access"]).select(
        "rank", "launch_id", page=pl.col("address") // 65536, place=place.cast(pl.Int64)
    )
    gap = pl.col("place").diff().over("rank", "page", order_by="place")
    measures = {
        "reuses": pl.col("gap").count(),
        "longest": pl.col("gap").max(),
        "total": pl.col("gap").sum(),
    }
    gaps = placed.with_columns(gap=gap).group_by("rank", "launch_id").agg(**measures)
    return gaps.sort("rank", "launch_id")


def polars_device_time(read: Read) -> pl.LazyFrame:
    """Span and busy time of each device, by the running maximum of ends."""
    device = ["rank", "device"]
    rows = read("kernel", COLUMNS["device_time"]["kernel"]).drop_nulls("dur")
    rows = rows.sort(*device, "ts").with_columns(end=pl.col("ts") + pl.col("dur"))
    reached = pl.col("end").cum_max().over(device)
    rows = rows.with_columns(before=reached.shift(1).over(device))
    begin = pl.max_horizontal("ts", "before")
    measures = {
        "span_ns": pl.col("end").max() - pl.col("ts").min(),
        "busy_ns": (pl.col("end") - begin).clip(0).sum(),
    }
    return rows.group_by(device).agg(**measures).sort(device)


DUCKDB = {
    "page_set": """
        with pages as (select distinct rank, launch_id, address // 4096 as page from access),
        sizes as (select rank, launch_id, count(*) as pages from pages group by all)
        select name, count(*) as launches, max(pages) as most, sum(pages) as total
        from sizes join kernel using (rank, launch_id) group by name order by name""",
    "hot_blocks": """
        select rank, launch_id // 1000 as window_, address // 2097152 as hot, count(*) as accesses,
        sum((op = 1)::int) as writes from access group by all order by all""",
    "reuse_gap": """
        with placed as (select rank, launch_id, address // 65536 as page,
        (launch_id * 4294967296 + request * 32 + lane)::bigint as place from access),
        timed as (select rank, launch_id, place - lag(place) over
        (partition by rank, page order by place) as gap from placed)
        select rank, launch_id, count(gap) as reuses, max(gap) as longest, sum(gap) as total
        from timed group by all order by rank, launch_id""",
    "device_time": """
        with ended as (select rank, device, ts, ts + dur as until from kernel where dur is not null),
        reached as (select *, max(until) over (partition by rank, device order by ts, until
        rows between unbounded preceding and 1 preceding) as before from ended)
        select rank, device, max(until) - min(ts) as span_ns,
        sum(greatest(until - greatest(ts, coalesce(before, ts)), 0)) as busy_ns
        from reached group by all order by all""",
}


def pandas_page_set(read: Read) -> Any:
    """Pages of 4 KiB that launches touch, by kernel."""
    accesses, kernels = (read(t, c) for t, c in COLUMNS["page_set"].items())
    accesses = accesses.assign(page=accesses["address"] // 4096)
    keys = ["rank", "launch_id"]
    pages = accesses[[*keys, "page"]].drop_duplicates()
    sizes = pages.groupby(keys, as_index=False).agg(pages=("page", "count"))
    named = sizes.merge(kernels, on=keys)
    measures = {"launches": ("pages", "count"), "most": ("pages", "max"), "total": ("pages", "sum")}
    return named.groupby("name", as_index=False).agg(**measures)


def pandas_hot_blocks(read: Read) -> Any:
    """Accesses and writes by window of 1,000 launches and block of 2 MiB."""
    accesses = read("access", COLUMNS["hot_blocks"]["access"])
    placed = accesses.assign(
        window=accesses["launch_id"] // 1000,
        hot=accesses["address"] // (2 << 20),
        written=(accesses["op"] == 1).astype("int64"),
    )
    cells = placed.groupby(["rank", "window", "hot"], as_index=False)
    return cells.agg(accesses=("written", "size"), writes=("written", "sum"))


def pandas_reuse_gap(read: Read) -> Any:
    """How long ago each page of 64 KiB was last touched, by launch."""
    accesses = read("access", COLUMNS["reuse_gap"]["access"])
    place = accesses["launch_id"] * (1 << 32) + accesses["request"] * 32 + accesses["lane"]
    placed = accesses[["rank", "launch_id"]].assign(
        page=accesses["address"] // 65536, place=place.astype("int64")
    )
    placed = placed.sort_values("place")
    placed["gap"] = placed.groupby(["rank", "page"])["place"].diff()
    measures = {"reuses": ("gap", "count"), "longest": ("gap", "max"), "total": ("gap", "sum")}
    return placed.groupby(["rank", "launch_id"], as_index=False).agg(**measures)


def pandas_device_time(read: Read) -> Any:
    """Span and busy time of each device, by the running maximum of ends."""
    device = ["rank", "device"]
    rows = read("kernel", COLUMNS["device_time"]["kernel"]).dropna(subset=["dur"])
    rows = rows.assign(end=rows["ts"] + rows["dur"].astype("int64")).sort_values([*device, "ts"])
    reached = rows.groupby(device)["end"].cummax()
    before = reached.groupby([rows["rank"], rows["device"]]).shift(1, fill_value=0)
    begin = rows["ts"].where(rows["ts"] > before, before)
    rows["busy_ns"] = (rows["end"] - begin).clip(lower=0)
    found = rows.groupby(device, as_index=False).agg(
        first=("ts", "min"), last=("end", "max"), busy_ns=("busy_ns", "sum")
    )
    return found.assign(span_ns=found["last"] - found["first"])


POLARS = {
    "page_set": polars_page_set,
    "hot_blocks": polars_hot_blocks,
    "reuse_gap": polars_reuse_gap,
    "device_time": polars_device_time,
}
PANDAS = {
    "page_set": pandas_page_set,
    "hot_blocks": pandas_hot_blocks,
    "reuse_gap": pandas_reuse_gap,
    "device_time": pandas_device_time,
}
