"""Graphs run node by node give what the cpu engine gives, on a device that is none."""

from __future__ import annotations

from contextlib import nullcontext

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pasta import api
from pasta.errors import ConfigError
from pasta.pipeline.config import parse_config
from pasta.pipeline.device_rows import DeviceRows
from pasta.pipeline.engines import dask_cuda
from pasta.pipeline.engines.cpu import CpuEngine
from pasta.pipeline.engines.dask_cuda import _Cluster, _ClusterGraph
from pasta.pipeline.engines.device_graph import DeviceGraph
from pasta.pipeline.engines.gpu_check import device_code
from pasta.pipeline.engines.rehearsal import Rehearsal
from pasta.pipeline.graph import empty_input
from pasta.pipeline.run import Source, input_tables, run_graph, wanted_nodes
from pasta.pipeline.wiring import build_graph
from pasta.tools.shipped import SHIPPED_TRACE, shipped_tools
from pasta.trace import Trace
from tests.conftest import write_trace
from tests.tools.memory_run import ACCESSES, TABLES

KERNELS = [
    {"ts": ts, "dur": 5, "name": name, "device": 0} for ts, name in [(0, "a"), (3, "b"), (20, "a")]
]


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    folder = tmp_path_factory.mktemp("device") / "memory_run"
    return {
        "gpt_cpu": Source("gpt_cpu", Trace.open(SHIPPED_TRACE)),
        "memory_run": Source("memory_run", write_trace(folder, **TABLES, access=ACCESSES)),
    }


def readable(graph, source):
    tables = source.trace.tables()
    return all(given.optional or given.table in tables for given in graph.inputs.values())


class Inline:
    """A client whose one worker is this process."""

    def submit(self, function, *arguments, pure):
        assert pure is False
        self.value = function(*arguments)
        return self

    def result(self):
        return self.value


def of_one_trace(graph, tables, wanted, trace):
    return DeviceGraph(graph, Rehearsal(), {}).run(tables, wanted, trace)


def of_any_traces_on_a_cluster(graph, tables, wanted, _trace):
    return _ClusterGraph(graph, _Cluster("streaming", Inline()), {}).run(tables, wanted)


@pytest.mark.parametrize("way", [of_one_trace, of_any_traces_on_a_cluster])
@pytest.mark.parametrize("source", ["gpt_cpu", "memory_run"])
@pytest.mark.parametrize("tool", list(shipped_tools()))
def test_a_shipped_tool_gives_what_it_gives_on_the_cpu(sources, monkeypatch, tool, source, way):
    if "/" in tool and source != "gpt_cpu":
        pytest.skip("tools of one folder share most of their graphs: one trace is enough")
    monkeypatch.setattr(dask_cuda, "worker_device", lambda: nullcontext(Rehearsal()))
    config, graph = api.check(tool)
    if any(given.run for given in graph.inputs.values()):
        pytest.skip("compares runs")
    if not readable(graph, sources[source]):
        pytest.skip(f"{source} lacks a table")
    wanted = wanted_nodes(config, outputs=True)
    expected = run_graph(config, graph, [sources[source]], CpuEngine(), outputs=True)
    found = way(graph, input_tables(config, graph, [sources[source]]), wanted, source)
    assert list(found) == wanted
    for name, rows in expected.items():
        assert_frame_equal(found[name], rows, rel_tol=1e-9)


def test_a_plan_that_a_cluster_fails_to_stream_runs_on_one_worker(sources, monkeypatch):
    monkeypatch.setattr(dask_cuda, "worker_device", lambda: nullcontext(Rehearsal()))
    config, graph = api.check("kernel_frequency")
    wanted = wanted_nodes(config, outputs=False)
    cluster = _Cluster("not an engine", Inline())
    found = _ClusterGraph(graph, cluster, {}).run(
        input_tables(config, graph, [sources["gpt_cpu"]]), wanted
    )
    expected = run_graph(config, graph, [sources["gpt_cpu"]], CpuEngine())
    for name, rows in expected.items():
        assert_frame_equal(found[name], rows, rel_tol=1e-9)
    (note,) = cluster.take_notes()
    assert note.startswith("dask: a plan was run at once on one GPU: ")
    assert "not an engine" in note
    assert cluster.take_notes() == []


def test_where_a_worker_of_a_cluster_is_lost_no_other_is_asked(monkeypatch):
    def lost(*_arguments, **_how):
        raise ConnectionResetError("a worker is gone")

    class Unasked:
        def submit(self, *_arguments, **_how):
            pytest.fail("asked another worker")

    monkeypatch.setattr(pl.LazyFrame, "collect", lost)
    with pytest.raises(ConnectionResetError, match="a worker is gone"):
        _Cluster("not an engine", Unasked()).collect(pl.LazyFrame({"a": [1]}))


def graph_of(stages, report="named"):
    document = {
        "version": 1,
        "tool": "t",
        "about": "A.",
        "inputs": {"kernels": {"table": "kernel"}},
    }
    config = parse_config(document | {"stages": stages, "report": [{"table": report}]})
    return config, build_graph(config, {}, pytest.fail)


