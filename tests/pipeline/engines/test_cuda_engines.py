"""The engines on real GPUs: `pytest -m gpu tests/pipeline/engines/test_cuda_engines.py`; see docs/gpu.md."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import pasta
from pasta import api
from pasta.errors import EngineError
from pasta.pipeline import frames
from pasta.pipeline.device_rows import DeviceRows
from pasta.pipeline.engines import device_memory, device_shards, gpu, integer_groups
from pasta.pipeline.engines.base import EngineOptions
from pasta.pipeline.engines.cpu import CpuEngine
from pasta.pipeline.engines.device_shards import cuts_for_devices
from pasta.pipeline.engines.gpu import GpuEngine
from pasta.pipeline.engines.gpu_check import declined_stages, device_code
from pasta.pipeline.engines.local_run import run_in_turn
from pasta.pipeline.run import (
    Source,
    collect_wanted,
    input_tables,
    run_graph,
    wanted_nodes,
)
from pasta.tools.shipped import SHIPPED_TRACE, shipped_tools
from pasta.trace import Trace
from tests.conftest import write_trace
from tests.pipeline.engines.ranks import trace_of_one, trace_of_ranks
from tests.tools.memory_run import ACCESSES, TABLES
from tests.tools.ranks_run import ranks_run
from tests.tools.steps_run import steps_run
from tests.tools.varied_run import varied_run

pytestmark = pytest.mark.gpu
pytest.importorskip("cudf_polars", reason="cudf-polars is not installed (extra gpu)")
pytest.importorskip("cupy", reason="cupy is not installed (extra gpu)")

ROOT = Path(__file__).parents[3]
ON_A_CLUSTER = """
import sys
import pasta
from distributed.diagnostics import nvml

def main():
    given = {"kernel_frequency": sys.argv[1], "memory_timeline": sys.argv[1], "variability": sys.argv[2]}
    found = {tool: pasta.run(tool, trace, engine="dask", workers=1) for tool, trace in given.items()}
    for tool, trace in given.items():
        expected = pasta.run(tool, trace, engine="cpu")
        assert found[tool].findings == expected.findings
        assert found[tool].facts == expected.facts
        assert any(note.startswith("dask: 1 GPU") for note in found[tool].notes), found[tool].notes
    assert not nvml.has_cuda_context().has_context

if __name__ == "__main__":
    main()
