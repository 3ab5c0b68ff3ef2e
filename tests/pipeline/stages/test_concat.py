"""`concat` puts inputs under one another."""

from __future__ import annotations

import polars as pl
import pytest

from pasta.errors import ConfigError
from pasta.pipeline.stages.concat import concat

LEFT = pl.LazyFrame({"a": [1], "b": ["x"]})
RIGHT = pl.LazyFrame({"a": [2], "c": [0.5]})


def test_missing_columns_are_null_and_inputs_are_labelled():
    found = concat(LEFT, RIGHT, label="what", values=["left", "right"]).collect()
    assert found.rows() == [(1, "x", None, "left"), (2, None, 0.5, "right")]
    assert found.schema["c"] == pl.Float64


def test_labels_must_match_inputs():
    with pytest.raises(ConfigError, match="one value for each of the 2 inputs"):
        concat(LEFT, RIGHT, label="what", values=["left"])
    with pytest.raises(ConfigError, match="label: needs the name of the column"):
        concat(LEFT, RIGHT, values=["left", "right"])
