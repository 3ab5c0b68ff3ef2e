"""The Dask engine gives what the cpu engine gives, for any number of workers and shards."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pasta import api
from pasta.errors import EngineError
from pasta.pipeline.engines import dask as dask_engine
from pasta.pipeline.engines import dask_groups, dask_run, group_tasks
from pasta.pipeline.engines.cpu import CpuEngine
from pasta.pipeline.engines.dask import DaskEngine
from pasta.pipeline.engines.dask_run import ShardRun
from pasta.pipeline.run import Source, run_graph
from pasta.tools.shipped import SHIPPED_TRACE, shipped_tools
from pasta.trace import Trace
from tests.conftest import write_trace
from tests.pipeline.engines.ranks import trace_of_ranks
from tests.tools.memory_run import ACCESSES, TABLES
from tests.tools.varied_run import varied_run

distributed = pytest.importorskip("distributed")

SETTINGS = {4: 100, 2: 1_500, 1: 1 << 20}
"""Workers, in the order in which they are tried -> rows of a shard."""


@pytest.fixture(scope="session")
def cluster() -> Iterator[distributed.LocalCluster]:
    with distributed.LocalCluster(
        n_workers=max(SETTINGS), threads_per_worker=1, dashboard_address="127.0.0.1:0",
        silence_logs=50, env={"POLARS_MAX_THREADS": "1"},
    ) as running:  # fmt: skip
        yield running


@pytest.fixture(scope="session")
def traces(tmp_path_factory):
    base = tmp_path_factory.mktemp("dask")
    return {
        "ranks": [Source("ranks", trace_of_ranks(base / "ranks"))],
        "two traces": [Source("b", trace_of_ranks(base / "b", 2)), Source("a", Trace.open(SHIPPED_TRACE))],
        "one rank": [Source("one", Trace.open(SHIPPED_TRACE))],
        "accesses": [Source("m", write_trace(base / "m", **TABLES, access=ACCESSES))],
    }  # fmt: skip


@pytest.fixture(scope="session")
def expected(traces):
    """What the cpu engine gives, for each tool and trace that has its tables."""
    return {
        (tool, name): found
        for tool in shipped_tools()
        for name, sources in traces.items()
        if "/" not in tool or name == "two traces"  # tools of a folder share most of their graphs
        if (found := on_cpu(tool, sources))
    }


def on_cpu(tool: str, sources: list[Source]) -> dict[str, pl.DataFrame]:
    config, graph = api.check(tool)
    required = {spec.table for spec in graph.inputs.values() if not spec.optional}
    if not graph.nodes or any(not source.trace.files(t) for source in sources for t in required):
        return {}
    return run_graph(config, graph, sources, CpuEngine(), outputs=True)


@pytest.fixture(scope="session", params=SETTINGS)
def engine(request, cluster) -> Iterator[DaskEngine]:
    """An engine with so many workers; with several, states are cut however small they are."""
    scale(cluster, request.param)
    with (
        pytest.MonkeyPatch.context() as patch,
        DaskEngine(scheduler=cluster.scheduler_address, shard_rows=SETTINGS[request.param]) as engine,
    ):  # fmt: skip
        if request.param > 1:
            patch.setattr(group_tasks, "CUT_BYTES", 1)
            patch.setattr(dask_groups, "CUT_BYTES", 1)
            patch.setattr(group_tasks, "MOST_CUTS", 3)
        yield engine


def scale(cluster: distributed.LocalCluster, workers: int) -> None:
    """Wait until there are so many workers."""
    cluster.scale(workers)
    while len(cluster.scheduler.workers) != workers:
        time.sleep(0.05)


def assert_same(found: dict[str, pl.DataFrame], wanted: dict[str, pl.DataFrame]) -> None:
    assert list(found) == list(wanted)
    for name, rows in wanted.items():
        assert_frame_equal(found[name], rows, rel_tol=1e-9, abs_tol=0)


@pytest.mark.parametrize("name", ["ranks", "two traces", "one rank", "accesses"])
@pytest.mark.parametrize("tool", list(shipped_tools()))
def test_shards_and_workers_change_nothing(engine, traces, expected, tool, name):
    if (tool, name) not in expected:
        pytest.skip(f"'{name}' lacks a table that {tool} needs, or it has no graph")
    config, graph = api.check(tool)
    found = run_graph(config, graph, traces[name], engine, outputs=True)
    assert_same(found, expected[tool, name])


@pytest.mark.parametrize("tool", ["variability", "variability_causes", "variability_outliers"])
def test_what_is_planted_is_found_by_any_number_of_workers(engine, tmp_path, tool):
    cause = {"slow_rounds": (1, range(40, 60), 1.05)} if tool == "variability" else {"copies": (1, 0.1, 1.3)}  # fmt: skip
    sources = [Source("t", write_trace(tmp_path / "t", **varied_run(1, **cause)))]
    config, graph = api.check(tool)
    found, wanted = (run_graph(config, graph, sources, each, outputs=True) for each in (engine, CpuEngine()))  # fmt: skip
    assert_same(found, wanted)
    assert max(rows.height for rows in wanted.values()) > 1


@pytest.mark.parametrize("tool", ["kernel_frequency", "operator_time"])
def test_a_worker_that_dies_changes_nothing(cluster, traces, expected, monkeypatch, tool):
    scale(cluster, 2)
    killed = []
    submit = ShardRun._submit

    def submit_and_kill(self, place, shard, worker):
        submit(self, place, shard, worker)
        if place == 3:
            victims = self._client.run(os.getpid)
            killed.append(next(iter(victims.values())))
            os.kill(killed[0], signal.SIGKILL)

    monkeypatch.setattr(ShardRun, "_submit", submit_and_kill)
    config, graph = api.check(tool)
    with DaskEngine(scheduler=cluster.scheduler_address, shard_rows=100) as engine:
        found = run_graph(config, graph, traces["ranks"], engine, outputs=True)
    assert killed
    assert_same(found, expected[tool, "ranks"])


def test_all_workers_may_die_and_others_come(traces, expected, monkeypatch):
    """Shards were meant for workers that are gone, and none was left to which they could go instead."""
    killed = []
    submit = ShardRun._submit

    def submit_and_kill(self, place, shard, worker):
        submit(self, place, shard, worker)
        if place == 3:
            killed.extend(self._client.run(os.getpid).values())
            for victim in killed:
                os.kill(victim, signal.SIGKILL)

    monkeypatch.setattr(ShardRun, "_submit", submit_and_kill)
    monkeypatch.setattr(dask_run, "_PATIENCE", 1)
    config, graph = api.check("kernel_frequency")
    with DaskEngine(workers=1, shard_rows=100) as engine:
        found = run_graph(config, graph, traces["ranks"], engine, outputs=True)
    assert len(killed) == 1
    assert_same(found, expected["kernel_frequency", "ranks"])


def test_few_shards_are_in_flight_at_a_time(cluster, traces, monkeypatch):
    scale(cluster, 2)
    most = []
    submit = ShardRun._submit

    def submit_and_count(self, place, shard, worker):
        submit(self, place, shard, worker)
        most.append(len(self._waiting))

    monkeypatch.setattr(ShardRun, "_submit", submit_and_count)
    config, graph = api.check("kernel_frequency")
    with DaskEngine(scheduler=cluster.scheduler_address, shard_rows=20) as engine:
        run_graph(config, graph, traces["ranks"], engine)
    assert len(most) > 12
    assert max(most) <= 4


def address_in(file: Path) -> str | None:
    """The address in a scheduler's file; `None`: it is not written yet, or not to its end."""
    try:
        return json.loads(file.read_text())["address"]
    except (FileNotFoundError, ValueError):
        return None


