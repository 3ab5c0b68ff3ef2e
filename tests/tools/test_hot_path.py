"""`hot_path` on launches whose stacks and counts are worked out by hand."""

from __future__ import annotations

import polars as pl
import pytest

import pasta
from pasta import api
from pasta.testing import write_trace


def span(number, level, name, ts, end, stack=0, tid=1):  # noqa: PLR0917
    return {"tid": tid, "ts": ts, "dur": end - ts, "span_id": number, "level": level, "name": name, "stack_id": stack}  # fmt: skip


SPANS = [
    span(1, "step", "step 0", 0, 100),
    span(2, "module", "net", 10, 60, stack=3),
    span(3, "operator", "aten::mm", 20, 30, stack=4),
    span(4, "operator", "aten::mm", 40, 50, stack=4),
    span(5, "step", "step 1", 100, 200),
    span(6, "module", "net", 110, 160, stack=3),
    span(7, "operator", "aten::mm", 120, 130, stack=4),
    span(8, "operator", "a;b", 90, 95, tid=2),
]


def frame(stack, depth, function, **more):
    return {"stack_id": stack, "depth": depth, "function": function, "file": "", "line": 0, "language": "python", "library": "", **more}  # fmt: skip


FRAMES = [
    frame(4, 0, "main", file="/x/train.py", line=9),
    frame(4, 1, "forward", file="/x/model.py", line=4),
    frame(8, 0, "gemm<float>(int)", language="c++"),
]


def launch(number, ts, name, stack=0, dur: int | None = 10, tid=1):  # noqa: PLR0917
    kernel = {"device": 0, "launch_id": number, "correlation": number, "ts": ts + 900, "dur": dur, "name": name}  # fmt: skip
    call = {"tid": tid, "ts": ts, "dur": 1, "correlation": number, "name": "launch", "stack_id": stack}  # fmt: skip
    return kernel, call


LAUNCHES = [
    launch(1, 22, "sgemm", stack=8),
    launch(2, 42, "sgemm", stack=8, dur=30),
    launch(3, 122, "sgemm", stack=8, dur=20),
    launch(4, 55, "relu", dur=40),
    launch(5, 92, "relu", dur=None, tid=2),
    launch(6, 300, "lost;kernel", dur=5),
]


def total(number, **counts):
    return {"device": 0, "launch_id": number, "space": "global", "object_id": 0, "reads": 0, "writes": 0, "atomics": 0, "bytes_read": 0, "bytes_written": 0, **counts}  # fmt: skip


TOUCHES = [
    total(1, reads=6, bytes_read=24),
    total(4, reads=1, writes=2, bytes_written=8),
    total(5, atomics=81),
    {**total(4, reads=1_000), "space": "shared"},
    {**total(4, reads=1_000), "space": "device", "object_id": 3},
    {**total(4, reads=1_000), "pc": 16},
]
MM = "net > aten::mm > main (train.py:9) > forward (model.py:4) > gemm"


def tables(**more):
    return {
        "kernel": [kernel for kernel, _ in LAUNCHES],
        "call": [call for _, call in LAUNCHES],
        "span": SPANS,
        "frame": FRAMES,
        "touch": TOUCHES,
        **more,
    }


def found(report):
    rows = pl.concat([report.tables[name] for name in ("most_time", "most_accesses", "most_calls")])
    columns = ["name", "stack", "launches", "time_ns", "accesses", "bytes"]
    return set(rows.select(columns).iter_rows())


def test_stacks_by_hand(make_trace):
    report = pasta.run("hot_path", trace=make_trace(**tables()))
    assert found(report) == {
        ("sgemm", MM, 3, 60, 6, 24),
        ("relu", "net", 1, 40, 3, 8),
        ("relu", "a,b", 1, None, 81, 0),
        ("lost;kernel", "(in no range)", 1, 5, None, None),
    }
    frames = dict(report.tables["most_calls"].select("name", "frames").iter_rows())
    assert frames["sgemm"] == MM.replace(" > ", ";") + ";sgemm"
    assert frames["lost;kernel"] == "(in no range);lost,kernel"


def test_findings_name_the_first_of_each_kind(make_trace):
    first, second, third = pasta.run("hot_path", trace=make_trace(**tables())).findings
    assert first.startswith("sgemm takes 57.1 % of device time: 60 ns in 3 launches from net")
    assert second.startswith("relu makes 90.0 % of the accesses of global memory: 81 in 1 launch")
    assert third.startswith("sgemm is launched most often: 3 times (50.0 %)")


def test_kernels_add_up(make_trace):
    rows = pasta.run("hot_path", trace=make_trace(**tables())).tables["hottest"]
    relu = rows.filter(name="relu").to_dicts()[0]
    assert (relu["stacks"], relu["launches"], relu["time_ns"], relu["accesses"]) == (2, 2, 40, 84)
    for share in ("call_share", "access_share", "time_share"):
        assert rows[share].sum() == pytest.approx(1)


def test_stacks_of_processes_do_not_mix(make_trace):
    """Stack 4 of another process is another stack."""
    other = {name: [{**row, "pid": 2} for row in rows] for name, rows in tables().items()}
    other["frame"] = [{**frame(4, 0, "serve"), "pid": 2}]
    both = {name: rows + other[name] for name, rows in tables().items()}
    report = pasta.run("hot_path", trace=make_trace(**both))
    assert ("sgemm", MM, 3, 60, 6, 24) in found(report)
    assert ("sgemm", "net > aten::mm > serve", 3, 60, 6, 24) in found(report)
    assert ("relu", "net", 2, 80, 6, 16) in found(report)


def test_kernels_alone(make_trace):
    report = pasta.run("hot_path", trace=make_trace(kernel=[LAUNCHES[0][0], LAUNCHES[3][0]]))
    assert found(report) == {
        ("sgemm", "(in no range)", 1, 10, None, None),
        ("relu", "(in no range)", 1, 40, None, None),
    }
    assert len(report.findings) == 2


def test_beside_each_range_stands_the_number_of_its_path_and_no_text():
    """Some hundred bytes a range, on a trace of ten million: texts are made of the few paths that differ."""
    _, graph = api.check("hot_path")
    schema = graph.schemas["at.around"]
    assert "path_id" in schema
    assert {name for name, kind in schema.items() if kind == pl.String} == {"trace"}


def test_a_range_of_another_collector_is_around_those_that_tell_their_parents(tmp_path):
    """Only `inner` names its parent; that `net` is around both is told by times."""
    spans = [span(1, "module", "net", 0, 100), span(2, "operator", "outer", 10, 50), {**span(3, "operator", "inner", 20, 30), "parent_id": 2}]  # fmt: skip
    kernel, call = launch(1, 22, "sgemm")
    trace = write_trace(tmp_path / "t", span=spans, kernel=[kernel], call=[call])
    stacks = pasta.run("hot_path", trace=trace).tables["most_time"]["stack"]
    assert stacks.to_list() == ["net > outer > inner"]
