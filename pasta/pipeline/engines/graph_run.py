"""A graph run node by node where its plans run on GPUs, from the scan of its inputs to its report."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import polars as pl

from pasta.pipeline.engines.gpu_check import device_code
from pasta.pipeline.graph import TRACE_COLUMN, Graph, Node, with_trace_column
from pasta.pipeline.one_trace import with_trace, without_trace
from pasta.pipeline.ordering import sorted_by


class GraphRun(ABC):
    """Runs one graph.

    Plans of nodes are joined to larger plans as far as they go. What several nodes or an array stage
    and another node read is run once and held. What the GPU declines runs on the CPU of this process.

    Attributes:
        graph: the graph.
        notes: of the last run, a line for each stage that ran on the CPU: why, and what that cost.
    """

    def __init__(self, graph: Graph, declined: Mapping[str, str]) -> None:
        """Take the graph, and which of its nodes the GPU declines, and why."""
        self.graph, self._declined = graph, declined
        self.notes: list[str] = []
        self._running = graph
        self._trace, self._needing = "", frozenset[str]()

    @abstractmethod
    def hold(self, plan: pl.LazyFrame) -> pl.LazyFrame:
        """Run `plan` and return a plan that reads its rows."""

    @abstractmethod
    def download(self, plan: pl.LazyFrame) -> pl.DataFrame:
        """Run `plan` and return its rows in this process."""

    @abstractmethod
    def run_arrays(self, node: Node, plans: Mapping[str, pl.LazyFrame]) -> pl.LazyFrame:
        """Run a node's array code on the rows that feed it; return a plan that reads its result."""

    def run(
        self, tables: Mapping[str, pl.LazyFrame], wanted: Sequence[str], trace: str | None = None
    ) -> dict[str, pl.DataFrame]:
        """Return the rows of the `wanted` nodes and inputs.

        Args:
            tables: a plan for each input, and for each node that has run already.
            wanted: names of nodes or inputs; one whose order is undefined is sorted by all columns.
            trace: name of the trace that all rows are of, if they are of one.
        """
        self.notes = []
        names = self.graph.needed(wanted, tables)
        found = None if trace is None else without_trace(self.graph, self.graph.needed(wanted))
        if trace is None or found is None:
            self._running, self._trace, self._needing = self.graph, "", frozenset()
            return self._run(tables, names, wanted)
        self._running, self._trace, self._needing = found.graph, trace, found.needing
        schemas = self.graph.schemas
        shortened = {
            name: plan.drop(TRACE_COLUMN) if TRACE_COLUMN in schemas[name] else plan
            for name, plan in tables.items()
        }
        rows = self._run(shortened, names, wanted)
        return {name: with_trace(frame, schemas[name], trace) for name, frame in rows.items()}

    def _run(
        self, tables: Mapping[str, pl.LazyFrame], names: Sequence[str], wanted: Sequence[str]
    ) -> dict[str, pl.DataFrame]:
        """Run the nodes `names` and return the rows of the `wanted` ones."""
        plans = dict(tables)
        readers = self._readers(names, wanted)
        for name in names:
            plan = self._apply_to_trace(self._running.nodes[name], plans)
            plans[name] = self.hold(plan) if self._worth_holding(name, readers[name]) else plan
        return {name: self._finished(name, plans[name]) for name in wanted}

    def _readers(self, names: Sequence[str], wanted: Sequence[str]) -> dict[str, list[Node | None]]:
        """Return for each node the nodes that read it, and `None` where the report does."""
        readers: dict[str, list[Node | None]] = {name: [] for name in names}
        for node in (self._running.nodes[name] for name in names):
            for source in set(node.sources) & set(names):
                readers[source].append(node)
        for name in set(wanted) & set(names):
            readers[name].append(None)
        return readers

    def _worth_holding(self, name: str, readers: Sequence[Node | None]) -> bool:
        """Tell whether a node's rows are held: it is read twice, and not cheap to run again."""
        by_arrays = any(reader is not None and device_code(reader) for reader in readers)
        cheap = self._running.nodes[name].kind == "row-wise" and not by_arrays
        return len(readers) > 1 and not cheap

    def _apply_to_trace(self, node: Node, plans: Mapping[str, pl.LazyFrame]) -> pl.LazyFrame:
        """Return the node's plan; a node that needs the column `trace` gets it for itself."""
        if node.name not in self._needing:
            return self._apply(node, plans)
        schemas = self.graph.schemas
        sources = {
            name: with_trace_column(plans[name], self._trace)
            if TRACE_COLUMN in schemas[name]
            else plans[name]
            for name in node.sources
        }
        plan = self._apply(node, sources)
        return plan.drop(TRACE_COLUMN) if TRACE_COLUMN in schemas[node.name] else plan

    def _apply(self, node: Node, plans: Mapping[str, pl.LazyFrame]) -> pl.LazyFrame:
        """Return the node's plan; array code, or the CPU, has run what is not part of it."""
        if node.name in self._declined:
            return self._on_cpu(node, plans)
        if device_code(node) is not None:
            return self.run_arrays(node, plans)
        return self._running.unsorted_plan(plans, [node.name], pl.collect_all)[node.name]

    def _on_cpu(self, node: Node, plans: Mapping[str, pl.LazyFrame]) -> pl.LazyFrame:
        """Run a declined node on the CPU, on rows copied there, and note what that cost."""
        began = time.perf_counter()
        rows = {name: self.download(plans[name]) for name in set(node.sources)}
        tables = {name: frame.lazy() for name, frame in rows.items()}
        plan = self._running.unsorted_plan(tables, [node.name], pl.collect_all)[node.name]
        result = plan.collect(engine="streaming")
        moved = sum(frame.height for frame in rows.values()) + result.height
        self.notes.append(
            f"stage '{node.name}' ({node.stage.name}) ran on the CPU, as the GPU declines it"
            f" ({self._declined[node.name]}): {time.perf_counter() - began:.2f} s,"
            f" {moved:,} rows moved between them"
        )
        return result.lazy()

    def _finished(self, name: str, plan: pl.LazyFrame) -> pl.DataFrame:
        return self.download(plan if self._running.ordered(name) else sorted_by(plan, []))
