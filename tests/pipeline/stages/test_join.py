"""`join` matches equal keys, and never an unknown id."""

from __future__ import annotations

import polars as pl
import pytest

from pasta.errors import ConfigError
from pasta.pipeline.stages.join import join

LEFT = pl.LazyFrame(
    {"id": [0, 1, 2, 2], "v": ["zero", "one", "two", "deux"]},
    schema_overrides={"id": pl.UInt64},
)
RIGHT = pl.LazyFrame(
    {"id": [0, 2, 2], "w": [0, 20, 21]},
    schema_overrides={"id": pl.UInt64},
)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", [("deux", 20), ("deux", 21), ("two", 20), ("two", 21)]),
        ("left", [("deux", 20), ("deux", 21), ("one", None), ("two", 20), ("two", 21), ("zero", None)]),
    ],
)  # fmt: skip
def test_an_id_of_zero_joins_with_nothing(how, expected):
    found = join(LEFT, RIGHT, on=["id"], how=how).collect().sort("v", "w")
    assert found.select("v", "w").rows() == expected


@pytest.mark.parametrize(("how", "expected"), [("semi", ["deux", "two"]), ("anti", ["one", "zero"])])  # fmt: skip
def test_filtering_joins(how, expected):
    assert sorted(join(LEFT, RIGHT, on=["id"], how=how).collect()["v"]) == expected
    with pytest.raises(ConfigError, match=f"columns: a join that is {how} takes none from right"):
        join(LEFT, RIGHT, on=["id"], how=how, columns=["w"])


def test_signed_keys_are_no_ids():
    signed = {"id": pl.Int64}
    found = join(LEFT.cast(signed), RIGHT.cast(signed), on=["id"]).collect()
    assert found.filter(id=0)["w"].to_list() == [0]


def test_renames_what_it_takes():
    right = RIGHT.with_columns(v=pl.lit("other"))
    found = join(LEFT, right, on={"id": "id"}, columns={"cost": "w"}).collect()
    assert found.columns == ["id", "v", "cost"]


def test_traces_are_kept_apart():
    left = LEFT.with_columns(trace=pl.lit("a"))
    right = pl.concat([RIGHT.with_columns(trace=pl.lit(t)) for t in ("a", "b")])
    assert join(left, right, on=["id"]).collect().height == 4


def test_a_null_id_joins_with_nothing_and_stays_null():
    left = pl.LazyFrame({"id": [None, 2], "v": [1, 2]}, schema_overrides={"id": pl.UInt64})
    found = join(left, RIGHT, on=["id"], how="left").collect().sort("v", "w")
    assert found.columns == ["id", "v", "w"]
    assert found.rows() == [(None, 1, None), (2, 2, 20), (2, 2, 21)]


def test_null_ids_do_not_split_the_rows_into_chunks_of_one():
    ids = pl.Series(range(20_000), dtype=pl.UInt64)
    left = pl.LazyFrame({"id": pl.repeat(None, 2_000, dtype=pl.UInt64, eager=True)})
    right = pl.LazyFrame({"id": ids, "w": ids})
    found = join(left, right, on=["id"], how="left").collect(engine="streaming")
    assert found.height == 2_000
    assert found.n_chunks() < 200