@pytest.fixture
def own_scheduler(tmp_path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler and a worker in processes of their own, started as users start them."""
    file = tmp_path / "scheduler.json"
    common = ["--scheduler-file", str(file), "--no-dashboard"]
    started = [subprocess.Popen([sys.executable, "-m", "dask", "scheduler", "--port", "0", "--host", "127.0.0.1", *common], stderr=subprocess.DEVNULL)]  # fmt: skip
    while (address := address_in(file)) is None:
        time.sleep(0.05)
    started.append(subprocess.Popen([sys.executable, "-m", "dask", "worker", "--no-nanny", "--nthreads", "1", *common], stderr=subprocess.DEVNULL))  # fmt: skip
    with distributed.Client(address, timeout=300, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=300)
    yield address, started
    for process in reversed(started):
        process.kill()
        process.wait()


def test_a_lost_scheduler_is_one_clear_error(own_scheduler, traces, monkeypatch):
    address, processes = own_scheduler
    submit = ShardRun._submit

    def submit_and_kill(self, place, shard, worker):
        submit(self, place, shard, worker)
        if place == 3:
            processes[0].kill()

    monkeypatch.setattr(ShardRun, "_submit", submit_and_kill)
    monkeypatch.setattr(dask_engine, "_SECONDS", 5)
    config, graph = api.check("kernel_frequency")
    with (
        pytest.raises(EngineError, match=rf"^the Dask scheduler at {address} cannot be reached"),
        DaskEngine(scheduler=address, shard_rows=20) as engine,
    ):
        run_graph(config, graph, traces["ranks"], engine)


def test_no_scheduler_is_one_clear_error(monkeypatch):
    monkeypatch.setattr(dask_engine, "_SECONDS", 1)
    with (
        pytest.raises(EngineError, match=r"^no Dask scheduler answers at tcp://127.0.0.1:9; start"),
        DaskEngine(scheduler="tcp://127.0.0.1:9"),
    ):
        pass


def test_workers_and_a_scheduler_exclude_each_other():
    with pytest.raises(EngineError, match="give one of them"):
        DaskEngine(2, "tcp://127.0.0.1:8786")


def test_a_failure_on_a_worker_is_one_line(cluster, make_trace):
    trace = make_trace(kernel=[{"name": "a", "ts": n, "dur": 2**62} for n in range(4)])
    config, graph = api.check("kernel_frequency")
    with (
        DaskEngine(scheduler=cluster.scheduler_address) as engine,
        pytest.raises(EngineError, match=r"^the dask engine failed on a worker: .*sum\(dur\)") as caught,
    ):  # fmt: skip
        engine.run(config, graph, [Source("t", trace)], ["overall"])
    assert "\n" not in str(caught.value)


def test_the_report_says_how_the_graph_ran(cluster, traces):
    config, graph = api.check("memory_timeline")
    with DaskEngine(scheduler=cluster.scheduler_address, shard_rows=1) as engine:
        run_graph(config, graph, traces["ranks"], engine)
        assert re.fullmatch(
            "dask: 5 shards of whole ranks on [1-4] workers?; the caller ran peak_by_space, highest, sliced, which need all rows",
            engine.notes[0],
        )


@pytest.mark.parametrize("name", ["ranks", "two traces"])
def test_ranks_larger_than_a_shard_are_cut_by_time(cluster, traces, name):
    config, graph = api.check("device_time")
    with DaskEngine(scheduler=cluster.scheduler_address, shard_rows=100) as engine:
        found = run_graph(config, graph, traces[name], engine, outputs=True)
        assert re.match(r"dask: \d+ shards of time on", engine.notes[0])
    assert_same(found, run_graph(config, graph, traces[name], CpuEngine(), outputs=True))


def test_a_command_line_run_on_workers_of_its_own_loads_no_gpu_library(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(
        "import sys\n"
        "def loaded():\n    return sorted({n.partition('.')[0] for n in sys.modules})\n"
        "if __name__ == '__main__':\n"
        "    import pasta\n    from pasta.pipeline.engines.dask import DaskEngine\n"
        "    report = pasta.run('kernel_frequency', engine='dask', workers=2)\n"
        "    assert report.facts == pasta.run('kernel_frequency').facts\n"
        "    assert report.notes[-1].startswith('dask: 1 shard of rows on 2 workers')\n"
        "    with DaskEngine(1) as engine:\n"
        "        on_worker = engine.client.run(loaded).popitem()[1]\n"
        "        assert 'pasta' in on_worker, 'it is loaded with the first shard only'\n"
        "        print(*loaded(), *on_worker)\n"
    )
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert "polars" in result.stdout.split()
    heavy = {"cudf", "cudf_polars", "cupy", "dask_cuda", "rmm", "pynvml", "pandas"}
    assert not heavy & set(result.stdout.split())
    assert not result.stderr


MODULE = "pasta.pipeline.engines.shard_tasks"


@pytest.mark.parametrize(
    ("modules", "arguments", "expected"),
    [
        ([], [], ([MODULE], [])),
        ("mine", None, (["mine", MODULE], None)),
        (["mine", "yours"], ["--x", "1"], (["mine", "yours", MODULE], ["--x", "1"])),
        (["mine", "yours"], [["--x"], []], (["mine", "yours", MODULE], [["--x"], [], []])),
    ],
)
def test_what_a_user_has_workers_load_stays(modules, arguments, expected):
    import dask

    names = "distributed.worker.preload", "distributed.worker.preload-argv"
    with dask.config.set(dict(zip(names, (modules, arguments), strict=True))):
        found = dask_engine._preloading(MODULE)
    assert tuple(found[name] for name in names) == expected
