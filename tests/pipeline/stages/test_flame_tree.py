"""`flame_tree` on stacks added up by hand, and on random ones against plain Python."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.errors import ConfigError
from pasta.pipeline.stages.flame_tree import flame_tree

STACKS = {1: ("a;", " > b"), 2: ("a;",), 3: (), 4: ("a;", "c")}


def tree(of_rows, order="merged", stacks=STACKS):
    rows = pl.DataFrame(
        {"stack": of_rows, "ts": range(len(of_rows)), "weight": [1 << n for n in range(len(of_rows))]},
        schema={"stack": pl.Int64, "ts": pl.Int64, "weight": pl.Int64},
    )  # fmt: skip
    frames = pl.DataFrame(
        [(stack, depth, name) for stack, names in stacks.items() for depth, name in enumerate(names)],
        {"stack": pl.Int64, "depth": pl.Int32, "symbol": pl.String},
        orient="row",
    )  # fmt: skip
    return flame_tree(rows, frames.reverse(), on=["stack"], values=["weight"], order=order, time=["ts"])  # fmt: skip


def test_equal_paths_are_one_node():
    found = tree([1, 2, 3, 1, 4])
    assert found.columns == ["node_id", "parent_id", "depth", "name", "weight", "own_weight", "rows"]  # fmt: skip
    assert found.rows() == [
        (1, 0, 0, "(no stack)", 4, 4, 1),
        (2, 0, 0, "a;", 27, 2, 4),
        (3, 2, 1, " > b", 9, 9, 2),
        (4, 2, 1, "c", 16, 16, 1),
    ]


def test_in_time_a_frame_is_new_unless_the_last_beside_it_has_its_name():
    found = tree([1, 2, 1, 3, 1, 4, 1], "time")
    assert found.select("node_id", "parent_id", "name", "weight").rows() == [
        (1, 0, "a;", 7),
        (2, 0, "(no stack)", 8),
        (3, 0, "a;", 112),
        (4, 1, " > b", 5),
        (5, 3, " > b", 16),
        (6, 3, "c", 32),
        (7, 3, " > b", 64),
    ]


def test_time_needs_columns():
    rows = pl.DataFrame({"stack": [1], "weight": [1]})
    frames = pl.DataFrame({"stack": [1], "depth": [0], "symbol": ["f"]})
    with pytest.raises(ConfigError, match="at least one column"):
        flame_tree(rows, frames, on=["stack"], values=["weight"], order="time")


def plain(of_rows, stacks, *, in_time):
    """Return (path of names, weight) of each node, siblings in their order."""
    root = {"name": None, "weight": 0, "children": []}
    for number, stack in enumerate(of_rows):
        node = root
        for name in stacks.get(stack) or ("(no stack)",):
            known = node["children"][-1:] if in_time else node["children"]
            child = next((one for one in known if one["name"] == name), None)
            if child is None:
                child = {"name": name, "weight": 0, "children": []}
                node["children"].append(child)
            node = child
            node["weight"] += 1 << number

    def listed(node, path):
        for child in node["children"]:
            way = (*path, child["name"])
            yield way, child["weight"]
            yield from listed(child, way)

    return list(listed(root, ()))


def ways(found):
    above = {node: (parent, name) for node, parent, name in found.select("node_id", "parent_id", "name").iter_rows()}  # fmt: skip

    def way(node):
        parent, name = above[node]
        return (*way(parent), name) if parent else (name,)

    return [(way(node), weight) for node, weight in found.select("node_id", "weight").iter_rows()]


NAMES = st.lists(st.sampled_from(["a", "b", ";", " > "]), max_size=4).map(tuple)


@given(st.lists(st.integers(0, 5), max_size=25), st.dictionaries(st.integers(0, 5), NAMES))
def test_random_stacks(of_rows, stacks):
    for order in ("merged", "time"):
        expected = plain(of_rows, stacks, in_time=order == "time")
        assert Counter(ways(tree(of_rows, order, stacks))) == Counter(expected)
