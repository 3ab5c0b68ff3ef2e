"""Stage `stack_filter`: which call stacks are meant, and which of their frames are left out."""

from __future__ import annotations

import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.columns import check_keys, require
from pasta.pipeline.stage import stage

_LINES = ("symbol", "library", "module")


@stage("stack_filter")
def stack_filter(
    frames: pl.LazyFrame, *, on: list[str], allow: str = "", deny: str = "", cut: str = ""
) -> pl.LazyFrame:
    """Tell of each frame whether its stack is allowed, and whether the frame itself is cut out of it.

    A pattern is a regular expression that is searched in three lines of each frame, `symbol:...`, `library:...`
    and `module:...`: `Attention` is found in any of them, `^library:libcuda|^module:torch[.]` in the library
    or the module. An empty pattern means nothing.

    Args:
        frames: with `symbol`, `library` and `module`, as `frame_names` gives them.
        on: columns that name a stack.
        allow: a stack is allowed if this is found in one of its frames.
        deny: it is not if this is found in one.
        cut: frames in which this is found are cut.

    Returns:
        The frames with `allowed` and `cut`.

    Raises:
        ConfigError: a column is absent, or a pattern is no regular expression.

    YAML: `judged: {use: stack_filter, from: frames, on: [stack], deny: "^symbol:idle$"}`
    """
    require(frames, _LINES)
    check_keys(frames, on, "on")
    if not on:
        raise ConfigError("on", "needs at least one column")
    allowed, denied, gone = (_found(name, text) for name, text in (("allow", allow), ("deny", deny), ("cut", cut)))  # fmt: skip
    return frames.with_columns(
        allowed=(allowed.any().over(on) if allow else pl.lit(value=True))
        & ~(denied.any().over(on) if deny else pl.lit(value=False)),
        cut=gone if cut else pl.lit(value=False),
    )


def _found(argument: str, pattern: str) -> pl.Expr:
    """Return whether a pattern is found in a frame."""
    anchored = f"(?m){pattern}"
    try:
        pl.Series([""]).str.contains(anchored)
    except pl.exceptions.ComputeError as error:
        raise ConfigError(argument, f"'{pattern}' is no regular expression: {error}") from None
    lines = [pl.lit(f"{name}:") + pl.col(name).fill_null("") for name in _LINES]
    return pl.concat_str(lines, separator="\n").str.contains(anchored)
