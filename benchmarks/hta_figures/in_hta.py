"""Everything that HolisticTraceAnalysis says of one set of ranks, as one line of JSON.

    HTA_PYTHON in_hta.py RANK0.json.gz [RANK1.json.gz ...]

Runs in HTA's own environment and imports nothing of pasta. Times are in microseconds, as HTA has
them. An analysis that ends in an error gives `{"error": ...}`.
"""

from __future__ import annotations

import json
import logging
import math
import sys
import tempfile
import warnings
from collections.abc import Callable
from importlib.metadata import version
from itertools import pairwise
from typing import Any

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

from hta.common.trace import Trace  # noqa: E402
from hta.trace_analysis import TraceAnalysis  # noqa: E402
from hta.trace_diff import LabeledTrace, TraceDiff  # noqa: E402

EVERY = 10**9
"""Rows of a breakdown before HTA sums up the rest as others."""
PATTERNS_OF = "aten::"


def tried(analysis: Callable[[], Any]) -> Any:
    """Return what an analysis gives, or the error in which it ends."""
    try:
        return analysis()
    except Exception as error:  # noqa: BLE001 (whatever ends an analysis is what it says)
        return {"error": f"{type(error).__name__}: {error}"[:160]}


def temporal(hta: TraceAnalysis, rank: int) -> dict[str, float]:
    """Return span, idle time, time of computation, and the rest."""
    table = hta.get_temporal_breakdown(visualize=False)
    row = table[table["rank"] == rank].to_dict("records")[0]
    return {
        "span": row["kernel_time(us)"],
        "idle": row["idle_time(us)"],
        "compute": row["compute_time(us)"],
        "other": row["non_compute_time(us)"],
    }


def idle(hta: TraceAnalysis, rank: int) -> dict[str, float]:
    """Return the idle time by HTA's categories, summed over streams."""
    table, _ = hta.get_idle_time_breakdown(ranks=[rank], visualize=False)
    return {str(name): float(rows) for name, rows in table.groupby("idle_category").idle_time.sum().items()}  # fmt: skip


def overlap(hta: TraceAnalysis, rank: int) -> float | None:
    """Return the share of communication that computation hides, in percent of two decimals."""
    table = hta.get_comm_comp_overlap(visualize=False)
    share = float(table[table["rank"] == rank].comp_comm_overlap_pctg.iloc[0])
    return None if math.isnan(share) else share


def kernels(hta: TraceAnalysis, rank: int) -> dict[str, dict[str, float]]:
    """Return sum, shortest and longest duration of each kernel, copies left out."""
    _, table = hta.get_gpu_kernel_breakdown(
        visualize=False, num_kernels=EVERY, include_memory_kernels=False
    )
    rows = table[table["rank"] == rank].to_dict("records")
    return {row["name"]: {"sum": row["sum (us)"], "longest": row["max (us)"]} for row in rows}


def queue(hta: TraceAnalysis, rank: int) -> dict[str, float]:
    """Return the longest queue of each stream."""
    table = hta.get_queue_length_summary(ranks=[rank])
    return {str(int(stream)): float(row) for (_, stream), row in table["queue_length"]["max"].items()}  # fmt: skip


def bandwidth(hta: TraceAnalysis, rank: int) -> dict[str, float]:
    """Return the mean bandwidth of each kind of copy, in GB/s."""
    table = hta.get_memory_bw_summary(ranks=[rank])
    return {} if table is None else {name: float(row) for (_, name), row in table["memory_bw_gbps"]["mean"].items()}  # fmt: skip


def launches(hta: TraceAnalysis, rank: int) -> dict[str, float]:
    """Return the number of launches, and sums of their calls, work and delays."""
    table = hta.get_cuda_kernel_launch_stats(ranks=[rank], visualize=False)[rank]
    sums = table[["cpu_duration", "gpu_duration", "launch_delay"]].sum()
    return {"launches": len(table), "calls": float(sums.iloc[0]), "work": float(sums.iloc[1]), "delay": float(sums.iloc[2])}  # fmt: skip


def patterns(hta: TraceAnalysis, rank: int) -> list[dict[str, Any]]:
    """Return the kernels of each operator at the top, and how often the same come together."""
    with tempfile.TemporaryDirectory() as folder:
        table = hta.get_frequent_cuda_kernel_sequences(PATTERNS_OF, folder, min_pattern_len=2, rank=rank, visualize=False)  # fmt: skip
    return [{"pattern": row["pattern"], "count": int(row["count"])} for row in table.to_dict("records")] if len(table) else []  # fmt: skip


def critical_path(hta: TraceAnalysis, rank: int) -> dict[str, Any]:
    """Return the path of the first step, else of the whole trace: its extent, parts and gaps.

    `left_out` is the time between nodes of the path whose edge has no weight, though it takes time.
    """
    steps = [name for name in hta.t.symbol_table.get_sym_table() if name.startswith("ProfilerStep")]
    graph, _ = hta.critical_path_analysis(rank=rank, annotation="ProfilerStep" if steps else "", instance_id=None)  # fmt: skip
    nodes = [graph.node_list[index] for index in graph.critical_path_nodes]
    parts = graph.get_critical_path_breakdown().groupby("bound_by").duration.sum()
    weights = [graph.edges[one.idx, two.idx]["weight"] for one, two in pairwise(nodes)]
    return {
        "length": float(sum(weights)),
        "extent": float(nodes[-1].ts - nodes[0].ts),
        "left_out": float(nodes[-1].ts - nodes[0].ts - sum(weights)),
        "parts": {str(name): float(time) for name, time in parts.items() if name},
    }


def changes(files: list[str]) -> dict[str, list[float]]:
    """Return count and time of each name in the first step of one rank, then of the other."""
    sides = [
        LabeledTrace(t=loaded([file]), label=label) for file, label in zip(files, "ab", strict=True)
    ]
    table = TraceDiff.compare_traces(sides[0], sides[1])
    columns = [name for name in table.columns if name.endswith(("counts", "total_duration"))]
    return {str(name): [float(row[column]) for column in columns] for name, row in table.iterrows()}  # fmt: skip


def loaded(files: list[str]) -> Trace:
    """Return a trace that HTA has read, as its own comparison wants it."""
    trace = Trace(trace_files=dict(enumerate(files)), trace_dir="/")
    trace.load_traces(include_last_profiler_step=True)
    return trace


OF_A_RANK = {
    "temporal": temporal,
    "idle": idle,
    "overlap": overlap,
    "kernels": kernels,
    "queue": queue,
    "bandwidth": bandwidth,
    "launches": launches,
    "patterns": patterns,
    "critical_path": critical_path,
}


def said(files: list[str]) -> dict[str, Any]:
    """Return all figures of all ranks."""
    hta = TraceAnalysis(trace_files=dict(enumerate(files)), trace_dir="/")
    return {
        "ranks": {
            rank: {name: tried(lambda f=f, r=rank: f(hta, r)) for name, f in OF_A_RANK.items()}
            for rank in range(len(files))
        },
        "stragglers": tried(lambda: [int(rank) for rank in hta.get_potential_stragglers()]),
    }


def main() -> None:
    """Print one line of JSON."""
    files = sys.argv[1:]
    found = tried(lambda: said(files))
    if len(files) == 2:
        found["changes"] = tried(lambda: changes(files))
    found["versions"] = {name: version(name) for name in ("HolisticTraceAnalysis", "pandas")}
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main()
