"""Stage `layer_names`: what layer of a model a span is, of which type, and the shapes of its inputs."""

from __future__ import annotations

import polars as pl

from pasta.pipeline.columns import require
from pasta.pipeline.stage import stage

_PREFIX = r"^(nn\.Module: |autograd::engine::evaluate_function: )"
_QUALIFIED = r"^(.+) \(([^()]+)\)$"
_NUMBERED = r"^(.+)_[0-9]+$"


@stage("layer_names", row_wise=True)
def layer_names(spans: pl.LazyFrame) -> pl.LazyFrame:
    """Add `layer`, the name of the layer that a span is, `type`, what kind of layer that is, and `shapes`.

    - Modules as pasta records them, `blocks.0.norm (LayerNorm)`: layer `blocks.0.norm`, type
      `LayerNorm`.
    - Modules as PyTorch's profiler names them, `nn.Module: LayerNorm_3`: layer `LayerNorm_3`,
      type `LayerNorm`.
    - Operators: both are the name, of `autograd::engine::evaluate_function: X` they are `X`.

    Args:
        spans: rows with `level`, `name` and `input_shapes`.

    Returns:
        The rows with these columns; `shapes` are those of inputs that are tensors, as one text, null where none is
        known.

    YAML: `named: {use: layer_names, from: calls}`
    """
    require(spans, ["level", "name", "input_shapes"], "spans")
    text = pl.col("name").str.replace(_PREFIX, "")
    module = pl.col("level") == "module"
    tensors = pl.col("input_shapes").list.filter(pl.element() != "")
    path, kind = (text.str.extract(_QUALIFIED, group) for group in (1, 2))
    return spans.with_columns(
        layer=pl.when(module).then(pl.coalesce(path, text)).otherwise(text),
        type=pl.when(module)
        .then(pl.coalesce(kind, text.str.extract(_NUMBERED, 1), text))
        .otherwise(text),
        shapes=pl.when(tensors.list.len() > 0).then(tensors.list.join(", ")),
    )
