"""Stage `call_stacks`: each call stack as one text."""

from __future__ import annotations

from typing import Any

import polars as pl

from pasta.pipeline.columns import process_key, require
from pasta.pipeline.stage import WITHIN_PROCESS, Within, stage

_INTERPRETER = r"^(lib)?python[\d.]"
_NAMELESS = r"\(anonymous namespace\)(::)?"
_INNERMOST_BRACKETS = r"<[^<>]*>|\([^()]*\)"
_NESTED = 12
"""So deep are brackets in names of C++ taken away; what lies deeper stays."""


def _in_order(stacks: pl.LazyFrame, **_arguments: Any) -> pl.LazyFrame:
    return stacks.sort(process_key(stacks, within=["stack_id"]), maintain_order=True)


@stage("call_stacks", within=Within(WITHIN_PROCESS.keys, _in_order), order="own")
def call_stacks(
    frames: pl.LazyFrame, *, separator: str = " > ", places: bool = True, whole: bool = False
) -> pl.LazyFrame:
    """Render each call stack as one text, as in `main (train.py:9) > forward (model.py:4)`.

    A frame is its function, with file and line where they are known; names of C++ lose arguments
    and parameters of templates. Of a native stack below Python, what lies within the interpreter
    and outside of it is left out: Python's own stack says it better.

    Args:
        frames: rows of `frame`.
        separator: what stands between functions, and a comma in its place within their names.
        places: tell file and line.
        whole: keep the interpreter and what is outside of it.

    Returns:
        `trace` (where it is there), `rank`, `pid`, `stack_id` and `call_stack`, outermost function
        first; in order of the ids.

    YAML: `texts: {use: call_stacks, from: frames}`
    """
    key = process_key(frames, within=["stack_id"])
    require(frames, [*key, "depth", "function", "file", "line", "language", "library"])
    within = pl.col("library").str.contains(_INTERPRETER).fill_null(value=False)
    innermost = pl.col("depth").filter(within).max().over(key).fill_null(-1)
    shown = pl.lit(value=True) if whole else pl.col("depth") > innermost
    text = _text(places=places).str.replace_all(separator, ",", literal=True)
    return (
        frames.unique([*key, "depth"])
        .filter(shown)
        .sort(*key, "depth")
        .group_by(key, maintain_order=True)
        .agg(call_stack=text.str.join(separator))
    )


def _text(*, places: bool) -> pl.Expr:
    """Return a frame's text."""
    file = pl.col("file").fill_null("")
    place = pl.format(" ({}:{})", file.str.replace(r"^.*[/\\]", ""), pl.col("line").fill_null(0))
    function = pl.col("function").fill_null("?")
    name = pl.when(pl.col("language") == "c++").then(short_name(function)).otherwise(function)
    if not places:
        return name
    return name + pl.when(file == "").then(pl.lit("")).otherwise(place)


def short_name(function: pl.Expr) -> pl.Expr:
    """Return a C++ function's name without what stands in brackets."""
    name = function.str.replace_all(_NAMELESS, "")
    for _ in range(_NESTED):
        name = name.str.replace_all(_INNERMOST_BRACKETS, "")
    return name.str.strip_suffix(" const")
