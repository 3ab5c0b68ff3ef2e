"""Shards on a device give what the cpu engine gives, on a device that is none."""

from __future__ import annotations

import itertools
import pickle
import time
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import pasta
from pasta import api
from pasta.errors import EngineError
from pasta.pipeline.config import parse_config
from pasta.pipeline.device_rows import TooManyRowsError
from pasta.pipeline.engines import choice, dask_cuda, dask_run, device_shards, gpu
from pasta.pipeline.engines.base import EngineOptions
from pasta.pipeline.engines.cpu import CpuEngine
from pasta.pipeline.engines.dask_cuda import DaskCudaEngine
from pasta.pipeline.engines.dask_run import ShardRun
from pasta.pipeline.engines.device_shards import (
    LeavesTooMuchError,
    cuts_for_devices,
    with_states,
)
from pasta.pipeline.engines.gpu import GpuEngine, input_bytes
from pasta.pipeline.engines.local_run import run_in_turn
from pasta.pipeline.engines.rehearsal import Rehearsal
from pasta.pipeline.run import (
    Source,
    collect_wanted,
    input_tables,
    run_graph,
    wanted_nodes,
)
from pasta.pipeline.wiring import build_graph
from pasta.tools.shipped import SHIPPED_TRACE, shipped_tools
from pasta.trace import Trace
from tests.pipeline.engines.ranks import trace_of_one, trace_of_ranks

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


def cut_of(tool, sources, declined=(), part=1.0, count=2):
    config, graph = api.check(tool)
    if any(not spec.optional and not source.trace.files(spec.table) for source in sources for spec in graph.inputs.values()):  # fmt: skip
        pytest.skip("a trace lacks a table")
    wanted = wanted_nodes(config, outputs=True)
    cuts = cuts_for_devices(
        graph, sources, wanted, dict.fromkeys(declined, "no"), count=count, part=part
    )
    return config, graph, wanted, next(cuts, None)


@pytest.mark.parametrize("name", ["ranks", "two traces", "one rank"])
@pytest.mark.parametrize("tool", list(shipped_tools()))
def test_a_shipped_tool_gives_what_it_gives_on_the_cpu(traces, tool, name):
    if "/" in tool and name != "ranks":
        pytest.skip("tools of one folder share most of their graphs: one trace is enough")
    sources = traces[name]
    config, graph, wanted, cut = cut_of(tool, sources, count=16)
    if cut is None:
        pytest.skip("needs rows that no shard leaves")
    device = Rehearsal()
    work = cut.work(graph, sources, lambda: nullcontext(device))
    ran = work.results(*run_in_turn(work, cut.shards, at_once=1))
    tables = input_tables(config, graph, sources) | ran
    found = collect_wanted(graph, tables, wanted, CpuEngine().collect)[1]
    expected = run_graph(config, graph, sources, CpuEngine(), outputs=True)
    assert list(found) == list(expected)
    for node, rows in expected.items():
        assert_frame_equal(found[node], rows, rel_tol=1e-9)


@pytest.mark.parametrize("tool", ["touch_from_access", "reuse", "sector_heatmap", "block_balance"])
def test_rows_of_one_rank_are_looked_up_in_few_others(tmp_path, monkeypatch, tool):
    monkeypatch.setattr(device_shards, "MOST_GIVEN_ROWS", 10_000)
    sources = [Source("one", trace_of_one(tmp_path))]
    config, graph, wanted, cut = cut_of(tool, sources, count=16)
    assert len(cut.shards) > 8
    assert not cut.placement.by_rank
    given = cut.placement.given
    assert bool(given) == (
        f"; processors made {', '.join(given)} before, which every shard reads" in cut.rest
    )
    *_, other = cut_of(tool, sources, count=16, declined=given)
    assert all(f"'{name}' (no)" in other.rest for name in given)
    work = pickle.loads(pickle.dumps(cut.work(graph, sources, rehearsed)))
    tables = input_tables(config, graph, sources)
    tables |= work.results(*run_in_turn(work, cut.shards, at_once=1))
    found = collect_wanted(graph, tables, wanted, CpuEngine().collect)[1]
    for node, rows in run_graph(config, graph, sources, CpuEngine(), outputs=True).items():
        assert_frame_equal(found[node], rows, rel_tol=1e-9)


def test_most_tools_run_on_shards_of_whole_ranks(traces):
    """So that the test above does not pass by skipping."""
    cuts = {}
    for tool in ("working_set", "hot_memory", "device_time", "operator_time", "memory_timeline"):
        cuts[tool] = cut_of(tool, traces["ranks"], count=16)[-1]
    assert all(len(cut.shards) > 1 and cut.placement.by_rank for cut in cuts.values())


