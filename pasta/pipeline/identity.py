"""Which nodes of graphs are the same: those whose stage, arguments and sources are, down to the tables read."""

from __future__ import annotations

import dataclasses
from typing import Any

from pasta.pipeline.arguments import identity
from pasta.pipeline.graph import Graph


def number_nodes(graph: Graph, numbers: dict[Any, int]) -> dict[str, int]:
    """Return a number for each input and node of a graph, equal where they are the same.

    Args:
        graph: the graph.
        numbers: what has a number already, of any graph; new ones are added.
    """
    found: dict[str, int] = {}
    for name, given in graph.inputs.items():
        table = ("table", given.table, given.run)
        found[name] = numbers.setdefault(table, len(numbers))
    for name, node in graph.nodes.items():
        sources = tuple(source and found[source] for source in node.positional)
        stage = (node.stage.name, identity(node.arguments), sources)
        found[name] = numbers.setdefault(stage, len(numbers))
    return found


def without_repeats(graph: Graph) -> Graph:
    """Return a graph in which nothing reads a node that is the same as an earlier one, but that one.

    Tools that are included by several ways are in a graph several times; what they do is done once.
    """
    numbers = number_nodes(graph, {})
    first: dict[int, str] = {}
    for name, number in numbers.items():
        first.setdefault(number, name)
    nodes = {
        name: dataclasses.replace(
            node, positional=tuple(source and first[numbers[source]] for source in node.positional)
        )
        for name, node in graph.nodes.items()
    }
    return dataclasses.replace(graph, nodes=nodes)
