"""`working_set_by` on launches and operators whose modules, phases and steps are known."""

from __future__ import annotations

import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pasta
from tests.conftest import write_trace

SIZES = {1: 100, 2: 200, 3: 400}
MEMORY = [
    {"ts": 0, "device": 0, "tid": 1, "event": "allocate", "space": "tensor", "address": 1_000 * thing, "bytes": size, "object_id": thing}
    for thing, size in SIZES.items()
]  # fmt: skip


def span(number, level, name, ts, end, tid=1):  # noqa: PLR0917
    return {"tid": tid, "ts": ts, "dur": end - ts, "span_id": number, "level": level, "name": name}


SPANS = [
    span(1, "step", "step 0", 0, 50),
    span(2, "step", "step 1", 50, 100),
    span(3, "phase", "forward", 0, 40),
    span(4, "phase", "backward", 40, 50),
    span(5, "module", "net", 5, 30),
    span(6, "module", "net.0", 10, 20),
]


def launch(number, at, things, tid=1, name="k"):
    """A kernel that runs long after its call at `at`."""
    kernel = {"device": 0, "launch_id": number, "correlation": number, "ts": at + 500, "dur": 7, "name": name}  # fmt: skip
    call = {"tid": tid, "ts": at, "dur": 1, "correlation": number, "name": "cuLaunchKernel"}
    touches = [{"device": 0, "launch_id": number, "span_id": 0, "space": "tensor", "object_id": thing} for thing in things]  # fmt: skip
    return kernel, call, touches


LAUNCHES = [
    launch(1, 12, [1, 2]),
    launch(2, 25, [3], name="wide"),
    launch(3, 26, [1]),
    launch(4, 45, [2, 3], tid=9),
    launch(5, 60, [1], name="late"),
]


def tables(launches):
    return {
        "memory": MEMORY,
        "span": SPANS,
        "kernel": [kernel for kernel, _, _ in launches],
        "call": [call for _, call, _ in launches],
        "touch": [touch for _, _, touches in launches for touch in touches],
    }


def found(report, level):
    rows = pl.concat([report.tables["modules"], report.tables["in_order"]]).filter(level=level)
    columns = ["range", "units", "working_set_bytes", "mean_bytes", "time_ns", "largest_of"]
    return {row[0]: row[1:] for row in rows.select(columns).iter_rows()}


def test_launches_by_hand(make_trace):
    report = pasta.run("working_set_by", trace=make_trace(**tables(LAUNCHES)))
    assert found(report, "module") == {
        "net.0": (1, 300, 300, 7, "k"),
        "net": (2, 400, 250, 14, "wide"),
        "(in no module)": (2, 600, 350, 14, "k"),
    }
    assert found(report, "phase") == {
        "forward": (3, 400, 800 / 3, 21, "wide"),
        "backward": (1, 600, 600, 7, "k"),
        "(in no phase)": (1, 100, 100, 7, "late"),
    }
    assert found(report, "step") == {
        "step 0": (4, 600, 350, 28, "k"),
        "step 1": (1, 100, 100, 7, "late"),
    }
    assert report.findings[0] == "of the modules net has the largest working set, 400 B: wide"
    assert any(finding.startswith("backward of rank 0 needs at most 600 B") for finding in report.findings)  # fmt: skip


def test_operators_where_there_are_no_launches(make_trace):
    operators = [span(7, "operator", "aten::add", 12, 14), span(8, "operator", "aten::mm", 45, 46)]
    touches = [{"launch_id": 0, "span_id": 7, "space": "tensor", "object_id": 1}, {"launch_id": 0, "span_id": 8, "space": "tensor", "object_id": 3}]  # fmt: skip
    trace = make_trace(memory=MEMORY, span=SPANS + operators, touch=touches)
    report = pasta.run("working_set_by", trace=trace)
    assert found(report, "module")["net.0"] == (1, 100, 100, None, "aten::add")
    assert found(report, "phase")["backward"] == (1, 400, 400, None, "aten::mm")


def test_launches_of_unknown_calls_are_in_nothing(make_trace):
    given_tables = tables(LAUNCHES) | {"call": [], "span": []}
    report = pasta.run("working_set_by", trace=make_trace(**given_tables))
    for level in ("module", "phase", "step"):
        assert found(report, level) == {f"(in no {level})": (5, 600, 300, 35, "k")}


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(st.integers(0, 99), st.sets(st.sampled_from([1, 2, 3]), min_size=1)),
        min_size=1,
        max_size=8,
    )
)
def test_against_plain_python(tmp_path_factory, launches):
    made = [launch(number, at, things) for number, (at, things) in enumerate(launches, start=1)]
    trace = write_trace(tmp_path_factory.mktemp("t") / "t", **tables(made))
    report = pasta.run("working_set_by", trace=trace)
    for level in ("module", "phase", "step"):
        expected: dict[str, list[int]] = {}
        for at, things in launches:
            around = [s for s in SPANS if s["level"] == level and s["ts"] <= at < s["ts"] + s["dur"]]  # fmt: skip
            name = max(around, key=lambda s: s["ts"])["name"] if around else f"(in no {level})"
            expected.setdefault(name, []).append(sum(SIZES[thing] for thing in things))
        rows = {name: (row[0], row[1]) for name, row in found(report, level).items()}
        assert rows == {name: (len(sets), max(sets)) for name, sets in expected.items()}