@pytest.mark.parametrize("name", ["ranks", "one rank"])
def test_rows_are_cut_where_no_stage_needs_whole_ranks(traces, name):
    *_, cut = cut_of(TOOL, traces[name], count=4)
    rows = sum(Trace.open(s.trace.path).scan("kernel").select(pl.len()).collect().item() for s in traces[name])  # fmt: skip
    assert len(cut.shards) > 3
    assert sum(shard.rows for shard in cut.shards) == rows
    stages = len(cut.placement.obstacles)
    assert str(cut) == f"{len(cut.shards)} shards of rows"
    assert cut.rest == f"; processors ran the {stages} stages after them"


def test_a_shard_that_does_not_fit_is_not_cut_further(traces):
    *_, whole = cut_of("working_set", traces["ranks"], part=0.6)
    *_, small = cut_of("working_set", traces["ranks"], part=0.1)
    assert len(whole.shards) == 3
    assert small is None


def test_a_shard_has_no_more_rows_than_a_table_may(traces, monkeypatch):
    monkeypatch.setattr(device_shards, "MOST_ROWS", 300)
    *_, cut = cut_of(TOOL, traces["ranks"], count=1)
    assert max(shard.rows for shard in cut.shards) <= 300
    assert cut_of("working_set", traces["ranks"])[-1] is None


def test_what_a_device_declines_on_shards_keeps_a_graph_from_them(traces, monkeypatch):
    _, graph, _, cut = cut_of("working_set", traces["ranks"])
    on_shards = next(name for name in graph.nodes if cut.placement.places[name] == "ranks")
    assert cut_of("working_set", traces["ranks"], declined=[on_shards])[-1] is None
    in_the_caller = next(iter(cut.placement.obstacles))
    *_, with_rest = cut_of("working_set", traces["ranks"], declined=[in_the_caller])
    assert with_rest.rest.endswith(
        f"after them; of all these the GPU declines '{in_the_caller}' (no)"
    )
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
    assert not list(cuts_for_devices(graph, traces["ranks"], ["long"], {}, count=2, part=1))


def test_a_state_is_a_node_of_its_own():
    _, graph = api.check(TOOL)
    added = with_states(graph, ["by_name"])
    assert set(added.nodes) - set(graph.nodes) == {"by_name's state"}
    assert added.nodes["by_name"] is graph.nodes["by_name"]
    assert added.schemas["by_name's state"] != added.schemas["by_name"]


def rehearsed():
    return nullcontext(Rehearsal())


def test_work_that_has_run_is_the_same_after_its_way_to_a_worker(traces):
    """A stage is pickled by its name, under which a state's would be another."""
    sources = traces["ranks"]
    _, graph, _, cut = cut_of(TOOL, sources)
    work = cut.work(graph, sources, rehearsed)
    _, before = work.run(cut.shards[0], 0, None)
    _, after = pickle.loads(pickle.dumps(work)).run(cut.shards[0], 0, None)
    assert_frame_equal(after["by_name"], before["by_name"])


