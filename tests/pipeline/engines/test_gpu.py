"""The gpu engine and the choice of an engine, with stand-ins for the GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import weakref
from pathlib import Path

import polars as pl
import pytest

import pasta
from pasta import api
from pasta.errors import ConfigError, EngineError
from pasta.pipeline.config import parse_config
from pasta.pipeline.device_rows import TooManyRowsError
from pasta.pipeline.engines import auto, choice, dask_cuda, device_shards, gpu
from pasta.pipeline.engines.auto import AutoEngine
from pasta.pipeline.engines.base import EngineOptions
from pasta.pipeline.engines.cuda_device import rows_counted
from pasta.pipeline.engines.gpu import GpuEngine, input_bytes
from pasta.pipeline.engines.rehearsal import Rehearsal
from pasta.pipeline.run import Source, run_graph
from pasta.tools.shipped import SHIPPED_TRACE
from pasta.trace import Trace

ROOT = Path(__file__).parents[3]
TOOL = "operator_time"
KERNELS = SHIPPED_TRACE.parent / "gpt_h100"


class Card(Rehearsal):
    """A stand-in that fails as it is told, and knows whether it was closed."""

    def __init__(self, failure=None):
        super().__init__()
        self.failure, self.closed = failure, False

    def evaluate(self, plan):
        if self.failure is not None:
            raise self.failure
        return super().evaluate(plan)

    def shortage(self):
        return "81.00 GiB were needed at once"

    def close(self):
        self.closed = True


@pytest.fixture
def declines(monkeypatch):
    """What the GPU declines; nothing unless a test adds to it."""
    found: dict[str, str] = {}
    monkeypatch.setattr(gpu, "declined_stages", lambda _graph, _names: found)
    return found


@pytest.fixture
def cards(monkeypatch):
    """The stand-ins that were opened; the engine `gpu` opens these."""
    opened = []

    def use(card=None):
        def open_card():
            opened.append(card or Card())
            return opened[-1]

        monkeypatch.setitem(choice.ENGINES, "gpu", lambda options: GpuEngine(options, open_card))
        return opened

    return use


@pytest.mark.usefixtures("declines")
def test_a_report_of_the_gpu_is_that_of_the_cpu_and_says_how_it_ran(cards):
    opened = cards()
    found, expected = (pasta.run(TOOL, engine=engine) for engine in ("gpu", "cpu"))
    assert found.facts == pytest.approx(expected.facts)
    assert found.engine == "gpu"
    assert any(n.startswith("engine gpu: ") and n.endswith("in memory") for n in found.notes)
    (card,) = opened
    assert card.closed


@pytest.mark.usefixtures("declines")
def test_a_large_input_that_cannot_be_cut_runs_in_memory_if_it_fits(cards, monkeypatch):
    cards()
    monkeypatch.setattr(gpu, "IN_MEMORY_SHARE", 0)
    assert pasta.run(TOOL, engine="gpu").notes[-1].endswith("in memory")


@pytest.mark.usefixtures("declines")
def test_the_memory_of_the_device_decides_what_is_cut(cards, monkeypatch):
    size = input_bytes(api.check(TOOL)[1], [Source("a", Trace.open(SHIPPED_TRACE))])
    cards()
    tried = []
    monkeypatch.setattr(
        gpu, "cuts_for_devices", lambda *_given, part, **_: tried.append(part) or ()
    )
    for memory in (16 * size, 16 * size - 1):
        monkeypatch.setattr(Card, "memory", lambda _self, memory=memory: memory)
        pasta.run(TOOL, engine="gpu")
    assert tried == [pytest.approx(1)]


def test_too_many_rows_are_told_from_other_overflows():
    with pytest.raises(TooManyRowsError, match="at once, 2,147,483,647"), rows_counted():
        raise OverflowError("concatenate.cu: Total number of rows exceeds the column size limit")
    with pytest.raises(OverflowError, match="too large"), rows_counted():
        raise OverflowError("int too large")


def test_a_cluster_tells_too_many_rows_from_too_little_memory():
    with pytest.raises(EngineError, match="more rows; use --engine cpu"), dask_cuda._failures():
        raise TooManyRowsError("more rows")


TOO_MANY = TooManyRowsError("a table has more rows than the GPU takes at once")


def test_a_declined_stage_is_an_error_that_says_what_to_do(cards, declines):
    opened = cards()
    declines["nested"] = "no sums"
    with pytest.raises(
        EngineError, match=r"the GPU declines stages\.nested .no sums.; .*--off-gpu"
    ):
        pasta.run(TOOL, engine="gpu")
    assert opened == []


def test_a_declined_stage_runs_on_the_cpu_where_the_caller_allows_it(cards, declines):
    cards()
    declines[next(iter(api.check(TOOL)[1].nodes))] = "no sums"
    report = pasta.run(TOOL, engine="gpu", off_gpu="cpu")
    assert report.facts == pytest.approx(pasta.run(TOOL, engine="cpu").facts)
    assert "ran on the CPU, as the GPU declines it (no sums)" in report.notes[-1]


def test_a_tool_may_allow_the_cpu_itself(cards, declines, tmp_path):
    cards()
    declines["n"] = "no counts"
    lines = [
        "version: 1", "tool: t", "about: A.", "off_gpu: cpu", "inputs: {spans: {table: span}}",
        "stages:", "  n: {use: aggregate, from: spans, measures: {n: count(*)}}",
        "report: [{facts: n}]",
    ]  # fmt: skip
    (tmp_path / "t.yaml").write_text("\n".join(lines))
    report = pasta.run(str(tmp_path / "t.yaml"), engine="gpu")
    assert report.facts["n"] > 0
    assert "rows moved" in report.notes[-1]


@pytest.mark.usefixtures("declines")
def test_the_device_is_opened_once(cards):
    opened = cards()
    config, graph = api.check(TOOL)
    sources = [Source("gpt_cpu", Trace.open(SHIPPED_TRACE))]
    with choice.engine_of("gpu", EngineOptions()) as engine:
        for _ in range(2):
            run_graph(config, graph, sources, engine)
        assert [card.closed for card in opened] == [False]
    assert opened[0].closed


@pytest.mark.usefixtures("declines")
def test_nothing_refers_to_a_device_that_failed_when_the_next_is_opened(monkeypatch):
    """Its memory is there for that one."""
    alive, failed = [], []

    def open_card():
        alive.append([card() for card in failed])
        card = Card(None if failed else MemoryError())
        failed.append(weakref.ref(card))
        return card

    monkeypatch.setattr(device_shards, "declined_stages", lambda _graph, _names: {})
    monkeypatch.setattr(device_shards, "LEAST_ROWS", 1)
    with GpuEngine(EngineOptions(), open_card) as engine:
        config, graph = api.check("kernel_frequency")
        run_graph(config, graph, [Source("gpt_h100", Trace.open(KERNELS))], engine)
        assert "shard" in engine.notes[-1]
    assert alive == [[], [None]]


def test_off_gpu_is_raise_or_cpu():
    with pytest.raises(ConfigError, match="off_gpu: expected raise or cpu, got 'gpu'"):
        parse_config({"version": 1, "tool": "t", "about": "A.", "off_gpu": "gpu"})


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (MemoryError("std::bad_alloc"), "did not suffice: 81.00 GiB were needed at once"),
        (TOO_MANY, "a table has more rows than the GPU takes at once; use --engine cpu or dask"),
        (RuntimeError("CUDA\nfailure"), "the gpu engine failed: CUDA failure"),
        (NotImplementedError("a slice"), "the gpu engine failed: a slice"),
        (pl.exceptions.ComputeError("deep"), "the gpu engine failed: deep"),
    ],
)
@pytest.mark.usefixtures("declines")
def test_a_failure_of_the_device_is_one_line_and_the_device_is_closed(cards, failure, message):
    opened = cards(Card(failure))
    with pytest.raises(EngineError) as caught:
        pasta.run(TOOL, engine="gpu")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert opened[0].closed


@pytest.mark.usefixtures("declines")
def test_a_device_that_cannot_be_opened_is_one_line():
    def broken():
        raise RuntimeError("no\ndriver")

    engine = GpuEngine(EngineOptions(), broken)
    with pytest.raises(EngineError, match=r"^the GPU cannot be used: no driver$"):
        engine.collect([pl.LazyFrame({"a": [1]})])


def test_plans_are_collected_one_by_one():
    engine = GpuEngine(EngineOptions(), Card)
    frames = engine.collect([pl.LazyFrame({"a": [1]}), pl.LazyFrame({"b": [2]})])
    assert [frame.rows() for frame in frames] == [[(1,)], [(2,)]]


def test_without_a_gpu_the_engine_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu, "_DRIVER", tmp_path / "none")
    with pytest.raises(EngineError, match="this machine has no NVIDIA GPU; use --engine cpu"):
        pasta.run(TOOL, engine="gpu")
    assert not dask_cuda.serves(EngineOptions())


def test_without_the_extra_the_engine_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu, "_DRIVER", tmp_path)
    monkeypatch.setattr(gpu, "_PACKAGES", ("no_such_package",))
    with pytest.raises(EngineError, match=r"no_such_package is not installed \(pip install"):
        GpuEngine(EngineOptions())


def test_the_size_of_an_input_is_that_of_its_files():
    trace = Trace.open(SHIPPED_TRACE)
    graph = api.check("kernel_frequency")[1]
    tables = {given.table for given in graph.inputs.values()}
    expected = sum(Path(f).stat().st_size for table in tables for f in trace.files(table))
    assert input_bytes(graph, [Source("a", trace)]) == expected > 0
    assert input_bytes(graph, [Source("a", trace), Source("b", trace)]) == expected


@pytest.fixture
def choosing(monkeypatch):
    """Make the engine `auto` choose with a stand-in for the GPU, or with a reason against it."""

    def use(reason=None, card=None):
        def gpu_engine(options):
            return GpuEngine(options, lambda: card or Card())

        monkeypatch.setitem(
            choice.ENGINES, "auto", lambda options: AutoEngine(options, gpu_engine, lambda: reason)
        )

    return use


def test_auto_runs_on_the_cpu_where_there_is_no_gpu(choosing):
    choosing("this machine has no NVIDIA GPU")
    report = pasta.run(TOOL)
    assert report.engine == "cpu"
    assert report.notes[-1] == "engine cpu: this machine has no NVIDIA GPU"


def test_auto_runs_small_inputs_on_the_cpu(choosing):
    choosing()
    report = pasta.run(TOOL)
    assert report.engine == "cpu"
    assert report.notes[-1].endswith("MB of Parquet are too few for the GPU to pay")


@pytest.mark.usefixtures("declines")
def test_auto_runs_large_inputs_on_the_gpu(choosing, monkeypatch):
    choosing()
    monkeypatch.setattr(auto, "LEAST_BYTES", 0)
    report = pasta.run(TOOL)
    assert report.engine == "gpu"
    assert report.facts == pytest.approx(pasta.run(TOOL, engine="cpu").facts)


def test_auto_asks_once_what_the_gpu_declines(choosing, monkeypatch):
    choosing()
    monkeypatch.setattr(auto, "LEAST_BYTES", 0)
    asked = []
    monkeypatch.setattr(gpu, "declined_stages", lambda _graph, names: asked.append(names) or {})
    assert pasta.run(TOOL).engine == "gpu"
    assert len(asked) == 1


@pytest.mark.parametrize("declined", [{}, {"nested": "no sums"}])
def test_auto_runs_on_the_cpu_what_the_gpu_declines_or_has_no_memory_for(
    choosing, declines, monkeypatch, declined
):
    choosing(card=Card(MemoryError()))
    declines.update(declined)
    monkeypatch.setattr(auto, "LEAST_BYTES", 0)
    report = pasta.run(TOOL)
    assert report.engine == "cpu"
    assert report.notes[-1].startswith("engine cpu: ")
    assert ("no sums" if declined else "81.00 GiB") in report.notes[-1]


@pytest.mark.parametrize("engine", ["auto", "cpu"])
def test_no_gpu_library_is_imported_for_a_run_on_the_cpu(engine):
    program = (
        "import sys, pasta; pasta.run('operator_time', engine=sys.argv[1]);"
        "heavy = {'cupy', 'cudf', 'cudf_polars', 'pylibcudf', 'rmm', 'dask', 'dask_cuda', 'pynvml'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, engine],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
