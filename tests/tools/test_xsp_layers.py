"""The analyses of layers (A2 to A7, A11 to A14 of XSP) on a run whose layers are known."""

from __future__ import annotations

import polars as pl
import pytest

import pasta
from tests.tools.layers_run import STEP_NS, WARM_UP_NS, layers_run, without

LAYERS = [
    (0, "Net", "Net", "forward"),
    (1, "first", "Linear", "forward"),
    (2, "act", "ReLU", "forward"),
    (3, "last", "Linear", "forward"),
    (4, "last", "Linear", "backward"),
    (5, "first", "Linear", "backward"),
]
OUTSIDE = (-1, "(in no layer)", "(none)", "other")
LATENCIES = [1700, 1000, 500, 800, 400, 300]


def columns(rows: pl.DataFrame, *names: str) -> list[tuple[object, ...]]:
    return rows.sort("rank", "index").select(names).rows()


def alone(trace, tool: str, table: str, **parameters: object) -> pl.DataFrame:
    return pasta.run(tool, trace=trace, **parameters).tables[table]


def test_a2_lists_layers_with_their_own_time(make_trace):
    report = pasta.run("xsp/a2", trace=make_trace(**layers_run()))
    layers = report.tables["layers"]
    assert columns(layers, "index", "layer", "type", "phase") == LAYERS
    assert columns(layers, "latency_ns", "total_ns") == [
        *zip(LATENCIES, [4000, 1000, 500, 800, 400, 300], strict=True)
    ]
    assert set(layers["n"]) == {3}
    assert report.tables["sums"]["latency_ns"].item() == sum(LATENCIES)
    assert report.findings[0] == "Net (Net, forward) takes longest on the host: 1.70 us, 36.2 % of all layers"  # fmt: skip


