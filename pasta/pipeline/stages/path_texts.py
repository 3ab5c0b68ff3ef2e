"""Stage `path_texts`: the path to each of some nodes as one text, for people."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from pasta.pipeline.columns import check_added, require, unsigned
from pasta.pipeline.frames import from_arrays, on_host, with_columns_of
from pasta.pipeline.kernels.ordering import rows_with
from pasta.pipeline.stage import stage


@stage("path_texts")
def path_texts(
    rows: pl.DataFrame,
    nodes: pl.DataFrame,
    *,
    column: str = "path",
    separator: str = " > ",
    inside_out: bool = False,
    own: bool = True,
    empty: str = "",
    node: str = "node_id",
    parent: str = "parent_id",
    name: str = "name",
) -> pl.DataFrame:
    """Add the names from the root of a tree down to each row, joined to one text.

    Meant for the few rows that people read; a name may itself hold the separator.

    Args:
        rows: some nodes, with their id.
        nodes: all nodes of the tree, with ids that are unique.
        column: the new column.
        separator: what stands between names.
        inside_out: begin with the row, not with the root.
        own: end with the row's own name; else with that of its parent.
        empty: the text of a path without names.
        node: the column of ids.
        parent: the column of parents' ids, 0 for none.
        name: the column of names.

    Raises:
        ConfigError: the rows have a column of the new one's name.

    YAML: `told: {use: path_texts, from: {rows: largest, nodes: nodes}}`
    """
    require(rows, [node], "rows")
    require(nodes, [node, parent, name], "nodes")
    check_added(rows, [column], "column")
    names = on_host(nodes.select(name))[name]
    ids, above, wanted = (
        unsigned(table, key).view(np.int64)
        for table, key in ((nodes, node), (nodes, parent), (rows, node))
    )
    one = np.zeros_like
    parents = np.where(above != 0, rows_with(one(ids), ids, one(above), above), -1)
    places = rows_with(one(ids), ids, one(wanted), wanted)
    ways = [_way(place, parents)[0 if own else 1 :] for place in places.tolist()]
    shown = ways if inside_out else [way[::-1] for way in ways]
    texts = [separator.join(names[way].fill_null("")) if way else empty for way in shown]
    return with_columns_of(
        rows, from_arrays({column: pl.Series(texts, dtype=pl.String)}, like=rows)
    )


def _way(place: int, parents: Any) -> list[int]:
    """Return the rows from a row up to the root; none where the row is -1."""
    way: list[int] = []
    while place >= 0:
        way.append(place)
        place = int(parents[place])
    return way
