"""A tool's graph: stages wired by name, checked on empty tables, and turned into lazy plans."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Container, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.columns import constant
from pasta.pipeline.config import InputConfig
from pasta.pipeline.ordering import sorted_by
from pasta.pipeline.stage import Kind, Stage
from pasta.trace import empty_table

TRACE_COLUMN = "trace"
"""Tells apart the traces that were given together; every input has it."""

_MISUSES = (pl.exceptions.PolarsError, ValueError, TypeError, OverflowError)
"""What a stage raises whose arguments or columns do not fit."""

Collect = Callable[[list[pl.LazyFrame]], list[pl.DataFrame]]


@dataclass(frozen=True)
class Node:
    """A stage in a graph, with its arguments bound and its inputs named."""

    name: str
    stage: Stage
    positional: tuple[str | None, ...]
    arguments: Mapping[str, Any]
    path: str

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The nodes and inputs that feed this one."""
        return tuple(source for source in self.positional if source is not None)

    @property
    def followed(self) -> tuple[str, ...]:
        """The sources whose order the rows follow, where the stage keeps an order."""
        many = any(entry.many for entry in self.stage.inputs)
        return self.sources if many else self.sources[:1]

    @cached_property
    def kind(self) -> Kind:
        """How the node may be run on parts of the rows."""
        return self.stage.kind(self.arguments)

    def narrowed(self, plan: pl.LazyFrame) -> pl.LazyFrame:
        """Return the plan of a source with no columns but those that an array stage reads."""
        needs = self.stage.needs
        return plan if needs is None else plan.select(list(dict.fromkeys(needs(self.arguments))))


