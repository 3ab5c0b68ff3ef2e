"""`derive` adds columns."""

from __future__ import annotations

import polars as pl

from pasta.pipeline.expressions import parse
from pasta.pipeline.stage import STAGES


def test_adds_and_replaces_from_the_input_only():
    columns = {"a": parse("a + 1", "p", {}), "b": parse("a * 10", "p", {})}
    found = STAGES.get("derive").function(pl.LazyFrame({"a": [1, 2]}), columns=columns)
    assert found.collect().to_dicts() == [{"a": 2, "b": 10}, {"a": 3, "b": 20}]


def test_an_aggregate_makes_it_whole():
    stage = STAGES.get("derive")
    assert stage.kind({"columns": {"x": parse("a + 1", "p", {})}}) == "row-wise"
    assert stage.kind({"columns": {"x": parse("a / sum(a)", "p", {})}}) == "whole"
