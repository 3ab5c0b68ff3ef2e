"""Slices of time change no result of the cpu engine, and only large intervals' graphs are cut."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pasta import api
from pasta.pipeline.config import parse_config
from pasta.pipeline.engines.auto import AutoEngine
from pasta.pipeline.engines.base import EngineOptions
from pasta.pipeline.engines.cpu import CpuEngine
from pasta.pipeline.engines.slice_tasks import SliceWork
from pasta.pipeline.run import Source, run_graph
from pasta.pipeline.slicing import cut_slices, find_slicing
from pasta.pipeline.wiring import build_graph
from pasta.tools.shipped import ToolFiles
from pasta.trace import RANK_FOLDER, Trace
from pasta.yaml_text import read_yaml
from tests.pipeline.engines.ranks import trace_of_ranks, write

HEAD = "{version: 1, tool: t, about: A., inputs: {kernels: {table: kernel}, copies: {table: copy, optional: true}}, report: [{table: r}], stages: "
TOUCHING = "p: {use: busy, from: kernels, by: [trace, rank, device]}"
BOTH = "both: {use: overlap, from: [kernels, copies], by: [trace, rank], keep: left_only}"


def intervals(rank: int, rows: int, seed: int) -> pl.DataFrame:
    """Return intervals with equal starts, without length, unfinished, and some that last for long."""
    random = np.random.default_rng(seed)
    durations = random.choice([0, 1, 3, 10, 40], rows)
    durations[random.integers(0, rows, 2)] = 700
    unfinished = random.random(rows) < 0.1
    return pl.DataFrame(
        {
            "rank": np.full(rows, rank, np.int32),
            "pid": np.full(rows, 1),
            "device": random.integers(0, 2, rows).astype(np.int32),
            "ts": np.sort(random.integers(0, 12 * rows, rows) // 20 * 20),
            "dur": durations,
            "launch_id": np.arange(rows, dtype=np.uint64),
        }
    ).with_columns(dur=pl.when(pl.lit(pl.Series(unfinished))).then(None).otherwise("dur"))


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> dict[str, list[Source]]:
    """One rank, several of unlike sizes, and the shipped ones."""
    base = tmp_path_factory.mktemp("slices")
    for name, sizes in (("one", [900]), ("several", [900, 40, 500])):
        for rank, rows in enumerate(sizes):
            kernels = intervals(rank, rows, rank)
            folder = base / name / RANK_FOLDER.format(rank)
            write(kernels, "kernel", folder / "kernel")
            write(kernels[::7], "collective", folder / "collective")
            write(intervals(rank, rows // 3, 9 + rank), "copy", folder / "copy")
        (base / name / "trace.json").write_text(json.dumps({"schema_version": 1}))
    shipped = trace_of_ranks(base / "shipped", 3)
    found = {name: [Source(name, Trace.open(base / name))] for name in ("one", "several")}
    return {**found, "shipped": [Source("s", shipped)]}


def graph_of(stages: str):
    config = parse_config(read_yaml(HEAD + stages + "}"))
    return config, build_graph(config, {}, ToolFiles().included)


@pytest.mark.parametrize("rows", [1, 200, 700])
@pytest.mark.parametrize("name", ["one", "several", "shipped"])
@pytest.mark.parametrize("outputs", [False, True])
def test_device_time_is_the_same_on_any_slices(sources, name, rows, outputs):
    config, graph = api.check("device_time")
    whole, sliced = CpuEngine(), CpuEngine(part_rows=rows)
    slicing = find_slicing(graph, ["devices"])
    assert slicing is not None
    assert len(cut_slices(graph, sources[name], slicing, rows)) > 1
    expected = run_graph(config, graph, sources[name], whole, outputs=outputs)
    found = run_graph(config, graph, sources[name], sliced, outputs=outputs)
    assert list(found) == list(expected)
    for node, table in expected.items():
        assert table.height
        assert_frame_equal(found[node], table)


@pytest.mark.parametrize(
    "stages",
    [
        f"{{{TOUCHING}, r: {{use: aggregate, from: p, by: [trace, rank], measures: {{n: count(*), most: max(dur), first: min(ts), all: sum(dur)}}}}}}",
        f"{{{TOUCHING}, long: {{use: filter, from: p, where: dur > 30}}, r: {{use: top, from: long, by: dur, n: 7}}}}",
        f"{{{TOUCHING}, r: {{use: derive, from: p, columns: {{x: dur / sum(dur)}}}}}}",
        f"{{{BOTH}, r: {{use: aggregate, from: both, by: [trace], measures: {{n: count(*), all: sum(dur)}}}}}}",
        f"{{{BOTH}, {TOUCHING}, r: {{use: concat, from: [both, p]}}}}",
        "{p: {use: busy, from: kernels, by: []}, r: {use: aggregate, from: p, measures: {n: count(*)}}}",
        "{some: {use: filter, from: kernels, where: device = 1}, p: {use: busy, from: some, by: [device]}, r: {use: sort, from: p, by: dur}}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["one", "several"])
def test_what_follows_stages_of_intervals_is_the_same(sources, name, stages):
    config, graph = graph_of(stages)
    expected = run_graph(config, graph, sources[name], CpuEngine())["r"]
    found = run_graph(config, graph, sources[name], CpuEngine(part_rows=170))["r"]
    assert expected.height
    assert_frame_equal(found, expected)


@pytest.mark.parametrize(
    "stages",
    [
        "{r: {use: sort, from: kernels, by: ts}}",
        "{r: {use: busy, from: kernels, by: [rank], gaps: true}}",
        "{r: {use: busy, from: kernels, by: [rank], start: launch_ts}}",
        "{d: {use: derive, from: kernels, columns: {dur: dur + 1}}, r: {use: busy, from: d, by: [rank]}}",
        "{d: {use: derive, from: kernels, columns: {n: count(*)}}, r: {use: busy, from: d, by: [rank]}}",
        "{d: {use: join, from: [kernels, copies], on: correlation}, r: {use: busy, from: d, by: [rank]}}",
        "{d: {use: busy, from: kernels, by: [rank]}, k: {use: join, from: [kernels, d], on: rank, how: semi}, r: {use: coverage, from: k, by: [rank], kind: name, kinds: [a]}}",
    ],
)  # fmt: skip
def test_other_graphs_are_not_cut(stages):
    _, graph = graph_of(stages)
    slicing = find_slicing(graph, ["r"])
    assert slicing is None or "r" not in slicing.timed


def test_only_sums_are_held_of_what_is_not_asked_for(sources):
    _, graph = api.check("device_time")
    slicing = find_slicing(graph, ["devices"])
    assert slicing is not None
    assert (slicing.whole, dict(slicing.combined)) == ((), {"sums": "pieces"})
    assert slicing.timed == {"pieces": {"kernels", "copies"}}
    slices = cut_slices(graph, sources["one"], slicing, 200)
    rows, states = SliceWork(graph, slicing).run(slices[1], 1, None)
    assert rows["pieces"].height == 2 * 2
    assert states["sums"].height == 2
    wanted = find_slicing(graph, ["devices", "pieces"])
    assert wanted is not None
    assert wanted.whole == ("pieces",)


def test_small_traces_and_unknown_times_are_not_cut(sources, tmp_path):
    _, graph = graph_of(f"{{{TOUCHING}}}")
    slicing = find_slicing(graph, ["p"])
    assert slicing is not None
    assert cut_slices(graph, sources["one"], slicing, 900) == []
    timeless = pl.DataFrame({"rank": [0] * 400, "ts": [None, *range(399)], "dur": [4] * 400}, schema_overrides={"rank": pl.Int32})  # fmt: skip
    write(timeless, "kernel", tmp_path / "kernel")
    (tmp_path / "trace.json").write_text(json.dumps({"schema_version": 1}))
    assert cut_slices(graph, [Source("t", Trace.open(tmp_path))], slicing, 100) == []


def test_without_a_gpu_auto_slices_too(sources, monkeypatch):
    ran, run_parts = [], CpuEngine.run_parts
    monkeypatch.setattr(CpuEngine, "run_parts", lambda *given: ran.append(given) or run_parts(*given))  # fmt: skip
    config, graph = api.check("device_time")
    engine = AutoEngine(EngineOptions(), without_gpu=lambda: "there is none")
    assert "devices" in run_graph(config, graph, sources["one"], engine)
    assert len(ran) == 1
