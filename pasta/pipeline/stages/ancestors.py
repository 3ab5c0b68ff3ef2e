"""Stage `ancestors`: the way from the root of a tree to each of some rows."""

from __future__ import annotations

import numpy as np
import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.columns import (
    check_added,
    number_groups,
    process_key,
    require,
    unsigned,
)
from pasta.pipeline.frames import gather, with_arrays
from pasta.pipeline.kernels.namespace import array_namespace
from pasta.pipeline.kernels.ordering import order_by, rows_with
from pasta.pipeline.kernels.trees import tree
from pasta.pipeline.stage import WITHIN_PROCESS, Within, stage


def _in_order(rows: pl.LazyFrame, *, of: str, **_arguments: object) -> pl.LazyFrame:
    return rows.sort(process_key(rows, within=[of, "depth"]), maintain_order=True)


@stage("ancestors", within=Within(WITHIN_PROCESS.keys, _in_order), order="own")
def ancestors(
    rows: pl.DataFrame, *, of: str, node: str = "span_id", parent: str = "parent_id"
) -> pl.DataFrame:
    """Give for each row of a tree all rows from its root down to itself.

    Args:
        rows: the nodes; ids count within a process (`rank`, `pid`, and `trace` where it is there). A
            row whose parent is not among them is a root; of rows that are each other's ancestors the first is.
        of: the new column: the id of the row that the way leads to.
        node: the column of ids.
        parent: the column of parents' ids, 0 for none.

    Returns:
        The rows on each way, with `of` and `depth` (0: a root), in place of a `depth` that is there; in order
        of process, `of`, `depth`.

    Raises:
        ConfigError: the rows have a column of the name `of`, or it is `depth`.

    YAML: `ways: {use: ancestors, from: paths, of: way_id, node: path_id, parent: path_parent_id}`
    """
    process = process_key(rows)
    require(rows, [*process, node, parent])
    check_added(rows, [of], "of")
    if of == "depth":
        raise ConfigError("of", "'depth' is the name of the other new column; name it otherwise")
    _, (groups,) = number_groups(process, rows)
    ids, above = (unsigned(rows, column).view(np.int64) for column in (node, parent))
    found = np.where(above != 0, rows_with(groups, ids, groups, above), -1)
    nested = tree(found)
    xp = array_namespace(ids)
    ends, places = [], []
    end = place = xp.arange(len(ids))
    while len(place):
        ends.append(end)
        places.append(place)
        place = nested.parents[place]
        end, place = end[place >= 0], place[place >= 0]
    end, place = (xp.concatenate([xp.arange(0), *parts]) for parts in (ends, places))
    order = order_by(groups[end], unsigned(rows, node)[end], nested.depths[place])
    end, place = end[order], place[order]
    return with_arrays(
        gather(rows, place),
        **{of: unsigned(rows, node)[end], "depth": nested.depths[place].astype(np.int32)},
    )