def counted(plans):
    """A device that counts how often the kernels are read."""
    return Rehearsal(lambda plan: plans.append("PARQUET SCAN" in plan.explain().upper()) or [])


STAGES = {
    "by_name": {
        "use": "aggregate",
        "from": "kernels",
        "by": ["name"],
        "measures": {"n": "count(*)"},
    },
    "busy": {"use": "busy", "from": "kernels", "by": ["rank"]},
    "named": {"use": "filter", "from": "by_name", "where": "n > 1"},
    "other": {"use": "filter", "from": "by_name", "where": "n = 1"},
}


def test_what_two_nodes_read_is_run_once(tmp_path):
    config, graph = graph_of(STAGES)
    trace = Source("t", write_trace(tmp_path / "t", kernel=KERNELS))
    scans = []
    device = counted(scans)
    tables = input_tables(config, graph, [trace])
    found = DeviceGraph(graph, device, {}).run(tables, ["named", "other", "busy"])
    assert found["named"]["n"].to_list() == [2]
    assert found["other"]["n"].to_list() == [1]
    assert found["busy"].select("ts", "dur").rows() == [(0, 8), (20, 5)]
    assert sum(scans) == 2


@pytest.mark.parametrize("name", ["by_name", "busy"])
def test_a_declined_stage_runs_on_the_cpu_and_is_named_with_its_cost(tmp_path, name):
    config, graph = graph_of(STAGES)
    trace = Source("t", write_trace(tmp_path / "t", kernel=KERNELS))
    tables = input_tables(config, graph, [trace])
    running = DeviceGraph(graph, Rehearsal(), {name: "no such kernel"})
    found = running.run(tables, [name])[name]
    assert_frame_equal(found, DeviceGraph(graph, Rehearsal(), {}).run(tables, [name])[name])
    (note,) = running.notes
    assert note.startswith(f"stage '{name}' (")
    assert "no such kernel" in note
    assert note.endswith("s, 5 rows moved between them")


def test_a_graph_runs_as_often_as_one_likes(tmp_path):
    """First without the column of the trace, then with it, then without it again; each run has its own notes."""
    config, graph = graph_of(STAGES)
    trace = Source("t", write_trace(tmp_path / "t", kernel=KERNELS))
    tables = input_tables(config, graph, [trace])
    running, wanted = (
        DeviceGraph(graph, Rehearsal(), {"by_name": "no such kernel"}),
        ["named", "busy"],
    )
    runs = []
    for of_one in ("t", None, "t"):
        runs.append(running.run(tables, wanted, of_one))
        assert len(running.notes) == 1
    for name in wanted:
        assert runs[0][name].height
        for found in runs[1:]:
            assert_frame_equal(found[name], runs[0][name])


def test_a_mistake_in_array_code_has_the_path_of_its_stage():
    stages = {
        "lives": {"use": "coverage", "from": "kernels", "by": [], "kind": "name", "kinds": []}
    }
    _, graph = graph_of(stages, "lives")
    tables = {"kernels": empty_input("kernel")}
    with pytest.raises(ConfigError, match=r"^stages\.lives\.kinds: expected 1 to 62"):
        DeviceGraph(graph, Rehearsal(), {}).run(tables, ["lives"])


def test_granules_has_array_code_that_gives_the_same_rows():
    rows = pl.LazyFrame(
        {"address": [0, 31, None, 64, 100, 2**40], "bytes": [4, 2, 8, 0, 90, None]},
        schema={"address": pl.UInt64, "bytes": pl.Int64},
    )
    node = api.check("coalescing")[1].nodes["sectors"]
    expected = node.stage.function(rows, **node.arguments).collect()
    found = device_code(node)(DeviceRows(Rehearsal(), rows), **node.arguments)
    assert expected["sector"].to_list() == [0, 0, 1, 3, 4, 5]
    assert_frame_equal(found.to_polars(), expected)


@pytest.mark.parametrize("on_cluster", [False, True])
def test_array_code_is_given_the_columns_that_it_reads(on_cluster, monkeypatch):
    """Names of kernels are most of a trace's bytes."""
    config, graph = api.check("device_time")
    source = Source("gpt_h100", Trace.open(SHIPPED_TRACE.parent / "gpt_h100"))
    tables, seen = input_tables(config, graph, [source]), []
    evaluate = Rehearsal.evaluate

    def seeing(self, plan):
        seen.append(plan.collect_schema().names())
        return evaluate(self, plan)

    monkeypatch.setattr(Rehearsal, "evaluate", seeing)
    if on_cluster:
        monkeypatch.setattr(dask_cuda, "worker_device", lambda: nullcontext(Rehearsal()))
        monkeypatch.setattr(_Cluster, "collect", lambda _self, plan: seen.append(plan.collect_schema().names()) or plan.collect())  # fmt: skip
        _ClusterGraph(graph, _Cluster("streaming", Inline()), {}).run(tables, ["sums"])
    else:
        DeviceGraph(graph, Rehearsal(), {}).run(tables, ["sums"])
    assert seen
    assert not any("name" in columns for columns in seen)
