"""The same figures by the tools of pasta."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

import polars as pl

import pasta
from pasta.errors import TraceError

Value = float | int | None


def figures(trace: Path) -> dict[str, Value]:
    """Return each figure of a trace of one rank; what no tool says anything of is absent."""
    found: dict[str, Value] = {}
    for tool in (_device_time, _kernels, _overlap, _idle_causes, _queue, _copies, _launches, _path):
        with contextlib.suppress(TraceError):  # The tool needs a table that this trace lacks.
            found.update(tool(trace))
    return found


def _table(trace: Path, tool: str, table: str, **parameters: Any) -> pl.DataFrame:
    return pasta.run(tool, trace=trace, **parameters).tables[table]


def _device_time(trace: Path) -> dict[str, Value]:
    row = _table(trace, "device_time", "devices").row(0, named=True)
    return {
        "span": row["span_ns"],
        "idle": row["device_idle_ns"],
        "compute": row["compute_ns"],
        "not hidden": row["busy_ns"] - row["compute_ns"],
    }


def _kernels(trace: Path) -> dict[str, Value]:
    rows = _table(trace, "kernel_frequency", "top", top=10**6)
    return {
        "kernel names": len(rows),
        "kernel time": rows["time_ns"].sum(),
        "largest kernel": rows["time_ns"].max(),
    }


def _overlap(trace: Path) -> dict[str, Value]:
    rows = _table(trace, "comm_overlap", "ranks").filter(pl.col("communication_ns") > 0)
    return {"hidden": 100 * rows["hidden_share"][0]} if len(rows) else {}


def _idle_causes(trace: Path) -> dict[str, Value]:
    row = _table(trace, "idle_causes", "devices").row(0, named=True)
    return {"host late": row["host_ns"] + row["data_ns"] + row["synchronisation_ns"]}


def _queue(trace: Path) -> dict[str, Value]:
    queues = _table(trace, "queue_length", "queues").filter(pl.col("queue") != "all streams")
    return {"longest queue": queues["longest"].max()}


_KINDS = {"DtoD": "Memcpy DtoD", "DtoH": "Memcpy DtoH", "HtoD": "Memcpy HtoD", "memset": "Memset"}


def _copies(trace: Path) -> dict[str, Value]:
    ways = _table(trace, "copy_bandwidth", "ways").with_columns(kind=pl.col("way").str.split(",").list[0])  # fmt: skip
    sums = ways.group_by("kind").agg(pl.col("bytes", "time_ns").sum()).to_dicts()
    return {f"GB/s of {_KINDS[row['kind']]}": row["bytes"] / row["time_ns"] for row in sums}


def _launches(trace: Path) -> dict[str, Value]:
    with tempfile.TemporaryDirectory() as out:
        pasta.run("launch_overhead", trace=trace, out=out)
        launched = pl.read_parquet(Path(out) / "launched.parquet")
    late = (launched["ts"] - launched["call_ts"] - launched["call_ns"]).clip(0)
    return {
        "launches": len(launched),
        "time of launching calls": launched["call_ns"].sum(),
        "launched work": launched["device_ns"].sum(),
        "delay after calls": late.sum(),
    }


def _path(trace: Path) -> dict[str, Value]:
    first = _table(trace, "critical_path", "steps").sort("window").row(0, named=True)
    return {"critical path": first["path_ns"]}
