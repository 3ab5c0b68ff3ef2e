"""`layer_names` takes apart what recorders call modules and operators."""

from __future__ import annotations

import polars as pl
import pytest

from pasta.pipeline.stages.layer_names import layer_names


@pytest.mark.parametrize(
    ("level", "name", "layer", "kind"),
    [
        ("module", "blocks.0.norm (LayerNorm)", "blocks.0.norm", "LayerNorm"),
        ("module", "nn.Module: LayerNorm_3", "LayerNorm_3", "LayerNorm"),
        ("module", "nn.Module: Conv_2d_12", "Conv_2d_12", "Conv_2d"),
        ("module", "GPT", "GPT", "GPT"),
        ("module", None, None, None),
        ("operator", "aten::add", "aten::add", "aten::add"),
        ("operator", "autograd::engine::evaluate_function: AddBackward0", "AddBackward0", "AddBackward0"),
        ("operator", "load (once)", "load (once)", "load (once)"),
        ("operator", "bucket_3", "bucket_3", "bucket_3"),
    ],
)  # fmt: skip
def test_names(level, name, layer, kind):
    spans = pl.LazyFrame(
        {"level": [level], "name": [name], "input_shapes": [["2x3", "", "4"]]},
        schema={"level": pl.String, "name": pl.String, "input_shapes": pl.List(pl.String)},
    )
    found = layer_names(spans).collect()
    assert found.select("layer", "type", "shapes").row(0) == (layer, kind, "2x3, 4")


@pytest.mark.parametrize("shapes", [None, [], ["", ""]])
def test_no_tensor_has_no_shape(shapes):
    schema = {"level": pl.String, "name": pl.String, "input_shapes": pl.List(pl.String)}
    spans = pl.LazyFrame([["operator", "aten::add", shapes]], schema=schema, orient="row")
    assert layer_names(spans).collect()["shapes"].to_list() == [None]
