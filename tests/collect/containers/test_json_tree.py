"""Trees in JSON, node by node, whatever the chunks."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.collect.containers.json_tree import TreeNodes
from pasta.collect.losses import Losses

NAMES = st.sampled_from(["a", 'b"', "]}", '"children": [', "\\", "children"])
TREES = st.recursive(
    st.fixed_dictionaries({}, optional={"name": NAMES, "children": st.just([])}),
    lambda inner: st.fixed_dictionaries(
        {"children": st.lists(inner, max_size=3)},
        optional={
            "name": NAMES,
            "other": st.lists(st.dictionaries(NAMES, st.integers()), max_size=2),
        },
    ),
    max_leaves=8,
)


def after_children(trees, depth=0):
    for tree in trees:
        yield from after_children(tree.get("children", []), depth + 1)
        own = {**tree, "children": []} if "children" in tree else tree
        yield depth, own


@given(
    trees=st.lists(TREES, max_size=3),
    indent=st.sampled_from([None, 1]),
    sizes=st.lists(st.integers(1, 60), max_size=30),
)
@settings(max_examples=150, deadline=None)
def test_nodes_come_after_all_in_them(trees, indent, sizes):
    text = json.dumps(trees, indent=indent).encode()
    chunks, at = [], 0
    for size in [*sizes, len(text)]:
        if at < len(text):
            chunks.append(text[at : at + size])
            at += size
    losses = Losses("t")
    found = [(depth, json.loads(own)) for depth, own in TreeNodes(iter(chunks), "children", losses)]
    assert found == list(after_children(trees))
    assert list(losses) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b'[{"children":[{"children":[],"n":1},{"ch', [(1, 1), (1, None), (0, None)]),
        (b'[{"children":[],"n":1}}]', [(0, 1)]),
        (b'[{"children":[{"n":2}]', [(1, 2), (0, None)]),
        (b'{"children":[]}', []),
    ],
)
def test_what_stands_before_damage_is_kept(text, found):
    losses = Losses("t")
    nodes = TreeNodes(iter([text]), "children", losses)
    assert [(depth, json.loads(own).get("n")) for depth, own in nodes] == found
    assert [loss.count for loss in losses] == [1]
