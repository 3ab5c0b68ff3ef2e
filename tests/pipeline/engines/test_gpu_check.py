"""The check for cudf-polars, which needs no GPU; skipped where cudf-polars is not installed."""

from __future__ import annotations

import polars as pl
import pytest

from pasta import api
from pasta.pipeline.engines import list_filters
from pasta.pipeline.engines.device_graph import DeviceGraph
from pasta.pipeline.engines.gpu_check import (
    _translated,
    collapses,
    declined,
    declined_stages,
    graph_problems,
)
from pasta.pipeline.engines.rehearsal import Rehearsal
from pasta.pipeline.run import Source, input_tables, wanted_nodes
from pasta.tools.shipped import SHIPPED_TRACE, shipped_tools
from pasta.trace import Trace
from tests.conftest import write_trace
from tests.tools.memory_run import ACCESSES, TABLES

pytestmark = pytest.mark.gpu_check
pytest.importorskip("cudf_polars", reason="cudf-polars is not installed (extra gpu)")

ROWS = pl.LazyFrame({"a": [1, 2, 3, 4, 5, 6], "b": ["x", "y"] * 3})


def test_a_plan_that_streams_has_no_problem():
    plan = ROWS.filter(pl.col("a") > 1).group_by("b").agg(pl.col("a").sum())
    assert declined(plan) == collapses(plan) == []


def test_a_median_collapses_to_one_partition():
    problems = collapses(ROWS.group_by("b").agg(pl.col("a").median()))
    assert len(problems) == 1


def test_python_code_is_declined():
    plan = ROWS.select(pl.col("a").map_elements(hash, return_dtype=pl.Int64))
    assert len(declined(plan)) == 1


def test_branches_of_two_types_are_declined():
    mixed = pl.when(pl.col("a").max() > 1).then(pl.lit(1)).otherwise(pl.lit(10**12))
    assert declined(ROWS.select(pl.col("a").max() <= mixed)) == [
        "a case with branches of types Int32 and Int64; cast one"
    ]
    same = pl.when(pl.col("a") > 1).then(pl.col("a")).otherwise(pl.lit(10**12))
    assert declined(ROWS.select(same)) == []


def test_nulls_that_are_lists_are_declined():
    lists = pl.LazyFrame(schema={"a": pl.Int64, "b": pl.String, "l": pl.List(pl.String)})
    under_one_another = pl.concat([ROWS.select("a"), lists], how="diagonal")
    assert declined(under_one_another) == ["a column of nulls of type List(String); leave it out"]
    assert declined(lists.filter(pl.col("b").is_in(["a", "b"]))) == []


def condition_of(plan):
    """The condition of a plan's only filter, as cudf-polars translated it."""
    from cudf_polars.dsl.traversal import traversal

    [mask] = [node.mask for node in traversal([_translated(plan)[1]]) if hasattr(node, "mask")]
    return mask.value


def test_conditions_on_lists_are_given_their_values():
    condition = condition_of(ROWS.filter(pl.sql_expr("b in ('x', 'z')")))
    assert condition.children[1].value.dtype == pl.List(pl.String)
    asked, values = list_filters.with_values(condition).children
    assert (asked.name, values.value.to_list()) == ("b", ["x", "z"])
    assert values.dtype.polars_type == pl.String
    assert list_filters.with_values(asked) is asked
    by_row = condition_of(ROWS.filter(pl.col("b").is_in(pl.lit(pl.Series([["x"], ["z"]] * 3)))))
    assert list_filters.with_values(by_row) is by_row


@pytest.mark.parametrize("tool", list(shipped_tools()))
def test_nothing_of_a_shipped_tool_is_declined_unless_it_says_so(tool):
    config, graph = api.check(tool)
    problems = graph_problems(graph, wanted_nodes(config, outputs=True))
    assert any("declined" in problem for problem in problems) == (config.off_gpu == "cpu")


def test_what_runs_once_is_told_once():
    """Four ways lead from `variability` to the spread of its kernels."""
    config, graph = api.check("variability")
    told = [line.split(":")[0] for line in graph_problems(graph, wanted_nodes(config, outputs=True))]  # fmt: skip
    assert [name.split(".")[-1] for name in told] == ["durations", "scattered", "cells"]


@pytest.mark.parametrize("tool", list(shipped_tools()))
def test_the_plans_of_a_whole_graph_are_translated_too(tool, tmp_path):
    traces = [
        Source("gpt_cpu", Trace.open(SHIPPED_TRACE)),
        Source("memory_run", write_trace(tmp_path / "t", **TABLES, access=ACCESSES)),
    ]
    config, graph = api.check(tool)
    needed = {given.table for given in graph.inputs.values() if not given.optional}
    fitting = [source for source in traces if needed <= set(source.trace.tables())]
    if not fitting or any(given.run for given in graph.inputs.values()):
        pytest.skip("no trace for it")
    device, wanted = Rehearsal(declined), wanted_nodes(config, outputs=True)
    running = DeviceGraph(graph, device, declined_stages(graph, graph.nodes))
    running.run(input_tables(config, graph, fitting), wanted)
    assert device.problems == []
    assert bool(running.notes) == (config.off_gpu == "cpu")
