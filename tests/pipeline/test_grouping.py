"""Which stages run on cuts of combined states."""

from __future__ import annotations

import pytest

from pasta.pipeline.config import parse_config
from pasta.pipeline.grouping import Grouping, find_grouping
from pasta.pipeline.placement import place
from pasta.pipeline.placement_text import describe
from pasta.pipeline.wiring import build_graph
from pasta.tools.shipped import ToolFiles
from pasta.yaml_text import read_yaml

HEAD = "{version: 1, tool: t, about: A., inputs: {kernels: {table: kernel}}, report: [], stages: "
COUNTS = (
    "counts: {use: value_counts, from: kernels, by: [trace, name, stream], value: dur, tick: tick}"
)
SUMS = "sums: {use: aggregate, from: kernels, by: [trace, rank, name], measures: {n: count(*), ns: sum(dur)}}"


def grouped(stages: str, *wanted: str) -> Grouping | None:
    graph = build_graph(
        parse_config(read_yaml(HEAD + "{" + stages + "}}")), {}, ToolFiles().included
    )
    return find_grouping(graph, wanted, place(graph, wanted, by_rank=False))


def test_states_that_meet_are_cut_by_the_keys_that_they_share():
    spread = (
        "spread: {use: spread, from: counts, by: [trace, name, stream], value: dur, tick: tick}"
    )
    both = "both: {use: join, from: [sums, spread], on: [name], columns: [median]}"
    by_rank = "by_rank: {use: aggregate, from: both, by: [trace, rank], measures: {ns: sum(ns)}}"
    found = grouped(f"{COUNTS}, {SUMS}, {spread}, {both}, {by_rank}", "by_rank", "spread")
    assert found == Grouping(
        keys=("name", "trace"),
        cut=("counts", "sums"),
        nodes=("spread", "both"),
        shipped=("spread",),
        combined=("by_rank",),
    )


@pytest.mark.parametrize(
    ("stage", "shipped"),
    [
        ('{use: derive, from: sums, columns: {mean: "ns / n"}}', "sums"),
        ('{use: derive, from: sums, columns: {share: "ns / sum(ns) over (partition by trace)"}}', "sums"),
        ("{use: sort, from: sums, by: [ns, trace, rank, name]}", "sums"),
        ("{use: aggregate, from: sums, by: [trace, name], measures: {m: median(ns)}}", "last"),
        ("{use: join, from: [sums, sums], on: [rank, name], columns: {m: ns}}", "last"),
    ],
)  # fmt: skip
def test_what_is_shipped_can_be_put_in_order(stage, shipped):
    found = grouped(f"{SUMS}, last: {stage}", "last")
    assert found is not None
    assert found.shipped == (shipped,)


@pytest.mark.parametrize(
    "stages",
    [
        f"{COUNTS}, last: {{use: filter, from: counts, where: dur > 3}}",
        "last: {use: aggregate, from: kernels, by: [trace], measures: {n: count(*)}}",
        "last: {use: aggregate, from: kernels, measures: {n: count(*)}}",
        "last: {use: top, from: kernels, by: dur, n: 3}",
        "last: {use: sort, from: kernels, by: [dur]}",
    ],
)
def test_states_are_whole_where_their_order_would_be_lost_or_no_key_parts_them(stages):
    assert grouped(stages, "last") is None


def test_a_column_in_place_of_a_key_ends_what_runs_on_cuts():
    renamed = "renamed: {use: derive, from: sums, columns: {name: \"concat('k', name)\"}}"
    least = "least: {use: aggregate, from: renamed, by: [trace, name], measures: {ns: min(ns)}}"
    found = grouped(f"{SUMS}, {renamed}, {least}", "least")
    assert found is not None
    assert (found.keys, found.nodes, found.combined) == (
        ("rank", "trace"),
        ("renamed",),
        ("least",),
    )


def test_the_check_says_what_may_run_on_cuts():
    sums = "sums: {use: aggregate, from: kernels, by: [trace, name], measures: {ns: sum(dur)}}"
    last = "last: {use: aggregate, from: sums, by: [trace], measures: {ns: max(ns)}}"
    stages = HEAD + "{" + f"{sums}, {last}" + "}}"
    graph = build_graph(parse_config(read_yaml(stages)), {}, ToolFiles().included)
    states, cuts = describe(graph, ["last"])
    assert states == "stages.sums: combined: a state for each shard"
    assert cuts == (
        "stages.last: combined: a state for each cut of states by name, trace where they are large,"
        " else one worker (the caller)"
    )