"""


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cuda") / "memory_run"
    return {
        "gpt_cpu": Source("gpt_cpu", Trace.open(SHIPPED_TRACE)),
        "memory_run": Source("memory_run", write_trace(folder, **TABLES, access=ACCESSES)),
    }


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    return Source("ranks", trace_of_ranks(tmp_path_factory.mktemp("cuda_ranks") / "ranks", 3))


@pytest.fixture
def device():
    from pasta.pipeline.engines.cuda_device import CudaDevice

    opened = CudaDevice()
    yield opened
    opened.close()


PLANTED = {
    "comm_overlap": steps_run(1, communication={(0, 3): 400_000}),
    "critical_path": steps_run(1, host={(1, step): 400_000 for step in range(8)}),
    "idle_causes": steps_run(1, host={(1, step): 400_000 for step in range(8)}),
    "load_balance": ranks_run(1, steps=4, more={5: 1}),
    "step_budget": steps_run(1, data={(1, 5): 400_000}),
    "step_time": steps_run(1, copy={(1, 5): 400_000}),
    "stragglers": ranks_run(1, slow={5: 1.1}),
    "variability": varied_run(1, slow_rounds=(1, range(40, 60), 1.05), slow_launch=(0, 20, 1.5)),
    "variability_causes": varied_run(1, copies=(1, 0.1, 1.3)),
    "variability_outliers": varied_run(1, copies=(1, 0.1, 1.3)),
}


@pytest.mark.parametrize("tool", PLANTED)
def test_what_is_planted_is_found_on_the_gpu(tmp_path, tool):
    trace = write_trace(tmp_path / "t", **PLANTED[tool])
    expected, found = (pasta.run(tool, trace=trace, engine=engine) for engine in ("cpu", "gpu"))
    assert found.findings == expected.findings
    assert found.findings
    for name, rows in expected.tables.items():
        assert_frame_equal(found.tables[name], rows, rel_tol=1e-9)


def readable(graph, source):
    tables = source.trace.tables()
    return all(given.optional or given.table in tables for given in graph.inputs.values())


@pytest.mark.parametrize("source", ["gpt_cpu", "memory_run"])
@pytest.mark.parametrize("tool", list(shipped_tools()))
def test_a_shipped_tool_gives_what_it_gives_on_the_cpu(sources, tool, source):
    config, graph = api.check(tool)
    if any(given.run for given in graph.inputs.values()):
        pytest.skip("compares runs")
    if not readable(graph, sources[source]):
        pytest.skip(f"{source} lacks a table")
    with CpuEngine() as cpu, GpuEngine(EngineOptions()) as gpu_engine:
        expected, found = (
            run_graph(config, graph, [sources[source]], engine, outputs=True)
            for engine in (cpu, gpu_engine)
        )
    assert list(found) == list(expected)
    for name, rows in expected.items():
        assert_frame_equal(found[name], rows, rel_tol=1e-9)


@pytest.mark.parametrize("tool", list(shipped_tools()))
def test_the_check_without_a_gpu_agrees_with_what_the_gpu_declines(device, tool):
    _, graph = api.check(tool)
    schemas, really = graph.schemas, set()
    for name, node in graph.nodes.items():
        try:
            run_one(device, node, schemas)
        except NotImplementedError:
            really.add(name)
    assert really == set(declined_stages(graph, graph.nodes))


def run_one(device, node, schemas):
    empty = [None if s is None else pl.LazyFrame(schema=schemas[s]) for s in node.positional]
    code = device_code(node)
    if code is None:
        return DeviceRows(device, node.stage.function(*empty, **node.arguments)).hold()
    rows = [None if plan is None else DeviceRows(device, plan) for plan in empty]
    return code(*rows, **node.arguments).hold()


def test_nothing_is_copied_to_the_host_between_a_plan_and_array_code(sources, monkeypatch):
    from pasta.pipeline.engines.cuda_device import CudaDevice

    downloads = []
    copy = CudaDevice.download
    monkeypatch.setattr(
        CudaDevice,
        "download",
        lambda self, rows: downloads.append(rows.num_rows) or copy(self, rows),
    )
    config, graph = api.check("operator_time")
    with GpuEngine(EngineOptions()) as engine:
        found = run_graph(config, graph, [sources["gpt_cpu"]], engine)
    rows = Trace.open(SHIPPED_TRACE).scan("span").select(pl.len()).collect().item()
    assert max(downloads) < rows
    assert set(downloads) >= {frame.height for frame in found.values()}


def test_rows_pass_to_arrays_and_back(device):
    table = pl.DataFrame(
        {"a": [3, 1, None, 1], "b": ["x", None, "x", "y"], "c": [True, None, False, True]}
    )
    rows = DeviceRows(device, table.lazy())
    assert frames.column_array(rows, pl.col("a").fill_null(7)).tolist() == [3, 1, 7, 1]
    assert frames.mask(rows, pl.col("c")).tolist() == [True, False, False, True]
    places = device.xp.asarray([3, 0, 3])
    assert_frame_equal(frames.gather(rows, places).to_polars(), table[[3, 0, 3]])
    known = frames.gather_known(rows, device.xp.asarray([3, -1])).to_polars()
    assert known.rows() == [(1, "y", True), (None, None, None)]
    added = frames.with_arrays(rows, a=device.xp.arange(4), d=device.xp.arange(4) > 1)
    expected = table.with_columns(a=np.arange(4), d=np.arange(4) > 1)
    assert_frame_equal(added.to_polars(), expected)
    empty = frames.from_arrays({"e": device.xp.arange(0)}, like=rows)
    assert empty.to_polars().height == 0
    assert (
        frames.column_array(rows.filter(pl.col("a") > 9), pl.col("a").fill_null(0)).tolist() == []
    )


@pytest.mark.parametrize("upward", [True, False])
def test_rows_are_ordered_by_columns_as_by_comparing(device, upward):
    import pylibcudf as plc

    draw = np.random.default_rng(0)
    kinds = {"a": np.int32, "b": np.int64, "c": np.uint64, "d": np.uint8}
    columns = {name: draw.integers(0, 9, 5000).astype(kind) for name, kind in kinds.items()}
    frame = device.frame({name: device.xp.asarray(values) for name, values in columns.items()})
    order = plc.types.Order.ASCENDING if upward else plc.types.Order.DESCENDING
    found = plc.sorting.stable_sorted_order(
        frame.table, [order] * 4, [plc.types.NullOrder.AFTER] * 4, stream=frame.stream
    )
    signed = [values.astype(np.int64) * (1 if upward else -1) for values in columns.values()]
    assert np.array_equal(found.to_arrow().to_numpy(), np.lexsort(signed[::-1]))


def groups_of(keys, values, kind):
    """Return the groups that a class of libcudf finds, with their numbers of rows and sums, in order of keys."""
    import pylibcudf as plc
    from cudf_polars.utils.cuda_stream import get_cuda_stream

    stream = get_cuda_stream()
    aggregations = [plc.aggregation.count(plc.types.NullPolicy.INCLUDE), plc.aggregation.sum()]
    request = plc.groupby.GroupByRequest
    requests = [request(keys[0], aggregations[:1]), *(request(v, aggregations[1:]) for v in values)]
    grouped, results = kind(plc.Table(keys)).aggregate(requests, stream=stream)
    columns = [*grouped.columns(), *(c for table in results for c in table.columns())]
    rows = pl.DataFrame([pl.Series(str(n), c.to_arrow()) for n, c in enumerate(columns)])
    return rows.sort([str(n) for n in range(len(keys))])


DRAW = np.random.default_rng(7)
GROUPED = {
    "few": ([DRAW.integers(-5, 5, 9000), DRAW.integers(0, 9, 9000).astype(np.int8)], True),
    "one": ([np.full(9000, 2**63 + 5, np.uint64)], True),
    "many": ([DRAW.integers(0, 1 << 20, 900_000), DRAW.integers(0, 2, 900_000)], True),
    "too many": ([np.arange(9_000_000)], False),
    "too wide": ([DRAW.choice([-(2**63), 2**63 - 1], 9000)], False),
    "wide together": ([DRAW.integers(0, 1 << 40, 9000), DRAW.integers(0, 1 << 40, 9000)], False),
}


@pytest.mark.parametrize("case", GROUPED)
def test_groups_of_integers_are_those_of_libcudf(device, monkeypatch, case):
    keys, fits = GROUPED[case]
    rows = len(keys[0])
    values = [
        DRAW.integers(-(2**62), 2**62, rows),
        DRAW.integers(-(2**31), 2**31, rows).astype(np.int32),
        np.full(rows, -1),
    ]
    frame = device.frame({str(n): device.xp.asarray(v) for n, v in enumerate([*keys, *values])})
    columns = [column.obj for column in frame.columns]
    import pylibcudf as plc

    monkeypatch.setattr(integer_groups, "LEAST_ROWS", 1)
    used, find = [], integer_groups.group_sums
    monkeypatch.setattr(
        integer_groups, "group_sums", lambda *given: used.append(find(*given)) or used[-1]
    )
    given = columns[: len(keys)], columns[len(keys) :]
    found = groups_of(*given, plc.groupby.GroupBy)
    assert [each is not None for each in used] == [fits]
    assert_frame_equal(found, groups_of(*given, plc.groupby.GroupBy.__base__))


@pytest.mark.parametrize("tool", list(shipped_tools()))
def test_a_shipped_tool_gives_on_shards_what_it_gives_on_the_cpu(ranks, device, monkeypatch, tool):
    assert_same_on_shards(ranks, device, monkeypatch, tool)


@pytest.mark.parametrize(
    "tool", ["touch_from_access", "reuse", "reuse_pairs", "sector_heatmap", "block_balance"]
)
def test_rows_of_one_rank_are_looked_up_in_few_others(tmp_path, device, monkeypatch, tool):
    monkeypatch.setattr(device_shards, "MOST_GIVEN_ROWS", 10_000)
    source = Source("one", trace_of_one(tmp_path))
    assert not assert_same_on_shards(source, device, monkeypatch, tool).by_rank


def assert_same_on_shards(ranks, device, monkeypatch, tool):
    """Compare with the CPU, with groups by the kernel that is otherwise for many rows."""
    monkeypatch.setattr(device_shards, "LEAST_ROWS", 1)
    monkeypatch.setattr(integer_groups, "LEAST_ROWS", 1)
    config, graph = api.check(tool)
    if any(given.run for given in graph.inputs.values()) or not readable(graph, ranks):
        pytest.skip("compares runs, or lacks a table")
    wanted = wanted_nodes(config, outputs=True)
    declined = declined_stages(graph, graph.nodes)
    cut = next(cuts_for_devices(graph, [ranks], wanted, declined, count=16, part=1), None)
    if cut is None:
        pytest.skip("needs rows that no shard leaves, or has a state that a GPU declines")
    tables = input_tables(config, graph, [ranks])
    work = cut.work(graph, [ranks], lambda: nullcontext(device))
    tables |= work.results(*run_in_turn(work, cut.shards, at_once=1))
    with CpuEngine() as cpu:
        found = collect_wanted(graph, tables, wanted, cpu.collect)[1]
        expected = run_graph(config, graph, [ranks], cpu, outputs=True)
    for name, rows in expected.items():
        assert_frame_equal(found[name], rows, rel_tol=1e-9)
    return cut.placement


def test_shards_have_the_memory_that_a_run_at_once_had(ranks, monkeypatch):
    from pasta.pipeline.engines.cuda_device import CudaDevice

    monkeypatch.setattr(device_shards, "LEAST_ROWS", 1)
    evaluate, limits = CudaDevice.evaluate, []

    def fail_first(self, plan):
        if len(limits) > 1:
            return evaluate(self, plan)
        self.xp.zeros(8 << 30, self.xp.uint8)
        raise MemoryError

    def opened():
        device = gpu._open_gpu()
        limits.append(device.memory())
        return device

    monkeypatch.setattr(CudaDevice, "evaluate", fail_first)
    with GpuEngine(EngineOptions(), opened) as engine:
        run_graph(*api.check("kernel_frequency"), [ranks], engine)
    assert "shard" in engine.notes[-1]
    assert limits[1] > limits[0] - (1 << 30)


def test_what_a_failed_run_held_is_there_for_the_next(sources, monkeypatch):
    """Memory that its traceback holds goes when a device is opened again."""
    config, graph = api.check("operator_time")

    def fail(self, _plan):
        held = [self.xp.zeros(1 << 30, self.xp.uint8)]
        held.append(held)
        raise MemoryError

    from pasta.pipeline.engines.cuda_device import CudaDevice

    with GpuEngine(EngineOptions()) as engine:
        before = engine._memory()
        with monkeypatch.context() as patch:
            patch.setattr(CudaDevice, "evaluate", fail)
            with pytest.raises(EngineError, match="did not suffice"):
                run_graph(config, graph, [sources["gpt_cpu"]], engine)
        engine._bytes = None
        assert engine._memory() > before - (1 << 29)


def test_too_little_memory_is_one_line_with_the_size_that_was_needed(sources, monkeypatch):
    monkeypatch.setattr(device_memory, "SHARE", 1e-6)
    config, graph = api.check("operator_time")
    with GpuEngine(EngineOptions()) as engine:
        with pytest.raises(EngineError, match=r"suffice: \d+\.\d\d GiB were needed") as caught:
            run_graph(config, graph, [sources["gpt_cpu"]], engine)
        assert "\n" not in str(caught.value)
        monkeypatch.undo()
        assert run_graph(config, graph, [sources["gpt_cpu"]], engine)


def test_a_cluster_gives_the_same_and_its_starter_has_no_cuda_context(sources, tmp_path):
    pytest.importorskip("dask_cuda", reason="dask-cuda is not installed (extra gpu)")
    (tmp_path / "program.py").write_text(ON_A_CLUSTER)
    varied = write_trace(tmp_path / "varied", **PLANTED["variability"])
    done = subprocess.run(
        [sys.executable, tmp_path / "program.py", sources["memory_run"].trace.path, varied.path],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
