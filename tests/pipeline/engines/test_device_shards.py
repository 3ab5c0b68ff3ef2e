"""Shards on a device give what the cpu engine gives, on a device that is none."""

from __future__ import annotations

from contextlib import nullcontext

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import pasta
from pasta import api
from pasta.pipeline.config import parse_config
from pasta.pipeline.device_rows import TooManyRowsError
from pasta.pipeline.engines import choice, device_shards, gpu
from pasta.pipeline.engines.cpu import CpuEngine
from pasta.pipeline.engines.dask_run import ShardRun
from pasta.pipeline.engines.device_shards import (
    DeviceWork,
    LeavesTooMuchError,
    cut_for_devices,
    with_states,
)
from pasta.pipeline.engines.gpu import GpuEngine, input_bytes
from pasta.pipeline.engines.local_run import run_in_turn
from pasta.pipeline.engines.rehearsal import Rehearsal
from pasta.pipeline.run import (
    Source,
    collect_wanted,
    input_tables,
    only_trace,
    run_graph,
    wanted_nodes,
)
from pasta.pipeline.wiring import build_graph
from pasta.tools.shipped import SHIPPED_TRACE, shipped_tools
from pasta.trace import Trace
from tests.pipeline.engines.ranks import trace_of_ranks

TOOL = "kernel_frequency"


@pytest.fixture(autouse=True)
def takes_all(monkeypatch):
    """The device takes all stages, and few rows are enough for a shard."""
    monkeypatch.setattr(device_shards, "declined_stages", lambda _graph, _names: {})
    monkeypatch.setattr(gpu, "declined_stages", lambda _graph, _names: {})
    monkeypatch.setattr(device_shards, "LEAST_ROWS", 1)


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    base = tmp_path_factory.mktemp("shards")
    return {
        "ranks": [Source("ranks", trace_of_ranks(base / "ranks", 3))],
        "two traces": [Source("b", trace_of_ranks(base / "b", 2)), Source("a", Trace.open(SHIPPED_TRACE))],
        "one rank": [Source("one", trace_of_ranks(base / "one", 1))],
    }  # fmt: skip


def cut_of(tool, sources, declined=(), part=1.0, devices=1):
    config, graph = api.check(tool)
    if any(not spec.optional and not source.trace.files(spec.table) for source in sources for spec in graph.inputs.values()):  # fmt: skip
        pytest.skip("a trace lacks a table")
    wanted = wanted_nodes(config, outputs=True)
    cut = cut_for_devices(graph, sources, wanted, declined, devices=devices, part=part)
    return config, graph, wanted, cut


@pytest.mark.parametrize("name", ["ranks", "two traces", "one rank"])
@pytest.mark.parametrize("tool", list(shipped_tools()))
def test_a_shipped_tool_gives_what_it_gives_on_the_cpu(traces, tool, name):
    if "/" in tool and name != "ranks":
        pytest.skip("tools of one folder share most of their graphs: one trace is enough")
    sources = traces[name]
    config, graph, wanted, cut = cut_of(tool, sources, devices=8)
    if cut is None:
        pytest.skip("needs rows that no shard leaves")
    device = Rehearsal()
    work = DeviceWork(graph, cut.placement, only_trace(sources), lambda: nullcontext(device))
    ran = work.results(*run_in_turn(work, cut.shards, at_once=1))
    tables = input_tables(config, graph, sources) | ran
    found = collect_wanted(graph, tables, wanted, CpuEngine().collect)[1]
    expected = run_graph(config, graph, sources, CpuEngine(), outputs=True)
    assert list(found) == list(expected)
    for node, rows in expected.items():
        assert_frame_equal(found[node], rows, rel_tol=1e-9)


def test_most_tools_run_on_shards_of_whole_ranks(traces):
    """So that the test above does not pass by skipping."""
    cuts = {}
    for tool in ("working_set", "hot_memory", "device_time", "operator_time", "memory_timeline"):
        cuts[tool] = cut_of(tool, traces["ranks"], devices=8)[-1]
    assert all(
        len(cut.shards) > 1 and " shards of whole ranks" in cut.text for cut in cuts.values()
    )


@pytest.mark.parametrize("name", ["ranks", "one rank"])
def test_rows_are_cut_where_no_stage_needs_whole_ranks(traces, name):
    *_, cut = cut_of(TOOL, traces[name], devices=2)
    rows = sum(Trace.open(s.trace.path).scan("kernel").select(pl.len()).collect().item() for s in traces[name])  # fmt: skip
    assert len(cut.shards) > 3
    assert sum(shard.rows for shard in cut.shards) == rows
    assert cut.text == f"{len(cut.shards)} shards of rows"


def test_a_shard_that_does_not_fit_is_not_cut_further(traces):
    *_, whole = cut_of("working_set", traces["ranks"], part=0.6)
    *_, small = cut_of("working_set", traces["ranks"], part=0.1)
    assert len(whole.shards) == 3
    assert small is None


