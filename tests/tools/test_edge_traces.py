"""Tools of one rank and of several on traces that are odd: they end, claim nothing false, and add up."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import pasta
from pasta.errors import TraceError
from pasta.tools.report import Report
from tests.tools.steps_run import EPOCH, steps_run

Tables = dict[str, list[dict[str, Any]]]

TOOLS = (
    "comm_overlap",
    "copy_bandwidth",
    "critical_path",
    "data_loading",
    "expert_imbalance",
    "idle_causes",
    "kernel_sequences",
    "launch_overhead",
    "load_balance",
    "model_flops",
    "pipeline_bubbles",
    "queue_length",
    "step_budget",
    "step_time",
    "library_time",
    "stack_levels",
    "stragglers",
    "variability",
    "variability_causes",
    "variability_outliers",
)
XSP = tuple(f"xsp/a{number}" for number in range(1, 16))
PARTS = {
    "idle_causes": ("devices", "idle_ns", "host data synchronisation launch dependency copy communication rank unknown"),
    "critical_path": ("steps", "step_ns", "path"),
    "launch_overhead": ("waiting", "idle_ns", "late calling starting unknown"),
    "step_budget": ("steps", "step_ns", "compute host launch_gap data synchronisation copy transfer wait communication other"),
    "comm_overlap": ("ranks", "communication_ns", "hidden exposed"),
}  # fmt: skip
"""Tool -> table, column, and the columns (`..._ns`) that add up to it."""
MAY_EXCEED = {"late_share", "slower_share", "more_share"}
"""Shares of what another rank does, which are not bounded."""
MARKUP = "[bold]{name}[/] <script>alert(1)</script> $top %s `a|b` \x1b[31m\n"


def run_of_two() -> Tables:
    """Two ranks of three steps; in each the host is late, and a copy and a collective run that nothing hides."""
    planted = {(rank, step): 90_000 for rank in range(2) for step in range(3)}
    tables = steps_run(3, ranks=2, steps=3, host=planted, copy=planted, communication=planted)
    for row in tables["collective"]:
        row |= {"communicator": "all", "bytes_in": 4096, "bytes_out": 4096}
    for row in tables["copy"]:
        row |= {"bytes": 2**20, "source": "pageable", "destination": "device"}
    return tables


def setting(names: str, **new: Any) -> Callable[[Tables], Tables]:
    """Return a change of columns of some tables, to a value or to what a function of the row gives."""

    def change(tables: Tables) -> Tables:
        for name in names.split():
            for row in tables[name]:
                row |= {key: to(row) if callable(to) else to for key, to in new.items()}
        return tables

    return change


def without(*names: str) -> Callable[[Tables], Tables]:
    return lambda tables: {name: rows for name, rows in tables.items() if name not in names}


def without_steps(tables: Tables) -> Tables:
    return tables | {"span": [row for row in tables["span"] if row["level"] != "step"]}


def shuffled(tables: Tables) -> Tables:
    order = random.Random(1)
    return {name: order.sample(rows, len(rows)) for name, rows in tables.items()}


def in_graphs(tables: Tables) -> Tables:
    """Each kernel is followed by three more of the same launch, at once on the same stream."""
    nodes = [{**row, "launch_id": 1000 * node + row["launch_id"], "graph_id": 1, "graph_node_id": node} for row in tables["kernel"] for node in (1, 2, 3)]  # fmt: skip
    return tables | {"kernel": tables["kernel"] + nodes}


def of_two_processes(tables: Tables) -> Tables:
    other = {name: [{**row, "pid": row["pid"] + 50} for row in rows] for name, rows in tables.items()}  # fmt: skip
    return {name: rows + other[name] for name, rows in tables.items()}


def warmed_up(tables: Tables) -> Tables:
    warm = {"device": 0, "stream": 7, "ts": EPOCH - 900_000, "dur": 500_000, "launch_id": 9999, "correlation": 9999, "name": "warm"}  # fmt: skip
    return tables | {"kernel": tables["kernel"] + [{"rank": rank, "pid": 100 + rank, **warm} for rank in range(2)]}  # fmt: skip


def of_one_rank(tables: Tables) -> Tables:
    return {name: [row for row in rows if row["rank"] == 0] for name, rows in tables.items()}


def within(step: int, row: dict[str, Any], tables: Tables) -> bool:
    """Tell whether a row begins in this step of its rank."""
    (span,) = (each for each in tables["span"] if each["name"] == f"ProfilerStep#{step}" and each["rank"] == row["rank"])  # fmt: skip
    return span["ts"] <= row["ts"] < span["ts"] + span["dur"]


def without_a_step(tables: Tables) -> Tables:
    """Rank 1 lacks all of its second step."""
    return {name: [row for row in rows if row["rank"] == 0 or not within(1, row, tables)] for name, rows in tables.items()}  # fmt: skip


def without_communication_in_a_step(tables: Tables) -> Tables:
    kept = [row for row in tables["collective"] if not within(1, row, tables)]
    ids = {(row["rank"], row["launch_id"]) for row in kept}
    kernels = [row for row in tables["kernel"] if "nccl" not in row["name"] or (row["rank"], row["launch_id"]) in ids]  # fmt: skip
    return tables | {"collective": kept, "kernel": kernels}


def with_a_jump(tables: Tables) -> Tables:
    """In its second step the clock of rank 1 is an hour behind."""
    hour = 3_600 * 10**9
    return {name: [{**row, "ts": row["ts"] - hour * (row["rank"] == 1 and within(1, row, tables))} for row in rows] for name, rows in tables.items()}  # fmt: skip


ALL = "span call kernel copy collective"
DEVICE = "kernel copy collective"
TRACES: dict[str, Callable[[Tables], Tables]] = {
    "clean": lambda tables: tables,
    "no rows": lambda tables: {name: [] for name in tables},
    "a kernel": lambda tables: {"kernel": tables["kernel"][:1]},
    "a row of each": lambda tables: {name: rows[:1] for name, rows in tables.items()},
    "no durations": setting(ALL, dur=None),
    "no time": setting(ALL, dur=0),
    "no time on devices": setting(DEVICE, dur=0),
    "all at one instant": setting(ALL, dur=0, ts=5),
    "overlapping": setting("kernel", dur=lambda row: 3 * row["dur"]),
    "kernels alone": without("span", "call", "copy", "collective"),
    "no calls": without("call"),
    "no steps": without_steps,
    "no ids": setting("kernel copy call collective", correlation=0, launch_id=0),
    "no device": setting(DEVICE, device=None),
    "no stream": setting(DEVICE, stream=None),
    "no names": setting("collective", operation=None, communicator=None, sequence=None),
    "calls of another clock": setting("call", ts=lambda row: row["ts"] + 10**9),
    "a kernel that does not end": setting("kernel", dur=lambda row: 2**61 if row["launch_id"] == 4 else row["dur"]),
    "graphs": in_graphs,
    "processes": of_two_processes,
    "work before the first step": warmed_up,
    "one rank": of_one_rank,
    "a rank that misses a step": without_a_step,
    "a step without communication": without_communication_in_a_step,
    "a clock that jumps": with_a_jump,
    "some kernels take no time": setting("kernel", dur=lambda row: row["dur"] * (row["launch_id"] % 3 > 0)),
    "markup": setting("kernel span call", name=lambda row: MARKUP + row["name"]),
}  # fmt: skip


def answers(trace: pasta.Trace, tools: tuple[str, ...] = TOOLS) -> dict[str, Report]:
    """Return what each tool says; a tool may only refuse for the lack of a table."""
    found = {}
    for tool in tools:
        try:
            found[tool] = pasta.run(tool, trace=trace)
        except TraceError as error:
            if "needs the table" not in str(error):
                raise
    return found


def check(report: Report) -> None:
    check_numbers(report)
    for finding in report.findings:
        assert not {"-", "nan", "inf", "None"} & set(finding.split()), finding
        assert "\x1b" not in finding


def check_numbers(report: Report) -> None:
    for name, table in report.tables.items():
        for column in table.get_columns():
            if column.dtype.is_float():
                assert column.is_finite().all(), f"{report.tool}: {name}.{column.name}"
            if column.name.endswith("share") and column.name not in MAY_EXCEED:
                assert column.drop_nulls().is_between(0, 1).all(), f"{report.tool}: {name}.{column.name}"  # fmt: skip


@pytest.mark.parametrize("name", TRACES)
def test_odd_traces_are_answered_without_claims_that_do_not_hold(make_trace, name):
    for tool, report in answers(make_trace(**TRACES[name](run_of_two()))).items():
        check(report)
        if tool in PARTS:
            table, whole, parts = PARTS[tool]
            for row in report.tables[table].to_dicts():
                assert row[whole] == sum(row[f"{part}_ns"] for part in parts.split()), (tool, row)


@pytest.mark.parametrize("name", ["no time", "graphs"])
def test_layers_of_odd_traces(make_trace, name):
    for report in answers(make_trace(**TRACES[name](run_of_two())), XSP).values():
        check(report)


def test_neither_order_nor_epoch_of_rows_counts(make_trace):
    late = setting(ALL, ts=lambda row: row["ts"] - EPOCH + 2**62)
    plain, *others = (
        {tool: report.findings for tool, report in answers(make_trace(name, **tables)).items()}
        for name, tables in (
            ("plain", run_of_two()),
            ("shuffled", shuffled(run_of_two())),
            ("late", late(run_of_two())),
        )
    )
    assert plain["idle_causes"]
    assert others == [plain, plain]


def findings(make_trace, name: str, tool: str) -> list[str]:
    return pasta.run(tool, trace=make_trace(**TRACES[name](run_of_two()))).findings


@pytest.mark.parametrize(
    ("name", "tool", "said"),
    [
        ("no durations", "comm_overlap", "no kernel of a collective that takes time was recorded"),
        ("no durations", "copy_bandwidth", "of 6 copies 0 have bytes and take time"),
        ("no durations", "critical_path", "no step ends with anything recorded"),
        ("no durations", "idle_causes", "no kernel with a duration was recorded"),
        ("no durations", "kernel_sequences", "no kernels with a duration follow each other"),
        ("no durations", "launch_overhead", "no kernel and no copy with a duration has a call"),
        ("no durations", "load_balance", "of fewer than two devices that compute nothing can be said"),
        ("no durations", "model_flops", "no kernel with a duration was recorded"),
        ("no durations", "step_budget", "no kernel with a duration was recorded"),
        ("no durations", "stragglers", "no collective with a duration was recorded"),
        ("no time", "comm_overlap", "no kernel of a collective that takes time was recorded"),
        ("no time", "step_time", "no step that takes time is recorded"),
        ("no time", "variability", "no kernel, device, stream or time stands out"),
        ("no steps", "critical_path", "processes without recorded steps: 2"),
        ("no calls", "critical_path", "processes of which no call is recorded: 2"),
        ("no device", "step_budget", "of 6.55 ms in 6 steps 73.3 % is compute"),
        ("processes", "step_time", "a step takes"),
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_said_to_be_unknown(make_trace, name, tool, said):
    assert any(finding.startswith(said) for finding in findings(make_trace, name, tool))


def test_processes_are_not_counted_as_ranks(make_trace):
    assert "the median of 4 processes with 12 steps" in findings(make_trace, "processes", "step_time")[0]  # fmt: skip


@pytest.mark.parametrize(
    "tool", ["comm_overlap", "data_loading", "launch_overhead", "queue_length"]
)
def test_processes_of_one_rank_are_told_apart(make_trace, tool):
    found = findings(make_trace, "processes", tool)
    for pid in (100, 101, 150, 151):
        assert any(f"rank {pid % 50}, pid {pid}" in finding for finding in found), pid


@pytest.mark.parametrize("name", ["no calls", "calls of another clock"])
def test_without_calls_the_host_is_not_said_to_be_late(make_trace, name):
    trace = make_trace(**TRACES[name](run_of_two()))
    assert not any("the host is late" in found for found in pasta.run("queue_length", trace=trace).findings)  # fmt: skip
    assert not any("no launch is made yet" in found for found in pasta.run("launch_overhead", trace=trace).findings)  # fmt: skip


def test_calls_of_another_clock_give_no_time_to_the_host(make_trace):
    hosts = [
        pasta.run("step_budget", trace=make_trace(name, **TRACES[name](run_of_two()))).tables["ranks"]["host_ns"].to_list()
        for name in ("no calls", "calls of another clock")
    ]  # fmt: skip
    assert hosts[0] == hosts[1]


def test_of_a_whole_run_the_operator_around_the_first_call_counts(make_trace):
    shapes = {"input_shapes": ["8x8", "8x8"], "input_types": ["float", "float"]}
    spans = [{"tid": 1, "ts": ts, "dur": 50, "span_id": ts, "level": "operator", "name": "aten::mm", **shapes} for ts in (100, 200)]  # fmt: skip
    calls = [{"tid": 1, "ts": ts + 10, "dur": 5, "correlation": ts, "name": "cudaLaunchKernel"} for ts in (100, 200)]  # fmt: skip
    kernels = [{"device": 0, "stream": 7, "ts": ts + 20, "dur": 5, "correlation": ts, "launch_id": ts, "name": "gemm"} for ts in (100, 200)]  # fmt: skip
    report = pasta.run("model_flops", trace=make_trace(span=spans, call=calls, kernel=kernels))
    assert report.tables["ranks"].select("calls", "flops").rows() == [(2, 2 * 2 * 8**3)]


def test_a_run_that_ends_on_a_thread_that_launches_nothing_has_a_path(make_trace):
    """Thread 1 launches; thread 2 makes the last call, so that the run is 300 ns long."""
    kernel = {"device": 0, "launch_id": 1, "correlation": 1, "name": "gemm", "ts": 120, "dur": 60}
    calls = [
        {"tid": 1, "ts": 100, "dur": 10, "correlation": 1, "name": "launch"},
        {"tid": 2, "ts": 200, "dur": 200, "correlation": 0, "name": "merge"},
    ]
    report = pasta.run("critical_path", trace=make_trace(kernel=[kernel], call=calls))
    steps = report.tables["steps"].select("step_ns", "path_ns").rows()
    assert steps == [(300, 300)]
    assert ("host", "merge in (no recorded range)", 200) in report.tables["names"].select("kind", "label", "path_ns").rows()  # fmt: skip


def test_a_path_leads_back_from_a_thread_that_launches_nothing_known(make_trace):
    call = {"tid": 1, "ts": 10, "dur": 40, "correlation": 0, "name": "cudaDeviceSynchronize"}
    kernel = {"device": 0, "stream": 7, "ts": 12, "dur": 30, "correlation": 0, "launch_id": 1, "name": "k"}  # fmt: skip
    report = pasta.run("critical_path", trace=make_trace(call=[call], kernel=[kernel]))
    assert report.tables["steps"].select("step_ns", "path_ns").rows() == [(40, 40)]
    assert dict(report.tables["parts"].select("kind", "path_ns").rows()) == {
        "compute": 30,
        "synchronisation": 8,
        "unknown": 2,
    }
