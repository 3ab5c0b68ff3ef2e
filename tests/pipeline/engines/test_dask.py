"""The Dask engine gives what the cpu engine gives, for any number of workers and shards."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pasta import api
from pasta.pipeline.engines.cpu import CpuEngine
from pasta.pipeline.engines.dask import DaskEngine
from pasta.pipeline.run import Source, run_graph
from pasta.tools.shipped import SHIPPED_TRACE, shipped_tools
from pasta.trace import Trace
from tests.conftest import write_trace
from tests.pipeline.engines.ranks import trace_of_ranks
from tests.tools.memory_run import ACCESSES, TABLES

distributed = pytest.importorskip("distributed")

SETTINGS = {4: 100, 2: 1_500, 1: 1 << 21}
"""Workers, in the order in which they are tried -> rows of a shard."""


@pytest.fixture(scope="session")
def cluster() -> Iterator[distributed.LocalCluster]:
    with distributed.LocalCluster(
        n_workers=max(SETTINGS), threads_per_worker=1, dashboard_address=None,
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
    cluster.scale(request.param)
    with DaskEngine(scheduler=cluster.scheduler_address, shard_rows=SETTINGS[request.param]) as engine:  # fmt: skip
        while len(engine._client.nthreads()) != request.param:
            pass
        yield engine


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
