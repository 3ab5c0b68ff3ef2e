"""`flame` on paths whose weights are worked out by hand, and on recorded ones against plain Python."""

from __future__ import annotations

import polars as pl
import pytest

import pasta
from pasta.errors import PastaError
from pasta.tools.report import ChartPart, TablePart
from tests.tools.flame_paths import device_time, paths_of

HOSTILE = "aten::add >"
KERNELS_RUN = (
    "kernels run for 98 ns; where several run at once the moment counts for the one that started first,"
    " else they would add up to 138 ns"
)
MISTIMED = (
    "the samples of thread 1 (Main) stand for 50 ns of the 100 ns that it lived, off by 50.0 %: do not"
    " trust the shares of its time"
)
RECORDED = [
    "hta_negative_queue_cudagraph_rank0",
    "tracelens_b200_eager_rank0of8",
    "kineto_resnet50_workers4_2021",
]


def nodes(report) -> pl.DataFrame:
    (chart,) = (part for part in report.parts if isinstance(part, ChartPart))
    return chart.rows


def ending(report, value="own_weight"):
    return paths_of(nodes(report), value)


def stack(number, *functions, pid=1, **more):
    return [
        {"pid": pid, "stack_id": number, "depth": depth, "function": function, "language": "c", **more}
        for depth, function in enumerate(functions)
    ]  # fmt: skip


def kernel(name, ts, dur, launch, device=0):
    return {"name": name, "ts": ts, "dur": dur, "launch_id": launch, "correlation": launch, "device": device, "stream": 7}  # fmt: skip


def call(correlation, ts, stack_id=0, tid=1):
    return {"tid": tid, "ts": ts, "dur": 2, "correlation": correlation, "name": "cudaLaunchKernel", "stack_id": stack_id}  # fmt: skip


def span(number, name, ts, dur, *, parent=0, level="operator", stack_id=0):
    return {"tid": 1, "span_id": number, "parent_id": parent, "name": name, "ts": ts, "dur": dur, "level": level, "stack_id": stack_id}  # fmt: skip


LAUNCHES = {
    "span": [
        span(1, "step 1", 0, 90, level="step"),
        span(2, "linear;", 0, 50, parent=1, level="module"),
        span(3, HOSTILE, 10, 20, parent=2),
    ],
    "call": [call(1, 12), call(2, 40), call(3, 60), call(4, 70, stack_id=5)],
    "kernel": [
        kernel("gemm", 100, 50, 1),
        kernel("gemm", 120, 60, 2),
        kernel("relu", 125, 10, 3),
        kernel("relu", 125, 10, 3, device=1),
        kernel("lost", 300, 7, 9),
        kernel("relu", 400, 1, 4),
    ],
    "frame": stack(5, "main", "launch"),
}
LAUNCHED = {
    ("linear;", HOSTILE, "gemm"): 50,
    ("linear;", "gemm"): 30,
    ("(no range, no stack)", "relu"): 10,
    ("(no launch recorded)", "lost"): 7,
    ("main", "launch", "relu"): 1,
}


def test_device_time_by_launching_path(make_trace):
    """The second kernel counts from where the first ends, the third not at all; on another device it does."""
    trace = make_trace(**LAUNCHES)
    report = pasta.run("flame", trace=trace)
    assert ending(report) == LAUNCHED
    devices = pasta.run("device_time", trace=trace).tables["devices"]
    assert sum(LAUNCHED.values()) == (devices["span_ns"] - devices["compute_idle_ns"]).sum()
    assert report.findings == [
        KERNELS_RUN,
        "gemm itself has 51.0 % of the device time, called by aten::add > < linear;",
        "of 6 kernels 1 has no recorded launch, 7.1 % of the device time: nobody knows what caused that",
        "17.3 % of the device time have neither a stack nor a range to tell where they come from",
    ]


def test_stacks_of_operators_go_before_ranges_or_into_them(make_trace):
    spans = [span(1, "outer", 0, 50), span(2, "inner", 10, 20, parent=1, stack_id=6)]
    python = stack(6, "train.py", "forward", language="python")
    native = [
        *stack(5, "_start", "PyEval", library="libpython3.11.so"),
        {"stack_id": 5, "depth": 2, "function": "at::mm<float>(int)", "language": "c++"},
    ]
    trace = make_trace(
        span=spans, call=[call(1, 12, stack_id=5)], kernel=[kernel("k", 99, 3, 1)], frame=python + native
    )  # fmt: skip
    code = ("train.py", "forward", "at::mm", "k")
    for paths, expected in {
        "stacks": code,
        "ranges": ("outer", "inner", "k"),
        "both": ("outer", "inner", *code),
    }.items():
        assert ending(pasta.run("flame", trace=trace, paths=paths)) == {expected: 3}


