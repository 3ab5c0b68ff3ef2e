"""The check for cudf-polars, which needs no GPU; skipped where cudf-polars is not installed."""

from __future__ import annotations

import polars as pl
import pytest

from pasta import api
from pasta.pipeline.engines.gpu_check import graph_problems, plan_problems
from pasta.tools.shipped import shipped_tools

pytestmark = pytest.mark.gpu_check
pytest.importorskip("cudf_polars", reason="cudf-polars is not installed (extra gpu)")

ROWS = pl.LazyFrame({"a": [1, 2, 3, 4, 5, 6], "b": ["x", "y"] * 3})


def test_a_plan_that_streams_has_no_problem():
    assert plan_problems(ROWS.filter(pl.col("a") > 1).group_by("b").agg(pl.col("a").sum())) == []


def test_a_median_collapses_to_one_partition():
    problems = plan_problems(ROWS.group_by("b").agg(pl.col("a").median()))
    assert len(problems) == 1
    assert problems[0].startswith("one partition: ")


def test_python_code_is_declined():
    plan = ROWS.select(pl.col("a").map_elements(hash, return_dtype=pl.Int64))
    assert plan_problems(plan)[0].startswith("declined, runs on the CPU: ")


@pytest.mark.parametrize("tool", list(shipped_tools()))
def test_nothing_of_a_shipped_tool_is_declined(tool):
    _, graph = api.check(tool)
    declined = [problem for problem in graph_problems(graph) if "declined" in problem]
    assert declined == []
