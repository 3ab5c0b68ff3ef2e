"""Nodes that the graphs of several tools have in common: run once, held until the last has read them.

The first graph that has such a node runs it, and later ones read its rows. Stages that work row by row
are cheap: they run again, in each graph, on rows that are read from the trace or held.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from pasta.pipeline.graph import Graph
from pasta.pipeline.identity import number_nodes


class SharedRows:
    """Rows of nodes that the graphs of tools, run one after another on the same traces, have in common.

    Attributes:
        order: the tools, in the order in which they are to run: those that have nodes in common follow
            each other, so that little is held at a time.
    """

    def __init__(self, tools: Mapping[str, tuple[Graph, Sequence[str]]]) -> None:
        """Take the graphs of tools, each with the nodes that are wanted of it."""
        numbers: dict[Any, int] = {}
        self._graphs = {
            tool: _Numbered(graph, wanted, numbers) for tool, (graph, wanted) in tools.items()
        }
        self.order = in_turn({tool: graph.costly for tool, graph in self._graphs.items()})
        self._plans: dict[int, pl.LazyFrame] = {}
        self._last_read: dict[int, int] = {}
        run: set[int] = set()
        for place, tool in enumerate(self.order):
            self._last_read |= dict.fromkeys(self._graphs[tool].read(run), place)
            run |= self._graphs[tool].costly

    def of(self, tool: str) -> SharedNodes:
        """Return what a tool's graph shares; forget what neither it nor a later one reads."""
        place = self.order.index(tool)
        for number in [held for held in self._plans if self._last_read[held] < place]:
            del self._plans[number]
        later = {number for number, last in self._last_read.items() if last > place}
        return SharedNodes(self._graphs[tool].numbers, self._plans, later)


def in_turn(nodes: Mapping[str, set[int]]) -> list[str]:
    """Order tools so that few nodes are held at a time.

    The next tool is always that which has most of the nodes that are held, for each that it would add
    to them; of equals, that after which fewest are held. Of those that would add the same, the one with the
    fewest nodes of its own comes first: the last is given what is held, and can let it go as it runs.

    Args:
        nodes: tool -> the nodes that it runs or reads.
    """
    readers = Counter(number for numbers in nodes.values() for number in numbers)
    left = {tool: {n for n in numbers if readers[n] > 1} for tool, numbers in nodes.items()}
    order: list[str] = []
    held: set[int] = set()

    def cost(tool: str) -> tuple[float, int]:
        own = left[tool]
        kept = sum(readers[number] > (number in own) for number in held | own)
        return -len(own & held) / (1 + len(own - held)), kept

    while left:
        new = left[min(left, key=cost)] - held
        alike = [tool for tool in left if left[tool] - held == new]
        tool = min(alike, key=lambda tool: (len(nodes[tool]), cost(tool)))
        own = left.pop(tool)
        readers.subtract(own)
        held = {number for number in held | own if readers[number]}
        order.append(tool)
    return order


class SharedNodes:
    """What one graph shares with others."""

    def __init__(
        self, numbers: Mapping[str, int], plans: dict[int, pl.LazyFrame], later: set[int]
    ) -> None:
        """Take the numbers of the graph's nodes, the plans of held rows, and what is to be held."""
        self._numbers, self._plans, self._later = numbers, plans, later

    def known(self) -> dict[str, pl.LazyFrame]:
        """Return plans that read the rows that are held of nodes of the graph.

        What no later graph reads is given away: it is held no more, so that the caller can let it go.
        """
        names = {name: n for name, n in self._numbers.items() if n in self._plans}
        found = {name: self._plans[number] for name, number in names.items()}
        for number in set(names.values()) - self._later:
            del self._plans[number]
        return found

    def asked(self) -> set[str]:
        """Return the nodes of the graph whose rows later graphs read."""
        return {name for name, number in self._numbers.items() if number in self._later}

    def hold(self, plans: Mapping[str, pl.LazyFrame]) -> None:
        """Hold, of nodes of the graph, plans that read rows in memory, for later graphs."""
        for name in self.asked() & plans.keys():
            self._plans.setdefault(self._numbers[name], plans[name])


class _Numbered:
    """A graph whose inputs and nodes have numbers, equal where they are the same in any graph.

    Attributes:
        numbers: name of an input or node -> its number.
        costly: numbers of the nodes that the graph needs and that are no stages row by row.
    """

    def __init__(self, graph: Graph, wanted: Sequence[str], numbers: dict[Any, int]) -> None:
        self._graph, self._wanted = graph, wanted
        self.numbers = number_nodes(graph, numbers)
        needed = graph.needed(wanted)
        self.costly = {self.numbers[n] for n in needed if graph.nodes[n].kind != "row-wise"}

    def read(self, run: set[int]) -> set[int]:
        """Return the nodes that are `run` already and that a node of this graph's own reads."""
        found: set[int] = set()
        seen, open_ends = set(self._graph.inputs), list(self._wanted)
        while open_ends:
            name = open_ends.pop()
            if name in seen:
                continue
            seen.add(name)
            if self.numbers[name] in run:
                found.add(self.numbers[name])
            else:
                open_ends += self._graph.nodes[name].sources
        return found