def test_what_a_device_declines_on_shards_keeps_a_graph_from_them(traces, monkeypatch):
    _, graph, _, cut = cut_of("working_set", traces["ranks"])
    on_shards = next(name for name in graph.nodes if cut.placement.places[name] == "ranks")
    assert cut_of("working_set", traces["ranks"], declined=[on_shards])[-1] is None
    in_the_caller = next(iter(cut.placement.obstacles))
    assert cut_of("working_set", traces["ranks"], declined=[in_the_caller])[-1] is not None
    state = f"{cut.placement.combined[0]}'s state"
    monkeypatch.setattr(device_shards, "declined_stages", lambda _graph, names: {state: "no"} if state in names else {})  # fmt: skip
    assert cut_of("working_set", traces["ranks"])[-1] is None


def test_a_tool_that_shows_rows_of_its_input_is_not_for_shards(traces):
    config = {
        "version": 1, "tool": "t", "about": "A.", "inputs": {"kernels": {"table": "kernel"}},
        "stages": {"long": {"use": "filter", "from": "kernels", "where": "dur > 1"}},
        "report": [{"table": "long"}],
    }  # fmt: skip
    graph = build_graph(parse_config(config), {}, pytest.fail)
    cut = cut_for_devices(graph, traces["ranks"], ["long"], (), devices=1, part=1)
    assert cut is None


def test_a_state_is_a_node_of_its_own():
    _, graph = api.check(TOOL)
    added = with_states(graph, ["by_name"])
    assert set(added.nodes) - set(graph.nodes) == {"by_name's state"}
    assert added.nodes["by_name"] is graph.nodes["by_name"]
    assert added.schemas["by_name's state"] != added.schemas["by_name"]


def rehearsed():
    return nullcontext(Rehearsal())


def test_shards_run_on_workers(traces):
    distributed = pytest.importorskip("distributed")
    sources = traces["ranks"]
    config, graph, wanted, cut = cut_of("working_set", sources)
    work = DeviceWork(graph, cut.placement, only_trace(sources), rehearsed)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):  # fmt: skip
        ran = ShardRun(client, work).run(cut.shards)
    tables = input_tables(config, graph, sources) | ran
    found = collect_wanted(graph, tables, wanted, CpuEngine().collect)[1]
    for node, rows in run_graph(config, graph, sources, CpuEngine(), outputs=True).items():
        assert_frame_equal(found[node], rows)


def test_a_shard_that_leaves_many_rows_says_how_many(traces, monkeypatch):
    sources = traces["ranks"]
    _, graph, _, cut = cut_of("working_set", sources)
    monkeypatch.setattr(device_shards, "MOST_LEFT_ROWS", 2)
    work = DeviceWork(graph, cut.placement, only_trace(sources), rehearsed)
    with pytest.raises(LeavesTooMuchError, match=r"a shard leaves \d+ rows"):
        run_in_turn(work, cut.shards, at_once=1)


class Card(Rehearsal):
    """A stand-in whose memory holds a part of what it is given, and whose first run may fail."""

    def __init__(self, memory, failures=()):
        super().__init__()
        self._memory, self._failures = memory, list(failures)

    def memory(self):
        return self._memory

    def evaluate(self, plan):
        if self._failures:
            raise self._failures.pop()
        return super().evaluate(plan)


@pytest.fixture
def run_with(monkeypatch, traces):
    """Run a tool on the engine `gpu` with a card, and return its report."""

    def run(part, failures=(), tool=TOOL):
        (source,) = traces["ranks"]
        size = input_bytes(api.check(tool)[1], [source])
        card = Card(part * size / gpu.IN_MEMORY_SHARE, failures)
        monkeypatch.setitem(choice.ENGINES, "gpu", lambda options: GpuEngine(options, lambda _streaming: card))  # fmt: skip
        found = pasta.run(tool, source.trace, engine="gpu")
        assert found.facts == pytest.approx(pasta.run(tool, source.trace, engine="cpu").facts)
        return [note for note in found.notes if note.startswith("engine gpu")]

    return run


def test_what_does_not_fit_into_a_gpu_runs_in_shards_there(run_with):
    assert run_with(2)[0].endswith("in memory")
    (note,) = run_with(0.6)
    assert note.endswith(" MB of Parquet, 4 shards of rows")


def test_what_turns_out_not_to_fit_is_cut_into_quarters(run_with):
    first, again, last = run_with(2, [TooManyRowsError("a table has more rows")])
    assert first.endswith("in memory")
    assert again == "engine gpu: run again in parts: a table has more rows"
    assert " shards of rows" in last


@pytest.mark.parametrize("failures", [[], [MemoryError(), MemoryError()]], ids=["leaves", "memory"])
def test_where_shards_do_not_do_plans_are_streamed(run_with, monkeypatch, failures):
    if not failures:
        monkeypatch.setattr(device_shards, "MOST_LEFT_ROWS", 1)
    *_, why, last = run_with(0.6 if not failures else 2, failures)
    assert why.startswith("engine gpu: not run in shards: ")
    assert "\n" not in why
    assert last.endswith("streamed")
