"""The check for cudf-polars, which needs no GPU; skipped where cudf-polars is not installed."""

from __future__ import annotations

import polars as pl
import pytest

from pasta import api
from pasta.pipeline.engines.gpu_check import collapses, declined, graph_problems
from pasta.tools.shipped import shipped_tools

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


@pytest.mark.parametrize("tool", list(shipped_tools()))
def test_nothing_of_a_shipped_tool_is_declined_unless_it_says_so(tool):
    config, graph = api.check(tool)
    declined = [problem for problem in graph_problems(graph) if "declined" in problem]
    assert bool(declined) == (config.off_gpu == "cpu")
