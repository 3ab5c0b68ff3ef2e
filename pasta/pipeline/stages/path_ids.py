"""Stage `path_ids`: which rows of a tree have the same path of names."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from pasta.pipeline.columns import check_keys, number_groups, process_key, require, unsigned
from pasta.pipeline.frames import mask, with_arrays
from pasta.pipeline.kernels.namespace import array_namespace
from pasta.pipeline.kernels.trees import Paths, paths, tree
from pasta.pipeline.parentage import known_parents
from pasta.pipeline.stage import WITHIN_PROCESS, stage


@stage("path_ids", within=WITHIN_PROCESS)
def path_ids(
    rows: pl.DataFrame,
    *,
    node: str = "span_id",
    parent: str = "parent_id",
    name: str = "name",
    keep: pl.Expr | None = None,
) -> pl.DataFrame:
    """Add to each row of a tree the id of the first row whose path is the same, and its parent's.

    A path is the sequence of names from a root to the row, of one process (`rank`, `pid`, and `trace`
    where it is there). The rows whose `path_id` is their own id, with `path_parent_id`, are the tree of
    the distinct paths: no text is made of names, so that none can be taken for another.

    Args:
        rows: the nodes, as spans; parents are found as in `call_paths`.
        node: the column of ids.
        parent: the column of parents' ids.
        name: the column of names; null is a name of its own.
        keep: which rows are on paths; those below another belong to the next above that is. Nothing is
            copied, as `prune` would do.

    Returns:
        The rows in their order, with `path_id` and `path_parent_id` (0: a root). With `keep` the parents
        are those that paths go by, and what is not kept has 0 in all three.

    YAML: `placed: {use: path_ids, from: spans}`
    """
    by = process_key(rows)
    require(rows, [*by, node, parent, name])
    check_keys(rows, [name], "name")
    _, (labels,) = number_groups([*by, name], rows)
    parents = known_parents(rows, node, parent)
    if keep is None:
        found = paths(tree(parents), labels)
        return with_arrays(rows, **_ids(unsigned(rows, node), found))
    kept = mask(rows, keep)
    parents = np.where(kept, _next_kept(parents, kept), -1)
    nested, ids = tree(parents), unsigned(rows, node)
    apart = np.where(kept, labels + 1, 0)  # so that no path begins with a row that is not kept
    columns = {
        parent: np.append(ids, np.uint64(0))[nested.parents],
        **_ids(ids, paths(nested, apart)),
    }
    return with_arrays(
        rows, **{column: np.where(kept, of, np.uint64(0)) for column, of in columns.items()}
    )


def _ids(ids: Any, found: Paths) -> dict[str, Any]:
    """Return the id of the first row of each row's path, and of the path above it."""
    xp = array_namespace(found.of_rows)
    firsts = xp.full(len(found.parents), len(ids), dtype=xp.uint64)
    xp.minimum.at(firsts, found.of_rows, xp.arange(len(ids), dtype=xp.uint64))
    of_paths = np.append(ids[firsts.astype(xp.int64)], np.uint64(0))
    return {
        "path_id": of_paths[found.of_rows],
        "path_parent_id": of_paths[found.parents[found.of_rows]],
    }


def _next_kept(parents: Any, kept: Any) -> Any:
    """Return for each row the next row above it that is kept, -1 where there is none.

    Each round doubles how far the rows that are not kept have looked up; those in a circle have none.
    """
    xp = array_namespace(parents)
    above, gone = parents.copy(), xp.flatnonzero(~kept)
    for _round in range(len(gone).bit_length() + 1):
        place = above[gone]
        passing = (place >= 0) & ~kept[place]
        if not bool(passing.any()):
            break
        above[gone[passing]] = above[place[passing]]
    above[gone] = xp.where((above[gone] >= 0) & kept[above[gone]], above[gone], -1)
    return xp.where((parents >= 0) & ~kept[parents], above[parents], parents)
