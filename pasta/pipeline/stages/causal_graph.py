"""Stage `causal_graph`: which columns go together also while others are held fixed, and how surely."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.columns import check_keys, check_new_names, require
from pasta.pipeline.frames import from_arrays, on_host
from pasta.pipeline.kernels.causality import Link, Moments, Tests, links
from pasta.pipeline.stage import Merge, stage

_SIZE = "# size"
_FEWEST_BLOCKS = 10
_STANDARD_ERRORS = 4.0
_SAME = 0.999
_RESULT: dict[str, Any] = {
    "first": pl.String,
    "second": pl.String,
    "verdict": pl.String,
    "correlation": pl.Float64,
    "partial": pl.Float64,
    "stability": pl.Float64,
    "direction_stability": pl.Float64,
    "rows": pl.Int64,
    "blocks": pl.Int64,
}


def _pairs(columns: list[str]) -> list[tuple[int, int]]:
    return list(itertools.combinations_with_replacement(range(len(columns)), 2))


def _moments(rows: Any, given: Mapping[str, Any]) -> Any:
    """Return sizes, sums and sums of products of each block, from which those of all rows add up."""
    columns, keys = given["columns"], [*given["by"], *given["block"]]
    values = [pl.col(name).cast(pl.Float64) for name in columns]
    known = rows.filter(pl.all_horizontal(value.is_not_null() for value in values))
    sums = [value.sum().alias(f"# {place}") for place, value in enumerate(values)]
    products = [(values[i] * values[j]).sum().alias(f"# {i} {j}") for i, j in _pairs(columns)]
    sizes = pl.len().cast(pl.Int64).alias(_SIZE)
    return known.group_by(*keys).agg(sizes, *sums, *products)


def _partial(rows: pl.LazyFrame, **given: Any) -> pl.LazyFrame:
    found: pl.LazyFrame = _moments(rows, given)
    return found


def _combine(states: pl.LazyFrame, **given: Any) -> pl.LazyFrame:
    keys = [*given["by"], *given["block"]]
    return states.group_by(*keys).agg(pl.all().sum())


def _final(state: pl.LazyFrame, **given: Any) -> pl.LazyFrame:
    kinds = state.collect_schema()
    schema = {**{name: kinds[name] for name in given["by"]}, **_RESULT}
    return state.map_batches(partial(_graphs, given=given), schema=schema)


@stage(
    "causal_graph",
    merge=Merge(_partial, _combine, _final),
    needs=lambda given: list(dict.fromkeys([*given["by"], *given["block"], *given["columns"]])),
    order="own",
)
def causal_graph(
    rows: pl.DataFrame,
    *,
    by: list[str],
    block: list[str],
    columns: list[str],
    first: list[str] = [],  # noqa: B006 (never mutated)
    last: list[str] = [],  # noqa: B006 (never mutated)
    least: float = 0.05,
    stable: float = 0.9,
    resamples: int = 100,
    fewest: int = 200,
) -> pl.DataFrame:
    """Find which columns are correlated also while others are held fixed, by the PC algorithm.

    Two columns are linked if no two or fewer of their neighbours, held fixed, leave a correlation below
    `least` or 4 standard errors of 0. Rows of a block are alike: blocks are drawn anew, each as often as
    chance has it, and how much correlations vary then tells the standard error. Only what holds in a share
    `stable` of these repetitions is claimed. All of it takes relations for linear and no common cause for left
    out; a link is no proof of a cause.

    Args:
        rows: rows with numbers; those with a null in one of `columns` do not count.
        by: columns that name a group, each with a graph of its own.
        block: columns that name a block of rows near each other, beside `by`.
        columns: the columns of numbers.
        first: those that nothing causes, as time.
        last: those that cause nothing, as what is to be explained.
        least: smallest correlation that counts.
        stable: share of the repetitions in which a link must be.
        resamples: repetitions.
        fewest: rows below which nothing is claimed.

    Returns:
        A row for each pair: columns `by`; `first` and `second`; `verdict`; `correlation`; `partial`, that of
        least size while others are held fixed; `stability` and `direction_stability`, the shares of
        repetitions with the link, and, of these, with its direction; `rows` and `blocks`. In order of
        `by`, and of `columns`. The verdict is `directed` (the first may cause the second),
        `linked`, `unstable`, `none`; or, where the data allow no claim, `too few rows`, `too few blocks`,
        `no variance` or `same` (both say the same).

    Raises:
        ConfigError: fewer than two columns, or one in `first` or `last` that is none of them.

    YAML: `{use: causal_graph, from: launches, by: [trace], block: [rank, tenth], columns: [copies, excess], last: [excess]}`
    """
    if len(columns) < 2:
        raise ConfigError("columns", "needs at least two")
    for name, given_columns in (("first", first), ("last", last)):
        if wrong := [column for column in given_columns if column not in columns]:
            raise ConfigError(name, f"'{wrong[0]}' is none of columns")
    require(rows, columns)
    check_new_names(by, "by")
    check_keys(rows.lazy(), [*by, *block], "block")
    given = {
        "by": by, "block": block, "columns": columns, "first": first, "last": last,
        "least": least, "stable": stable, "resamples": resamples, "fewest": fewest,
    }  # fmt: skip
    found = _graphs(on_host(_moments(rows, given)), given=given)
    return from_arrays({name: found[name] for name in found.columns}, like=rows)


def _graphs(moments: pl.DataFrame, *, given: Mapping[str, Any]) -> pl.DataFrame:
    """Return the rows of all groups from the moments of their blocks."""
    by = given["by"]
    schema = {**{name: moments.schema[name] for name in by}, **_RESULT}
    ordered = moments.sort(*by, *given["block"])
    groups = ordered.partition_by(by, maintain_order=True) if by else [ordered]
    found = [
        (*(group[name][0] for name in by), *row)
        for group in groups
        if group.height
        for row in _graph(group, given)
    ]
    return pl.DataFrame(found, schema=schema, orient="row")


def _graph(blocks: pl.DataFrame, given: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of one group."""
    columns: list[str] = given["columns"]
    moments = _matrices(blocks, len(columns))
    size, matrix = moments.correlations(np.ones(blocks.height))
    varied = [place for place in range(len(columns)) if not np.isnan(matrix[place, place])]
    kept = _distinct(matrix, varied, [columns.index(name) for name in given["last"]])
    refused = _refusal(size, blocks.height, given["fewest"])
    found = {} if refused else _links(moments, kept, given)
    for one, other in itertools.combinations(range(len(columns)), 2):
        if (one, other) in found:
            row = _claim((columns[one], columns[other]), found[one, other], given["stable"])
        else:
            known = refused or ("no variance" if {one, other} - set(varied) else "same")
            alone = None if np.isnan(matrix[one, other]) else round(float(matrix[one, other]), 6)
            row = (columns[one], columns[other], known, alone, None, None, None)
        yield (*row, int(size), blocks.height)