SAMPLED = {
    "sample": [
        {"tid": 1, "ts": 0, "dur": 10, "kind": "on_cpu", "stack_id": 1, "weight": 10.0},
        {"tid": 1, "ts": 10, "dur": 30, "kind": "off_cpu", "stack_id": 2, "weight": 30.0},
        {"tid": 1, "ts": 40, "dur": 10, "kind": "on_cpu", "stack_id": 1, "weight": 10.0},
        {"tid": 2, "ts": 5, "dur": 5, "kind": "on_cpu", "stack_id": 0, "weight": 5.0},
        {"tid": 1, "ts": 7, "kind": "cycles", "stack_id": 1, "weight": 900.0},
    ],
    "frame": [*stack(1, "main", "work"), *stack(2, "main", "wait")],
    "thread": [{"tid": 1, "name": "Main", "started": 0, "ended": 100}],
}


def test_hot_and_cold_are_merged_and_missing_time_is_told(make_trace):
    report = pasta.run("flame", trace=make_trace(**SAMPLED))
    rows = nodes(report).select("name", "weight", "hot", "cold", "off_cpu_share").rows()
    assert rows == [
        ("(no stack)", 5, 5, 0, 0.0),
        ("main", 50, 20, 30, 0.6),
        ("wait", 30, 0, 30, 1.0),
        ("work", 20, 20, 0, 0.0),
    ]
    assert report.findings == [
        "threads are on the CPU for 25 ns",
        "threads are off the CPU for 30 ns",
        "wait itself has 54.5 % of the time on and off the CPU, called by main",
        "9.1 % of the time on and off the CPU have neither a stack nor a range to tell where they come from",
        MISTIMED,
    ]


@pytest.mark.parametrize(("ended", "gap"), [(54, 0.01), (100, 0.6)])
def test_samples_that_agree_are_not_warned_of(make_trace, ended, gap):
    """4 ns missed are less than three samples of 10; 50 of 100 less than 60 %."""
    lives = [{"tid": 1, "started": 0, "ended": ended}]
    report = pasta.run("flame", trace=make_trace(**SAMPLED | {"thread": lives}), gap=gap)
    assert not any("do not trust" in text for text in report.findings)


def test_in_time_and_by_thread(make_trace):
    trace = make_trace(**SAMPLED)
    report = pasta.run("flame", trace=trace, order="time")
    rows = nodes(report).sort("node_id").select("name", "weight").rows()
    main = "Main, thread 1 of process 1, rank 0"
    assert rows == [
        (main, 50),
        ("thread 2 of process 1, rank 0", 5),
        ("main", 50),
        ("(no stack)", 5),
        ("work", 10),
        ("wait", 30),
        ("work", 10),
    ]
    assert not any("order is unknown" in text for text in report.findings)
    merged = ending(pasta.run("flame", trace=trace, by="thread", weight="on_cpu"))
    assert merged[main, "main", "work"] == 20


def test_samples_without_a_time_have_no_order(make_trace):
    trace = make_trace(sample=[{**SAMPLED["sample"][0], "ts": None}], frame=SAMPLED["frame"])
    report = pasta.run("flame", trace=trace, order="time")
    assert "of 1 row 1 has no time, so that its order is unknown" in report.findings


@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        ("on_cpu", {("main", "work"): 20, ("(no stack)",): 5}),
        ("off_cpu", {("main", "wait"): 30}),
        ("cycles", {("main", "work"): 900}),
        ("device", {}),
    ],
)
def test_kinds_of_samples_are_never_added_up(make_trace, weight, expected):
    assert ending(pasta.run("flame", trace=make_trace(**SAMPLED), weight=weight)) == expected


