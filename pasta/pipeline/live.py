"""A tool's graph kept up to date while its rows still arrive, with bounded state.

What can be kept up to date is a path of row-wise stages that ends in one mergeable stage: of each
batch only the mergeable stage's partial state stays, combined with the state so far. The stages
after it run on the combined rows, each time that somebody looks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from pasta.errors import EngineError
from pasta.pipeline.config import ToolConfig
from pasta.pipeline.engines.base import Engine
from pasta.pipeline.graph import Graph, Node, empty_input, with_trace_column
from pasta.pipeline.run import wanted_nodes
from pasta.pipeline.stage import Merge
from pasta.trace import empty_table

MOST_STATE_BYTES = 1 << 28
"""State of one stage beyond which a graph is no longer kept up to date."""


class LiveGraph:
    """The part of a tool's graph that can refresh while rows arrive.

    After any split of the rows into batches, `tables` is what an ordinary run gives on all of them
    (sums of floats up to the order of their rounding).

    Args:
        config: the tool.
        graph: its graph.
        engine: who runs it.

    Attributes:
        live_nodes: the nodes that the report names and that refresh, in the report's order.
        waiting: the other nodes that the report names -> why they need all rows.
    """

    def __init__(self, config: ToolConfig, graph: Graph, engine: Engine) -> None:
        self.config = config
        self.graph = graph
        self.engine = engine
        wanted = wanted_nodes(config, outputs=False)
        streamed = _streamed(graph)
        mergeable = {n: m for n, node in graph.nodes.items() if (m := _held(node, streamed))}
        obstacles = _obstacles(graph, streamed, mergeable)
        self.waiting = {name: obstacles[name] for name in wanted if name in obstacles}
        self.live_nodes = tuple(name for name in wanted if name not in obstacles)
        needed = _upstream(graph, self.live_nodes, ends=set(mergeable))
        self._merges = {name: merge for name, merge in mergeable.items() if name in needed}
        self._reads = {name: _upstream(graph, [name], ends=set()) for name in self._merges}
        self._before = _part(graph, streamed)
        self._after = _part(graph, needed - set(self._merges))
        self._states = self._collect(list(self._merges), {})

    def add(self, table: str, rows: pl.DataFrame, run: str = "") -> None:
        """Take rows that arrived; columns that they lack are null.

        Args:
            table: their table.
            rows: any number of them, in any order.
            run: the name of the run or trace that they belong to.

        Raises:
            EngineError: the engine failed, or a state has grown too large; nothing was taken.
        """
        fed = {
            name
            for name, given in self.graph.inputs.items()
            if given.table == table and given.run in (None, run)
        }
        reached = [name for name, read in self._reads.items() if read & fed]
        if rows.is_empty() or not reached:
            return
        arrived = with_trace_column(_complete(table, rows).lazy(), run)
        states = self._collect(reached, dict.fromkeys(fed, arrived))
        for name, state in states.items():
            size = int(state.estimated_size())
            if size > MOST_STATE_BYTES:
                raise EngineError(f"the state of stage '{name}' has grown to {size >> 20} MiB")
        self._states |= states

    def tables(self) -> dict[str, pl.DataFrame]:
        """Return the rows of each of `live_nodes`, from all rows so far.

        Raises:
            EngineError: the engine failed.
        """
        combined = {
            name: merge.final(self._states[name].lazy(), **self._arguments(name))
            for name, merge in self._merges.items()
        }
        plans = self._after.plan(combined, self.live_nodes, self.engine.collect)
        return dict(zip(plans, self.engine.collect(list(plans.values())), strict=True))

    @property
    def state_bytes(self) -> dict[str, int]:
        """Stage -> bytes of the state that it holds; it grows with the number of its groups."""
        return {name: int(state.estimated_size()) for name, state in self._states.items()}

    def _collect(
        self, names: Sequence[str], arrived: Mapping[str, pl.LazyFrame]
    ) -> dict[str, pl.DataFrame]:
        """Return the new states of `names`: what arrived, input by input, and what was there."""
        tables = {name: empty_input(given.table) for name, given in self.graph.inputs.items()}
        sources = {name: self.graph.nodes[name].sources[0] for name in names}
        plans = self._before.plan(tables | dict(arrived), sources.values(), self.engine.collect)
        states = []
        for name in names:
            merge, arguments = self._merges[name], self._arguments(name)
            state = merge.partial(plans[sources[name]], **arguments)
            if arrived:
                state = merge.combine(pl.concat([self._states[name].lazy(), state]), **arguments)
            states.append(state)
        return dict(zip(names, self.engine.collect(states), strict=True)) if states else {}

    def _arguments(self, name: str) -> Mapping[str, object]:
        return self.graph.nodes[name].arguments


def _streamed(graph: Graph) -> set[str]:
    """Return the inputs and the nodes whose rows come batch by batch."""
    found = set(graph.inputs)
    for name, node in graph.nodes.items():
        if node.kind == "row-wise" and node.sources and found.issuperset(node.sources):
            found.add(name)
    return found


def _held(node: Node, streamed: set[str]) -> Merge | None:
    """Return how the state of a node is kept, `None` where it cannot be."""
    alone = len(node.sources) == 1 and streamed.issuperset(node.sources)
    return node.stage.merge if alone and node.kind == "mergeable" else None


def _obstacles(graph: Graph, streamed: set[str], held: Mapping[str, Merge]) -> dict[str, str]:
    """Say of each node that cannot refresh what keeps it from that: the first cause of all."""
    found = {name: f"'{name}' holds every row of its input" for name in streamed}
    for name, node in graph.nodes.items():
        if name in held or name in streamed:
            continue
        above = [found[source] for source in node.sources if source in found.keys() - streamed]
        if above:
            found[name] = above[0]
        elif not streamed.isdisjoint(node.sources):
            found[name] = f"stage '{name}' ({node.stage.name}) needs all rows"
    return found


def _upstream(graph: Graph, names: Iterable[str], ends: set[str]) -> set[str]:
    """Return `names` and all that feeds them, no further than `ends`."""
    found = set(names)
    for name in reversed(list(graph.nodes)):
        if name in found and name not in ends:
            found.update(graph.nodes[name].sources)
    return found


def _part(graph: Graph, names: set[str]) -> Graph:
    nodes = {name: node for name, node in graph.nodes.items() if name in names}
    return Graph(graph.inputs, nodes, graph.parameters)


def _complete(table: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with all columns of their table, in its order."""
    columns = empty_table(table)
    known = [name for name in columns.columns if name in rows.columns]
    return pl.concat([columns, rows.select(known)], how="diagonal")