def _matrices(blocks: pl.DataFrame, count: int) -> Moments:
    products = np.empty((blocks.height, count, count))
    for i, j in itertools.combinations_with_replacement(range(count), 2):
        products[:, i, j] = products[:, j, i] = blocks[f"# {i} {j}"].to_numpy()
    sums = blocks.select(f"# {place}" for place in range(count)).to_numpy()
    return Moments(blocks[_SIZE].to_numpy(), sums, products)


def _refusal(size: float, blocks: int, fewest: int) -> str:
    if size < fewest:
        return "too few rows"
    return "too few blocks" if blocks < _FEWEST_BLOCKS else ""


def _distinct(matrix: Any, varied: list[int], last: list[int]) -> list[int]:
    """Return the columns that do not say the same as an earlier one; what is last stays."""
    kept: list[int] = []
    for place in sorted(varied, key=lambda place: place not in last):
        if all(abs(matrix[place, other]) < _SAME for other in kept):
            kept.append(place)
    return sorted(kept)


def _links(
    moments: Moments, kept: list[int], given: Mapping[str, Any]
) -> dict[tuple[int, int], Link]:
    """Return the links of the kept columns, by their places among all."""
    names = [given["columns"][place] for place in kept]
    tiers = [(name in given["last"]) - (name in given["first"]) for name in names]
    tests = Tests(_STANDARD_ERRORS, given["least"], most_given=2)
    products = moments.products[:, kept][:, :, kept]
    chosen = Moments(moments.sizes, moments.sums[:, kept], products)
    found = links(chosen, tiers, tests, given["resamples"])
    return {(kept[i], kept[j]): link for (i, j), link in found.items()}


def _claim(names: tuple[str, str], link: Link, stable: float) -> tuple[Any, ...]:
    """Return the pair, its cause first where one is claimed, and what is claimed of it."""
    direction = max(link.forward, link.backward)
    if not link.linked:
        verdict = "none"
    elif link.stability < stable:
        verdict = "unstable"
    else:
        verdict = "directed" if direction >= stable else "linked"
    if verdict == "directed" and link.backward > link.forward:
        names = names[::-1]
    sizes = (round(link.correlation, 6), round(link.weakest, 6))
    return (*names, verdict, *sizes, link.stability, direction)
