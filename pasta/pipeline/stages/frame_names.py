"""Stage `frame_names`: what people call the function of a frame, and its Python module."""

from __future__ import annotations

import polars as pl

from pasta.pipeline.columns import require
from pasta.pipeline.stage import stage
from pasta.pipeline.stages.call_stacks import short_name

_PACKAGES = r"^.*/(?:site-packages|dist-packages|lib/python[0-9.]+)/"
_ENDING = r"(?:/__init__)?\.pyx?$"


@stage("frame_names", row_wise=True)
def frame_names(frames: pl.LazyFrame) -> pl.LazyFrame:
    """Add `symbol` and `module` to frames of call stacks.

    Args:
        frames: rows of `frame`.

    Returns:
        The rows with `symbol`, the function, of C++ without arguments and parameters of templates, `?` where
        it is not known; and `module`, of a Python function the dotted name that its file has below the folder
        of packages (`torch.nn.modules.linear`), or all of its path (`home.me.train`), of others empty.

    YAML: `named: {use: frame_names, from: frames}`
    """
    require(frames, ["function", "file", "language"])
    function = pl.col("function").fill_null("?")
    path = pl.col("file").fill_null("").str.replace_all("\\", "/", literal=True)
    module = path.str.replace(_PACKAGES, "").str.replace(_ENDING, "").str.strip_chars("/.")
    dotted = module.str.replace_all("/", ".", literal=True)
    return frames.with_columns(
        symbol=pl.when(pl.col("language") == "c++").then(short_name(function)).otherwise(function),
        module=pl.when(pl.col("language") == "python").then(dotted).otherwise(pl.lit("")),
    )
