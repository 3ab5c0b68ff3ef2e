"""Which stages run on cuts of combined states, so that large states need not meet in one place.

The states of some stages are nearly as large as the rows that they count. They are cut by the hash of some
of their keys, and each cut is combined by itself. Stages that work within those keys run on each cut, up to
the first mergeable stage that does not, of which a cut leaves a state. What comes after runs in the caller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from pasta.pipeline.graph import TRACE_COLUMN, Graph, Node
from pasta.pipeline.placement import Placement, redefines


@dataclass(frozen=True)
class Grouping:
    """What runs on cuts of states.

    Attributes:
        keys: columns whose hash says in which cut a row is.
        cut: combined nodes whose states are cut.
        nodes: what runs on cuts after them.
        shipped: nodes whose rows leave the cuts.
        combined: nodes of which each cut leaves a state.
    """

    keys: tuple[str, ...]
    cut: tuple[str, ...]
    nodes: tuple[str, ...]
    shipped: tuple[str, ...]
    combined: tuple[str, ...]


def find_grouping(graph: Graph, wanted: Sequence[str], placement: Placement) -> Grouping | None:
    """Return what of a graph can run on cuts of states; `None` where no state can be cut.

    Args:
        graph: the graph.
        wanted: nodes whose rows are asked for.
        placement: where its nodes run, of which some leave states on shards.
    """
    within = [name for name in placement.combined if _merge_keys(graph.nodes[name])]
    schemas = graph.schemas if within else {}
    while within:
        cuts = _Cuts(graph, wanted, schemas, within)
        out_of_order = cuts.asked.intersection(cuts.cut) - cuts.shipped
        if not out_of_order:
            order = graph.needed(wanted)
            nodes, shipped, combined = (
                tuple(name for name in order if name in names)
                for names in (cuts.nodes, cuts.shipped, cuts.combined)
            )
            return Grouping(tuple(sorted(cuts.keys)), tuple(cuts.cut), nodes, shipped, combined)
        within = [name for name in cuts.cut if name not in out_of_order]
    return None


class _Cuts:
    """A walk down a graph from nodes whose states may be cut.

    Attributes:
        cut: those that share keys with the first of them.
        keys: what of these all that runs on cuts works within.
        nodes: what runs on cuts after them.
        combined: nodes of which a cut leaves a state.
        asked: what runs on cuts and is read elsewhere, or would be but for its order.
        shipped: those of them whose rows have an order that the rows of all cuts can be brought into.
    """

    def __init__(
        self,
        graph: Graph,
        wanted: Sequence[str],
        schemas: Mapping[str, pl.Schema],
        within: Sequence[str],
    ) -> None:
        self._graph, self._schemas = graph, schemas
        needed = graph.needed(wanted)
        self.cut = [within[0]]
        self.keys = _merge_keys(graph.nodes[within[0]])
        for name in within[1:]:
            shared = self._shared(name, _merge_keys(graph.nodes[name]))
            if _apart(shared):
                self.cut.append(name)
                self.keys = shared
        self.nodes: set[str] = set()
        self.combined: set[str] = set()
        for name in needed:
            self._place(graph.nodes[name])
        self.asked = self._asked(wanted, needed)
        self.shipped = {name for name in self.asked if self._orderly(name)}

    def _shared(self, name: str, keys: set[str]) -> set[str]:
        """Return the keys so far that are among `keys`, and of one type in this node and the first."""
        first, other = self._schemas[self.cut[0]], self._schemas[name]
        return {key for key in self.keys & keys if key in other and other[key] == first.get(key)}

    def _place(self, node: Node) -> None:
        """Let a node that all but reads cuts run on them, or leave a state of each."""
        on_cuts = self.nodes.union(self.cut)
        if node.name in on_cuts or not node.sources or not on_cuts.issuperset(node.sources):
            return
        keys = {key for key in self.keys if not redefines(node, key)}
        keys = self._shared(node.name, keys)
        if node.kind != "row-wise":
            within = node.stage.within
            keys &= set(within.keys(node.arguments)) if within and not within.renumbers else set()
        if _apart(keys):
            self.nodes.add(node.name)
            self.keys = keys
        elif node.kind == "mergeable" and len(node.sources) == 1:
            self.combined.add(node.name)

    def _asked(self, wanted: Sequence[str], needed: Sequence[str]) -> set[str]:
        """Return what is wanted or read elsewhere; instead of what has to be in order, what it reads."""
        on_cuts = self.nodes.union(self.cut)
        asked = on_cuts.intersection(wanted)
        for name in needed:
            if name not in on_cuts and name not in self.combined:
                asked |= on_cuts.intersection(self._graph.nodes[name].sources)
        for name in reversed(needed):
            if name in asked and name in self.nodes and not self._orderly(name):
                asked |= set(self._graph.nodes[name].sources)
        return asked

    def _orderly(self, name: str) -> bool:
        """Whether rows of all cuts, under one another, can be brought into the order of the node."""
        stage = self._graph.nodes[name].stage
        if stage.order == "own":
            return stage.within is not None and stage.within.gather is not None
        return not self._graph.ordered(name)


def _merge_keys(node: Node) -> set[str]:
    """Return by which columns states of a node can be cut; nothing where that would not part them."""
    keys = set() if node.stage.merge is None else set(node.stage.merge.keys(node.arguments))
    return keys if _apart(keys) else set()


def _apart(keys: set[str]) -> bool:
    """Whether keys part the rows of one trace."""
    return bool(keys - {TRACE_COLUMN})
