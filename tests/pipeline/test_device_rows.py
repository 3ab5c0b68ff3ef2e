"""Array stages give the same by the way they take on a device."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pasta.pipeline import frames
from pasta.pipeline.columns import frame, number_groups
from pasta.pipeline.device_rows import DeviceRows
from pasta.pipeline.engines.rehearsal import Rehearsal

ROWS = pl.DataFrame({"a": [3, 1, None, 1], "b": ["x", None, "x", "y"]})


@pytest.fixture
def held():
    device = Rehearsal()
    return DeviceRows.holding(device, ROWS)


def test_a_plan_is_run_once_and_then_held():
    runs = []
    device = Rehearsal(lambda plan: runs.append(plan) or [])
    rows = DeviceRows(device, ROWS.lazy().filter(pl.col("a") == 1))
    assert not runs
    assert rows.height == 2
    assert rows.to_polars()["b"].to_list() == [None, "y"]
    assert len(runs) == 1
    assert_frame_equal(rows.lazy().collect(), ROWS.filter(pl.col("a") == 1))


def test_what_is_held_is_a_source_of_plans(held):
    plan = held.lazy().filter(pl.col("b") == "x").select("b", double=pl.col("a") * 2)
    assert plan.collect().rows() == [("x", 6), ("x", None)]
    assert held.lazy().head(2).collect().height == 2
    assert held.lazy().select(pl.len()).collect().item() == 4
    assert held.lazy().select(rows=pl.len().cast(pl.Int64)).collect().item() == 4


@pytest.mark.parametrize(
    "step",
    [
        lambda rows: rows.select("b"),
        lambda rows: rows.with_columns(c=pl.col("a") + 1),
        lambda rows: rows.filter(b="x"),
        lambda rows: rows.drop("b"),
        lambda rows: rows.drop_nulls("a"),
        lambda rows: rows.rename({"a": "z"}),
        lambda rows: rows.sort("a", "b"),
        lambda rows: rows.unique("b", keep="first", maintain_order=True),
        lambda rows: rows.group_by("b").agg(pl.col("a").sum()).sort("b"),
        lambda rows: rows.join(rows.select("b"), on="b", how="left", maintain_order="left_right"),
        lambda rows: frames.gather(rows, np.array([3, 0, 3])),
        lambda rows: frames.gather_known(rows, np.array([3, -1])),
        lambda rows: frames.with_arrays(rows, a=np.arange(4), c=np.arange(4) > 1),
        lambda rows: frames.with_columns_of(rows, rows.select(b="a", c="b")),
        lambda rows: frames.stacked([rows, rows.filter(a=1)]),
        lambda rows: frames.beside(rows, rows.select(c="a")),
        lambda rows: frames.from_arrays({"c": np.arange(2)}, like=rows),
    ],
)
def test_each_step_does_what_it_does_on_a_polars_frame(held, step):
    assert_frame_equal(step(held).to_polars(), step(ROWS))


def test_columns_become_arrays(held):
    for rows in (held, ROWS):
        assert frames.column_array(rows, pl.col("a").fill_null(7)).tolist() == [3, 1, 7, 1]
        assert frames.mask(rows, pl.col("a") == 1).tolist() == [False, True, False, True]


@pytest.mark.parametrize("by", [[], ["a"], ["b"], ["a", "b"]])
def test_groups_are_numbered_alike(by):
    other = pl.DataFrame({"a": [None, 9, 3], "b": ["y", "x", "x"]})
    keys, numbers = number_groups(by, ROWS, other)
    device = Rehearsal()
    held = [DeviceRows.holding(device, rows) for rows in (ROWS, other)]
    found, codes = number_groups(by, *held)
    assert [each.tolist() for each in codes] == [each.tolist() for each in numbers]
    columns = {"c": np.arange(4)}
    assert_frame_equal(
        frame(found, codes[0], columns).to_polars(), frame(keys, numbers[0], columns)
    )


def test_one_group_has_no_constant_taken_for_varying(held):
    rows = frames.with_arrays(held, k=np.ones(4, dtype=np.int64))
    keys, (codes,) = number_groups(["k"], rows)
    assert keys.to_polars().rows() == [(1,)]
    assert codes.tolist() == [0, 0, 0, 0]