@dataclass(frozen=True)
class Graph:
    """The nodes of a tool in an order in which each comes after what feeds it.

    Attributes:
        inputs: name -> the table it reads.
        nodes: name -> node, in order.
        parameters: name -> value.
    """

    inputs: Mapping[str, InputConfig]
    nodes: Mapping[str, Node]
    parameters: Mapping[str, Any]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what a graph is made of, and nothing that is derived from it."""
        return Graph, (self.inputs, self.nodes, self.parameters)

    def plan(
        self, tables: Mapping[str, pl.LazyFrame], wanted: Iterable[str], collect: Collect
    ) -> dict[str, pl.LazyFrame]:
        """Return a lazy frame for each wanted node.

        Args:
            tables: a lazy frame for each input, and for each node that has run already.
            wanted: names of nodes or inputs; one whose order is undefined is sorted by all columns.
            collect: runs the plans that feed array stages, where the plan must be cut.
        """
        plans = self.unsorted_plan(tables, wanted, collect)
        return {name: self.in_order(name, plan) for name, plan in plans.items()}

    def in_order(self, name: str, plan: pl.LazyFrame) -> pl.LazyFrame:
        """Return the plan of a node with its rows sorted by all columns if their order is undefined."""
        return plan if self.ordered(name) else sorted_by(plan, [])

    def unsorted_plan(
        self,
        tables: Mapping[str, pl.LazyFrame],
        wanted: Iterable[str],
        collect: Collect,
        held: Container[str] = (),
    ) -> dict[str, pl.LazyFrame]:
        """Do as `plan`, with rows as they come where their order is undefined.

        Nodes that are `held` are run when they are reached, so that what comes after reads their rows.
        """
        return self.continued(dict(tables), wanted, collect, held)

    def continued(
        self,
        plans: dict[str, pl.LazyFrame],
        wanted: Iterable[str],
        collect: Collect,
        held: Container[str] = (),
    ) -> dict[str, pl.LazyFrame]:
        """Do as `unsorted_plan`, and take out of `plans` what nothing reads any more, at once.

        Where a node fails, what it was the last to read is gone.
        """
        wanted = list(wanted)
        needed = self.needed(wanted, plans)
        last_readers = {source: name for name in needed for source in self.nodes[name].sources}
        for name in needed:
            apply = self._hold if name in held else self._apply
            given = {source: plans[source] for source in self.nodes[name].sources}
            for source in given.keys() - wanted:
                if last_readers[source] == name:
                    del plans[source]
            plans[name] = apply(self.nodes[name], given, collect)
            plans.update((source, rows) for source, rows in given.items() if source in plans)
        return {name: plans[name] for name in wanted}

    def ordered(self, name: str) -> bool:
        """Whether the order of a node's rows is defined; it is undefined after a join."""
        node = self.nodes.get(name)
        if node is None:
            return True
        if node.stage.order != "kept":
            return node.stage.order == "own"
        return all(self.ordered(source) for source in node.followed)

    @cached_property
    def schemas(self) -> Mapping[str, pl.Schema]:
        """The schema of every input and node, derived on empty tables; no data is read.

        Raises:
            ConfigError: a stage cannot work on what feeds it.
        """
        plans = {name: empty_input(config.table) for name, config in self.inputs.items()}
        found = {name: plan.collect_schema() for name, plan in plans.items()}
        for name, node in self.nodes.items():
            plan = self._apply(node, dict(plans), lambda lazy: [p.collect() for p in lazy])
            try:
                found[name] = plan.collect().schema
            except pl.exceptions.PolarsError as error:
                raise ConfigError(node.path, _one_line(error)) from error
            plans[name] = pl.LazyFrame(schema=found[name])
        return found

    def above(self, name: str) -> set[str]:
        """Return a node or input and all nodes and inputs that feed it."""
        found = {name}
        for node in reversed(list(self.nodes.values())):
            if node.name in found:
                found.update(node.sources)
        return found

    def needed(self, wanted: Iterable[str], known: Container[str] = ()) -> list[str]:
        """Return the wanted nodes and all that feeds them, in order, but none that is `known`."""
        needed = set(wanted)
        for name in reversed(list(self.nodes)):
            if name in needed and name not in known:
                needed.update(self.nodes[name].sources)
        return [name for name in self.nodes if name in needed and name not in known]

    def read_again(self, wanted: Iterable[str]) -> set[str]:
        """Return the nodes that several others read, or the caller too, and that cost to run again.

        A stage row by row runs again for each of its own readers, and so reads as often.
        """
        counts = Counter(wanted)
        for name in reversed(self.needed(counts)):
            node = self.nodes[name]
            times = counts[name] if node.kind == "row-wise" else 1
            counts.update(dict.fromkeys(node.sources, times))
        return {
            name
            for name, count in counts.items()
            if count > 1 and name in self.nodes and self.nodes[name].kind != "row-wise"
        }

    def sorted_for_arrays(self) -> set[str]:
        """Return the nodes that sort in the end and whose order reaches array stages; these are best held.

        They are then grouped and sorted in a plan each: a million rows of eight keys take Polars 0.24 s so,
        and 0.39 s where one plan does both.
        """
        found, seen = set(), set[str]()
        left = [s for node in self.nodes.values() if node.stage.array for s in node.sources]
        while left:
            name = left.pop()
            if name in seen or name in self.inputs:
                continue
            seen.add(name)
            node = self.nodes[name]
            if node.stage.unsorted is not None:
                found.add(name)
            elif node.stage.order == "kept" and not node.stage.array:
                left += node.followed
        return found

    def _hold(self, node: Node, given: dict[str, pl.LazyFrame], collect: Collect) -> pl.LazyFrame:
        """Run a node and return a plan that reads its rows.

        What a stage sorts in the end, the plan sorts, and only where what reads it depends on the order;
        not by columns that hold one value, by which Polars compares each two rows before it comes to the next:
        by five, of which trace, rank and process are one, a million rows take six times as long.
        """
        stage = node.stage
        if stage.unsorted is None or stage.within is None or stage.within.gather is None:
            return collect([self._apply(node, given, collect)])[0].lazy()
        unsorted = dataclasses.replace(stage, function=stage.unsorted)
        plan = self._apply(dataclasses.replace(node, stage=unsorted), given, collect)
        rows = collect([plan])[0]
        by = [name for name in node.arguments["by"] if not constant([rows[name]])]
        return stage.within.gather(rows.lazy(), **{**node.arguments, "by": by})

    def _apply(self, node: Node, given: dict[str, pl.LazyFrame], collect: Collect) -> pl.LazyFrame:
        """Return the node's plan; `given` are those of its sources."""
        with mistakes_named(node):
            if node.stage.array:
                return self._apply_array(node, given, collect)
            frames = [None if source is None else given[source] for source in node.positional]
            result: pl.LazyFrame = node.stage.function(*frames, **node.arguments)
            return result

    def _apply_array(
        self, node: Node, given: dict[str, pl.LazyFrame], collect: Collect
    ) -> pl.LazyFrame:
        """Run what feeds an array stage, then the stage; its result is the next plan's source.

        Empties `given`, as a plan may hold rows that the stage does not take. Where it takes all columns,
        plans of the rows that were run for it come in their place, which other nodes can reuse.
        """
        sources = list(dict.fromkeys(node.sources))
        feeding = [node.narrowed(given[source]) for source in sources]
        given.clear()
        rows = dict(zip(sources, collect(feeding), strict=True))
        del feeding  # It holds the rows that the plans read, which nothing else may need.
        if node.stage.needs is None:
            given.update((source, frame.lazy()) for source, frame in rows.items())
        frames = [None if source is None else rows[source] for source in node.positional]
        result: pl.DataFrame = node.stage.function(*frames, **node.arguments)
        return result.lazy()


@contextmanager
def mistakes_named(node: Node) -> Generator[None, None, None]:
    """Name a mistake in how a node's stage is used with the node's path.

    Raises:
        ConfigError: for what a stage raises whose arguments or columns do not fit.
    """
    try:
        yield
    except ConfigError as error:
        raise error.within(f"{node.path}.") from error
    except _MISUSES as error:
        raise ConfigError(node.path, _one_line(error)) from error


def empty_input(table: str) -> pl.LazyFrame:
    """Return `table` as an input of a graph, without rows."""
    return with_trace_column(empty_table(table).lazy(), "")


def with_trace_column(rows: pl.LazyFrame, trace: str) -> pl.LazyFrame:
    """Add the column that tells apart the traces given together."""
    return rows.with_columns(pl.lit(trace).alias(TRACE_COLUMN))


def _one_line(error: Exception) -> str:
    text = str(error)
    for end in ("\n\nResolved plan", "\n\nThis error occurred"):
        text = text.partition(end)[0]
    return " ".join(text.split())