def test_filters_say_what_share_they_remove(make_trace):
    trace = make_trace(**SAMPLED)
    report = pasta.run("flame", trace=trace, deny="^symbol:wait$", cut="^symbol:main$")
    assert ending(report) == {("work",): 20, ("(no stack)",): 5}
    told = "filters removed 54.5 % of the time on and off the CPU, and cut frames out of the stacks of 36.4 %"
    assert told in report.findings
    assert ending(pasta.run("flame", trace=trace, allow="wait")) == {("main", "wait"): 30}
    with pytest.raises(PastaError, match="no regular expression"):
        pasta.run("flame", trace=trace, allow="(")


def test_bytes_and_calls(make_trace):
    allocation = {"tid": 1, "event": "allocate", "space": "tensor", "object_id": 1, "device": 0}
    touch = {"space": "tensor", "object_id": 1, "device": 0}
    trace = make_trace(
        **LAUNCHES,
        memory=[
            {**allocation, "ts": 15, "bytes": 64},
            {**allocation, "ts": 80, "bytes": 8, "stack_id": 5},
            {**allocation, "ts": 81, "bytes": 99, "space": "pool"},
            {**allocation, "ts": 82, "bytes": 64, "event": "release"},
        ],
        touch=[
            {**touch, "launch_id": 1, "unique_bytes": 32},
            {**touch, "launch_id": 1, "block": 0, "unique_bytes": 999},
            {**touch, "launch_id": 1, "space": "global", "unique_bytes": 999},
        ],
    )
    assert ending(pasta.run("flame", trace=trace, weight="allocated")) == {("linear;", HOSTILE): 64, ("main", "launch"): 8}  # fmt: skip
    assert ending(pasta.run("flame", trace=trace, weight="touched")) == {("linear;", HOSTILE, "gemm"): 32}  # fmt: skip
    calls = ending(pasta.run("flame", trace=trace, weight="calls"))
    assert calls == {
        ("linear;", HOSTILE, "cudaLaunchKernel"): 1,
        ("linear;", "cudaLaunchKernel"): 1,
        ("(no range, no stack)", "cudaLaunchKernel"): 1,
        ("main", "launch", "cudaLaunchKernel"): 1,
    }
    host = ending(pasta.run("flame", trace=trace, weight="host"))
    assert host == {("linear;",): 30, ("linear;", HOSTILE): 20}


def test_functions_are_shown_in_the_unit_of_the_weight_alone(make_trace):
    for weight, unit in (("device", "own_time_ns"), ("calls", "own_number")):
        report = pasta.run("flame", trace=make_trace(weight, **LAUNCHES), weight=weight)
        tables = [part for part in report.parts if isinstance(part, TablePart)]
        assert tables[0].name == "functions"
        assert [*tables[0].shown.columns] == ["name", "own_share", unit, "paths"]


def test_nothing_to_weigh(make_trace):
    report = pasta.run("flame", trace=make_trace(kernel=[kernel("k", 0, 5, 1)]), weight="wall")
    assert report.findings == ["there is nothing to weigh here as wall; the table below has what there is"]  # fmt: skip
    assert report.tables["of.of.weights"]["class"].to_list() == ["device"]


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_device_time_by_path(samples, name):
    """What plain Python finds in the same tables, and exactly the time of `device_time`."""
    trace = pasta.open(samples / "kineto" / f"{name}.json.gz")
    found = ending(pasta.run("flame", trace=trace, weight="device", paths="ranges"), "own_exact")
    assert found == device_time(trace)
    devices = pasta.run("device_time", trace=trace).tables["devices"]
    assert sum(found.values()) == (devices["span_ns"] - devices["compute_idle_ns"]).sum()


def test_what_is_no_time_is_not_shown_as_time(make_trace):
    """Cycles and bare samples are counted, each kind by itself; neither has a time."""
    sample = {"tid": 1, "stack_id": 1}
    cycles = {"kind": "cycles", "weight": 10_101_010.0}
    frames = stack(1, "main")
    report = pasta.run(
        "flame", trace=make_trace(sample=[{**sample, "ts": 1, **cycles}], frame=frames)
    )
    assert report.findings[0] == "weight of samples of kind cycles: 10,101,010 in 1 row"
    bare = [{**sample, "ts": ts, "kind": "on_cpu"} for ts in (1, 2, 3)]
    report = pasta.run("flame", trace=make_trace("bare", sample=bare, frame=frames))
    assert report.findings[0] == "samples on the CPU: 3 in 3 rows"
    assert nodes(report).select("unit", "time_ns", "number").row(0) == ("count", None, 3)
