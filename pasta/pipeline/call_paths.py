"""Paths by name from a root to a row, shared by the stages that add up trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from pasta.pipeline.columns import check_keys, number_groups, process_key, require
from pasta.pipeline.frames import from_arrays, gather, on_host, to_array, with_columns_of
from pasta.pipeline.kernels.trees import Paths, Tree, paths, tree
from pasta.pipeline.parentage import known_parents

SEPARATOR = " > "


@dataclass(frozen=True)
class NamedPaths:
    """The distinct paths of a tree.

    Attributes:
        rows: the tree of the rows.
        paths: the distinct paths, each after the path above it.
        labels: a row for each path with the columns that tell paths apart; `path`, the names from
            the root on, joined by `SEPARATOR`; and `path_id`, from 1 on, in order of that text.
    """

    rows: Tree
    paths: Paths
    labels: pl.DataFrame


def named_paths(
    rows: pl.DataFrame, *, node: str, parent: str, name: str, by: Sequence[str] = ()
) -> NamedPaths:
    """Find the distinct paths of `rows`; paths of one text differ where `by` does.

    Parents are those recorded. If some are not among the rows, as once some were filtered out,
    parents are inferred where the rows have `tid`, `ts` and `dur`; elsewhere those rows are roots.
    Spaces around ">" inside of a name are dropped, so that the separator has no second meaning.
    """
    require(rows, [*process_key(rows), node, parent, name, *by])
    check_keys(rows, [name], "name")
    rows = rows.with_columns(pl.col(name).fill_null(""))
    keys, (labels,) = number_groups([*by, name], rows)
    nested = tree(known_parents(rows, node, parent))
    found = paths(nested, labels)
    texts = _texts(on_host(keys.select(name))[name].to_list(), found)
    order = sorted(range(len(texts)), key=lambda path: (texts[path], path))
    ids = np.empty(len(texts), dtype=np.uint64)
    ids[order] = np.arange(1, len(texts) + 1, dtype=np.uint64)
    columns = {"path": pl.Series(texts, dtype=pl.String), "path_id": to_array(ids, found.labels)}
    named = with_columns_of(gather(keys, found.labels), from_arrays(columns, like=rows))
    return NamedPaths(nested, found, named)


def _texts(names: list[str], found: Paths) -> list[str]:
    names = [name.replace(SEPARATOR, SEPARATOR.strip()) for name in names]
    texts: list[str] = []
    for above, label in zip(found.parents.tolist(), found.labels.tolist(), strict=True):
        texts.append(names[label] if above < 0 else f"{texts[above]}{SEPARATOR}{names[label]}")
    return texts
