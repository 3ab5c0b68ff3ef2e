"""`filter` keeps rows whose condition is true."""

from __future__ import annotations

import polars as pl

from pasta.pipeline.expressions import parse
from pasta.pipeline.stage import STAGES


def test_null_conditions_drop_the_row():
    rows = pl.LazyFrame({"dur": [1, None, 3]})
    found = STAGES.get("filter").function(rows, where=parse("dur > 0", "p", {}))
    assert found.collect()["dur"].to_list() == [1, 3]


def test_kind_depends_on_the_condition():
    stage = STAGES.get("filter")
    assert stage.kind({"where": parse("dur > 0", "p", {})}) == "row-wise"
    assert stage.kind({"where": parse("dur > avg(dur)", "p", {})}) == "whole"