@pytest.fixture
def client():
    """Two workers in this process."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        distributed.Client(cluster, set_as_default=False) as connected,
    ):  # fmt: skip
        yield connected


class FailingOnce:
    """Opens devices, of which the first fails while another is used."""

    def __init__(self):
        self.numbers, self.ended = itertools.count(), itertools.count()

    @contextmanager
    def __call__(self):
        if next(self.numbers) == 0:
            raise MemoryError("too large")
        time.sleep(0.5)
        yield Rehearsal()
        next(self.ended)


OPENING = FailingOnce()


def failing_once():
    return OPENING()


def test_shards_that_run_when_one_fails_have_ended_before_anything_else(client, traces):
    sources = traces["ranks"]
    _, graph, _, cut = cut_of("working_set", sources, count=16)
    shards = ShardRun(client, cut.work(graph, sources, failing_once))
    with pytest.raises(MemoryError, match="too large"):
        shards.run(cut.shards)
    shards.stop()
    client.submit(len, "", pure=False).result()
    assert next(OPENING.ended) == next(OPENING.numbers) - 1


@pytest.fixture
def on_gpus(client, monkeypatch):
    """The engine `dask` as if the workers had GPUs, and no plan ran on all of them."""
    monkeypatch.setattr(dask_cuda, "declined_stages", lambda _graph, _names: {})
    monkeypatch.setattr(dask_cuda, "worker_device", rehearsed)
    engine = DaskCudaEngine(EngineOptions())
    engine._client, engine._engine = client, SimpleNamespace(nranks=2)
    engine._workers = set(client.nthreads())
    return engine


@pytest.mark.parametrize("tool", ["working_set", TOOL])
def test_a_cluster_runs_shards(on_gpus, traces, tool):
    config, graph, _, _ = cut_of(tool, traces["ranks"])
    found = run_graph(config, graph, traces["ranks"], on_gpus, outputs=True)
    for node, rows in run_graph(config, graph, traces["ranks"], CpuEngine(), outputs=True).items():
        assert_frame_equal(found[node], rows)
    (note,) = on_gpus.notes
    assert note.startswith("dask: 2 GPUs, ")
    assert "; processors ran the " in note


def test_much_work_travels_once(on_gpus, traces, monkeypatch):
    monkeypatch.setattr(dask_run, "_MANY_BYTES", 1)
    config, graph, _, _ = cut_of(TOOL, traces["ranks"])
    found = run_graph(config, graph, traces["ranks"], on_gpus, outputs=True)
    for node, rows in run_graph(config, graph, traces["ranks"], CpuEngine(), outputs=True).items():
        assert_frame_equal(found[node], rows)
    assert " shards" in on_gpus.notes[-1]


def test_a_cluster_runs_plans_where_shards_leave_too_much(on_gpus, traces, monkeypatch):
    monkeypatch.setattr(device_shards, "MOST_LEFT_ROWS", 1)
    config, graph, _, _ = cut_of(TOOL, traces["ranks"])
    found = run_graph(config, graph, traces["ranks"], on_gpus)
    for node, rows in run_graph(config, graph, traces["ranks"], CpuEngine()).items():
        assert_frame_equal(found[node], rows)
    why, how, *_ = on_gpus.notes
    assert why.startswith("dask: not run in ")
    assert ": a shard leaves " in why
    assert how == "dask: 2 GPUs"


def test_plans_do_not_run_where_a_worker_was_lost(on_gpus, traces, monkeypatch):
    monkeypatch.setattr(device_shards, "MOST_LEFT_ROWS", 1)
    on_gpus._workers.add("tcp://gone:1")
    config, graph, _, _ = cut_of(TOOL, traces["ranks"])
    with pytest.raises(EngineError, match=r"a worker was lost \(tcp://gone:1\), and plans need"):
        run_graph(config, graph, traces["ranks"], on_gpus)


def test_a_shard_that_leaves_many_rows_says_how_many(traces, monkeypatch):
    sources = traces["ranks"]
    _, graph, _, cut = cut_of("working_set", sources)
    monkeypatch.setattr(device_shards, "MOST_LEFT_ROWS", 2)
    work = cut.work(graph, sources, rehearsed)
    with pytest.raises(
        LeavesTooMuchError, match=r"a shard leaves \d+ rows, more than the 0 that it may"
    ):
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
        monkeypatch.setitem(choice.ENGINES, "gpu", lambda options: GpuEngine(options, lambda: card))  # fmt: skip
        found = pasta.run(tool, source.trace, engine="gpu")
        assert found.facts == pytest.approx(pasta.run(tool, source.trace, engine="cpu").facts)
        return [note for note in found.notes if note.startswith("engine gpu")]

    return run


def test_what_does_not_fit_into_a_gpu_runs_in_shards_there(run_with):
    assert run_with(2)[0].endswith("in memory")
    (note,) = run_with(0.6)
    assert " MB of Parquet, 4 shards of rows; processors ran the " in note
    (note,) = run_with(0.6, tool="working_set")
    assert " MB of Parquet, 3 shards of whole ranks; " in note


def test_shards_that_turn_out_not_to_fit_are_cut_smaller(run_with, monkeypatch):
    monkeypatch.setattr(gpu, "_SHARDS", 1)
    first, again, last = run_with(2, [MemoryError(), MemoryError()])
    short = "the GPU's memory did not suffice: more was needed"
    assert (first, again) == (f"engine gpu: {short}", f"engine gpu: in 1 shard of rows: {short}")
    assert " MB of Parquet, 2 shards of rows; " in last


def test_what_turns_out_not_to_fit_is_cut(run_with):
    again, last = run_with(2, [TooManyRowsError("a table has more rows")])
    assert again == "engine gpu: a table has more rows"
    assert " shards of rows" in last


def test_where_shards_leave_too_much_rows_that_fit_run_at_once(run_with, monkeypatch):
    monkeypatch.setattr(device_shards, "MOST_LEFT_ROWS", 1)
    why, last = run_with(0.6)
    assert why.startswith("engine gpu: in 4 shards of rows: a shard leaves ")
    assert last.endswith("in memory")


def test_what_fits_in_no_way_is_one_line_that_says_why(run_with):
    with pytest.raises(EngineError) as caught:
        run_with(2, [MemoryError() for _ in range(9)])
    text = str(caught.value)
    short = "the GPU's memory did not suffice: more was needed"
    assert text.startswith(f"{short}; in 4 shards of rows: {short}; use --engine cpu or dask")
