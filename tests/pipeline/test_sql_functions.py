"""The vocabulary of expressions: every example parses, every node has a spelling."""

from __future__ import annotations

import polars as pl
import pytest

from pasta.pipeline.expression_tree import nodes
from pasta.pipeline.expressions import parse
from pasta.pipeline.sql_functions import (
    AGGREGATE_NODES,
    CASTS,
    EXAMPLE_COLUMNS,
    FUNCTION_NODES,
    FUNCTIONS,
    OPERATORS,
)

SPELLINGS = [*FUNCTIONS.values(), *OPERATORS]
ROWS = pl.DataFrame(
    {
        "ts": [30, 10, 20],
        "dur": [4, 5, 9],
        "bytes": [8, 2, 4],
        "share": [0.25, 0.5, 0.75],
        "name": ["12", "7", "12"],
        "done": [True, False, True],
    }
)


def test_the_columns_of_examples():
    assert list(EXAMPLE_COLUMNS) == ROWS.columns
    assert all(isinstance(ROWS[name][0], kind) for name, kind in EXAMPLE_COLUMNS.items())


@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda spelling: spelling.example)
def test_every_example_parses_and_computes(spelling):
    assert ROWS.select(parse(spelling.example, "p", {}).alias("x")).height in (1, ROWS.height)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_stands_in_its_example(name):
    assert f"{name}(" in FUNCTIONS[name].example


def test_every_allowed_node_has_a_spelling():
    spelt = {node.name for s in SPELLINGS for node in nodes(parse(s.example, "p", {}))}
    assert spelt >= AGGREGATE_NODES | FUNCTION_NODES


@pytest.mark.parametrize(("sql", "kind"), CASTS.items())
def test_casts(sql, kind):
    rows = pl.DataFrame({"dur": [1]})
    assert rows.select(parse(f"cast(dur as {sql})", "p", {})).schema["dur"] == getattr(pl, kind)


@pytest.mark.gpu_check
@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda spelling: spelling.example)
def test_what_the_gpu_declines_is_said(spelling):
    pytest.importorskip("cudf_polars", reason="cudf-polars is not installed (extra gpu)")
    from pasta.pipeline.engines.gpu_check import declined

    plan = ROWS.lazy().select(parse(spelling.example, "p", {}).alias("x"))
    assert spelling.gpu is not bool(declined(plan))