def test_latencies_of_two_steps_are_averaged_and_of_three_the_middle_counts(make_trace):
    two = alone(make_trace("two", **layers_run(2)), "xsp/a2", "layers")
    assert columns(two, "index", "latency_ns", "mad_ns")[1] == (1, 1000 + WARM_UP_NS // 2, 250)
    three = alone(make_trace("three", **layers_run(3)), "xsp/a2", "layers")
    assert columns(three, "index", "latency_ns", "mad_ns")[1] == (1, 1000, 0)


def test_a_third_of_three_layers_is_a_layer_and_backward_is_in_none(make_trace):
    tables = without(layers_run(), "name", "Net")
    report = pasta.run("xsp/a3", trace=make_trace(**tables))
    thirds = report.tables["thirds"].select("third", "layers", "latency_ns", "kernel_ns").rows()
    assert thirds == [("beginning", 1, 1000, 600), ("middle", 1, 500, 0), ("end", 1, 800, 700)]
    assert report.findings[0] == "the beginning of the model takes most of the time of its layers: 43.5 %"  # fmt: skip
    assert report.tables["layers"]["latency_share"].sum() == pytest.approx(1)


def test_memory_is_of_the_layer_that_allocates_it(make_trace):
    tables = layers_run()
    tables["memory"] = [
        {"event": event, "space": space, "bytes": size, "tid": 1, "ts": step * STEP_NS + at, "device": 0}
        for step in range(3)
        for event, space, size, at in [
            ("allocate", "tensor", 100, 250), ("release", "tensor", 100, 260),
            ("allocate", "tensor", 50, 3_200 + WARM_UP_NS), ("allocate", "tensor", 7, 8_900),
            ("allocate", "device", 4096, 300),
        ]
    ]  # fmt: skip
    report = pasta.run("xsp/a4", trace=make_trace(**tables))
    allocated = columns(report.tables["layers"], "index", "allocated_bytes")
    assert allocated == [(0, 0), (1, 100), (2, 0), (3, 50), (4, 0), (5, 0)]
    assert report.findings[0] == "first (Linear, forward) allocates most: 100 B, 66.7 % of what all layers do in a step"  # fmt: skip
    types = pasta.run("xsp/a7", trace=make_trace("again", **tables)).tables["types"]
    assert types.row(0, named=True)["memory_share"] == 1


def test_without_allocations_memory_is_unknown(make_trace):
    report = pasta.run("xsp/a4", trace=make_trace(**layers_run()))
    assert report.tables["layers"]["allocated_bytes"].null_count() == 6
    assert report.findings == [
        "no allocation was recorded: record --with torch:timeline, or a profile with profile_memory=True"
    ]


@pytest.mark.parametrize(
    ("tool", "first"),
    [
        ("xsp/a5", "Linear (backward) is the most frequent type of layer: 2, 33.3 % of all"),
        (
            "xsp/a6",
            "layers of type Linear (forward) take most time: 1.80 us in a step, 38.3 % (layers: 2)",
        ),
    ],
)
def test_types_are_counted_by_phase(make_trace, tool, first):
    report = pasta.run(tool, trace=make_trace(**layers_run()))
    types = report.tables["types"]
    told = {(row["type"], row["phase"]): (row["layers"], row["latency_ns"]) for row in types.to_dicts()}  # fmt: skip
    assert told == {
        ("Linear", "forward"): (2, 1800),
        ("Linear", "backward"): (2, 700),
        ("Net", "forward"): (1, 1700),
        ("ReLU", "forward"): (1, 500),
    }
    assert report.findings[0] == first
    assert types["latency_share"].sum() == pytest.approx(1)


def test_a11_gives_each_layer_the_union_of_its_kernels(make_trace):
    layers = alone(make_trace(**layers_run()), "xsp/a11", "longest")
    assert columns(layers, "index", "layer", "type", "phase") == [OUTSIDE, *LAYERS]
    assert columns(layers, "kernels", "kernel_ns", "kernel_sum_ns") == [
        (1, 50, 50),
        (0, 0, 0),
        (2, 600, 700),
        (0, 0, 0),
        (2, 700, 700),
        (1, 200, 200),
        (1, 250, 250),
    ]
    assert layers["kernel_share"].sum() == pytest.approx(1)
    assert layers["flops"].null_count() == 7


def test_a13_never_takes_more_from_a_layer_than_its_time(make_trace):
    report = pasta.run("xsp/a13", trace=make_trace(**layers_run()))
    layers = report.tables["longest"]
    assert columns(layers, "gpu_ns", "non_gpu_ns") == [
        (0, 1700),
        (600, 400),
        (0, 500),
        (400, 400),  # one kernel begins 100 ns before its layer ends, and runs on
        (200, 200),
        (0, 300),  # the kernel begins after its layer has ended
    ]
    (sums,) = report.tables["shares"].to_dicts()
    assert sums["gpu_ns"] + sums["non_gpu_ns"] == sums["latency_ns"]
    assert sums["later_ns"] == 300 + 250


def test_each_rank_has_layers_of_its_own(tmp_path):
    from pasta.testing import write_trace

    one, other = layers_run(), layers_run(rank=1)
    for row in other["kernel"]:
        row["dur"] = 2 * row["dur"]
    both = {name: [*one[name], *other[name]] for name in one}
    layers = alone(write_trace(tmp_path / "t", **both), "xsp/a11", "longest")
    found = columns(layers, "rank", "index", "kernel_ns")
    assert [row for row in found if row[1] == 1] == [(0, 1, 600), (1, 1, 1000)]
    assert len(found) == 14


def test_without_modules_operators_are_layers(make_trace):
    tables = without(layers_run(), "level", "module")
    layers = alone(make_trace(**tables), "xsp/a11", "longest").filter(pl.col("index") >= 0)
    assert columns(layers, "index", "layer", "phase", "latency_ns", "kernel_ns") == [
        (0, "aten::linear", "forward", 800, 600),
        (1, "aten::relu", "other", 100, 0),
        (2, "aten::linear", "forward", 700, 700),
        (3, "aten::linear", "backward", 400, 200),
        (4, "aten::linear", "backward", 300, 250),
    ]


def test_without_steps_calls_of_the_model_are_steps(make_trace):
    tables = without(layers_run(), "level", "step")
    layers = alone(make_trace(**tables), "xsp/a2", "layers")
    assert columns(layers, "index", "layer", "type", "phase") == LAYERS
    assert set(layers["n"]) == {3}
    report = pasta.run("xsp/a1", trace=make_trace("again", **tables))
    assert report.findings[0] == "again takes 10.00 us a step: the mean of 1 of 3 steps, the longest and shortest left out (calls of the model)"  # fmt: skip


def test_what_few_steps_call_is_no_layer(make_trace):
    tables = layers_run()
    tables["span"].append(
        {
            **tables["span"][0],
            "level": "operator",
            "name": "aten::empty",
            "span_id": 999,
            "parent_id": 0,
            "ts": 8_000,
            "dur": 700,
        }
    )
    tables["call"].append({**tables["call"][0], "ts": 8_100, "correlation": 999})
    tables["kernel"].append({**tables["kernel"][0], "ts": 8_200, "correlation": 999, "launch_id": 999})  # fmt: skip
    layers = alone(make_trace(**tables), "xsp/a11", "longest")
    assert columns(layers, "index", "layer", "type", "phase") == [OUTSIDE, *LAYERS]


def test_without_a_trace_of_layers_it_says_what_to_record(make_trace):
    kernels = layers_run()["kernel"]
    report = pasta.run("xsp/a2", trace=make_trace(kernel=kernels))
    assert report.findings == [
        "no layer was recorded: record modules and operators, as --with torch:timeline does, or a profile of PyTorch's"
    ]
    layers = alone(make_trace("k", kernel=kernels), "xsp/a11", "longest")
    assert columns(layers, "layer", "kernel_ns") == [("(in no layer)", sum(r["dur"] for r in kernels) - 300)]  # fmt: skip


@pytest.mark.parametrize("tool", [f"xsp/a{number}" for number in range(1, 16)])
def test_nothing_is_found_in_an_empty_trace(make_trace, tool):
    report = pasta.run(tool, trace=make_trace(span=[], kernel=[]))
    assert all(rows.height == 0 for rows in report.tables.values())
    assert any("record" in finding or "name the runs" in finding for finding in report.findings)


def test_what_lies_in_no_step_is_counted(make_trace):
    tables = layers_run()
    tables["call"].append({**tables["call"][0], "ts": 9_500, "correlation": 999})
    tables["kernel"].append({**tables["kernel"][0], "ts": 9_600, "correlation": 999, "launch_id": 999})  # fmt: skip
    report = pasta.run("xsp/a11", trace=make_trace(**tables))
    assert "kernels launched in no step are left out: 1, 300 ns" in report.findings


def test_one_call_of_a_model_is_no_step(make_trace):
    tables = without(layers_run(1), "level", "step")
    tables["call"].append({**tables["call"][0], "ts": -900, "correlation": 999})
    tables["kernel"].append({**tables["kernel"][0], "ts": -800, "correlation": 999, "launch_id": 999})  # fmt: skip
    layers = alone(make_trace(**tables), "xsp/a11", "longest")
    assert columns(layers, "index", "kernel_ns")[0] == (-1, 350)  # before the model, and after it
