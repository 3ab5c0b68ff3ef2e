"""A tool's graph: stages wired by name, checked on empty tables, and turned into lazy plans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from pasta.errors import ConfigError, PastaError, did_you_mean
from pasta.pipeline.arguments import bind, parameter_value
from pasta.pipeline.config import InputConfig, StageConfig, ToolConfig
from pasta.pipeline.ordering import sorted_by
from pasta.pipeline.stage import STAGES, Kind, Stage
from pasta.trace import empty_table

TRACE_COLUMN = "trace"
"""Tells apart the traces that were given together; every input has it."""

Collect = Callable[[list[pl.LazyFrame]], list[pl.DataFrame]]
ConfigLoader = Callable[[str], ToolConfig]


@dataclass(frozen=True)
class Node:
    """A stage in a graph, with its arguments bound and its inputs named."""

    name: str
    stage: Stage
    positional: tuple[str | None, ...]
    arguments: Mapping[str, Any]
    path: str

    @property
    def sources(self) -> tuple[str, ...]:
        """The nodes and inputs that feed this one."""
        return tuple(source for source in self.positional if source is not None)

    @property
    def kind(self) -> Kind:
        """How the node may be run on parts of the rows."""
        return self.stage.kind(self.arguments)


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

    def plan(
        self, tables: Mapping[str, pl.LazyFrame], wanted: Iterable[str], collect: Collect
    ) -> dict[str, pl.LazyFrame]:
        """Return a lazy frame for each wanted node.

        Args:
            tables: a lazy frame for each input.
            wanted: names of nodes or inputs; one whose order is undefined is sorted by all columns.
            collect: runs the plans that feed array stages, where the plan must be cut.
        """
        plans = dict(tables)
        wanted = list(wanted)
        for name in self._needed(wanted):
            if name in self.nodes:
                plans[name] = self._apply(self.nodes[name], plans, collect)
        return {
            name: plans[name] if self.ordered(name) else sorted_by(plans[name], [])
            for name in wanted
        }

    def ordered(self, name: str) -> bool:
        """Whether the order of a node's rows is defined; it is undefined after a join."""
        node = self.nodes.get(name)
        if node is None:
            return True
        if node.kind != "row-wise":
            return node.stage.ordered
        return all(self.ordered(source) for source in node.sources)

    def schemas(self) -> dict[str, pl.Schema]:
        """Derive the schema of every node on empty tables; no data is read.

        Raises:
            ConfigError: a stage cannot work on what feeds it.
        """
        plans = {name: empty_input(config.table) for name, config in self.inputs.items()}
        found = {name: plan.collect_schema() for name, plan in plans.items()}
        for name, node in self.nodes.items():
            try:
                plan = self._apply(node, plans, lambda lazy: [p.collect() for p in lazy])
                found[name] = plan.collect().schema
                plans[name] = pl.LazyFrame(schema=found[name])
            except ConfigError as error:
                where = f"{node.path}.{error.path}" if error.path else node.path
                problem = str(error).removeprefix(f"{error.path}: ")
                raise ConfigError(where, problem) from error
            except pl.exceptions.PolarsError as error:
                raise ConfigError(node.path, _one_line(error)) from error
        return found

    def _needed(self, wanted: list[str]) -> list[str]:
        """Return the wanted nodes and all that feeds them, in order."""
        needed = set(wanted)
        for name in reversed(list(self.nodes)):
            if name in needed:
                needed.update(self.nodes[name].sources)
        return [name for name in self.nodes if name in needed]

    def _apply(self, node: Node, plans: dict[str, pl.LazyFrame], collect: Collect) -> pl.LazyFrame:
        if node.stage.array:
            return self._apply_array(node, plans, collect)
        frames = [None if source is None else plans[source] for source in node.positional]
        result: pl.LazyFrame = node.stage.function(*frames, **node.arguments)
        return result

    def _apply_array(
        self, node: Node, plans: dict[str, pl.LazyFrame], collect: Collect
    ) -> pl.LazyFrame:
        """Run what feeds an array stage, then the stage; its result is the next plan's source.

        Where the stage takes all columns, other nodes reuse the rows that were run for it.
        """
        sources = list(dict.fromkeys(node.sources))
        feeding = [plans[source] for source in sources]
        needs = node.stage.needs
        if needs is not None:
            feeding = [plan.select(needs(node.arguments)) for plan in feeding]
        rows = dict(zip(sources, collect(feeding), strict=True))
        if needs is None:
            plans.update((source, frame.lazy()) for source, frame in rows.items())
        frames = [None if source is None else rows[source] for source in node.positional]
        result: pl.DataFrame = node.stage.function(*frames, **node.arguments)
        return result.lazy()


def empty_input(table: str) -> pl.LazyFrame:
    """Return `table` as an input of a graph, without rows."""
    return with_trace_column(empty_table(table).lazy(), "")


def with_trace_column(rows: pl.LazyFrame, trace: str) -> pl.LazyFrame:
    """Add the column that tells apart the traces given together."""
    return rows.with_columns(pl.lit(trace).alias(TRACE_COLUMN))


def build_graph(
    config: ToolConfig,
    settings: Mapping[str, Any],
    load_tool: ConfigLoader,
    including: tuple[str, ...] = (),
) -> Graph:
    """Wire a tool's stages, and those of the tools it includes.

    Args:
        config: the tool.
        settings: parameter name -> value from `--set` or the Python API.
        load_tool: finds the config of an included tool.
        including: the tools that include this one.

    Raises:
        ConfigError: a parameter, a stage, an argument or a source does not exist or fit.
    """
    parameters = _parameters(config, settings)
    inputs = dict(config.inputs)
    nodes: dict[str, Node] = {}
    for alias, included in config.include.items():
        path = f"include.{alias}"
        chain = (*including, config.name)
        if included.tool in chain:
            circle = " -> ".join([*chain, included.tool])
            raise ConfigError(path, f"tools include each other in a circle: {circle}")
        try:
            tool = load_tool(included.tool)
            other = build_graph(tool, included.parameters, load_tool, chain)
        except PastaError as error:
            raise ConfigError(path, str(error)) from error
        inputs |= {f"{alias}.{name}": table for name, table in other.inputs.items()}
        nodes |= {f"{alias}.{name}": _renamed(node, alias) for name, node in other.nodes.items()}
    _check_names(config)
    for name in _order(config, set(inputs) | set(nodes)):
        nodes[name] = _node(name, config.stages[name], parameters)
    return Graph(inputs, nodes, parameters)


def _parameters(config: ToolConfig, settings: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: parameter.default for name, parameter in config.parameters.items()}
    for name, value in settings.items():
        if name not in config.parameters:
            raise ConfigError(
                f"parameters.{name}",
                f"tool '{config.name}' has no such parameter.{did_you_mean(name, values)}",
            )
        kind = config.parameters[name].kind
        values[name] = parameter_value(value, kind, f"parameters.{name}")
    return values


def _renamed(node: Node, alias: str) -> Node:
    positional = tuple(None if s is None else f"{alias}.{s}" for s in node.positional)
    name, path = f"{alias}.{node.name}", f"include.{alias}.{node.path}"
    return Node(name, node.stage, positional, node.arguments, path)


def _check_names(config: ToolConfig) -> None:
    for name in config.stages:
        if name in config.inputs:
            raise ConfigError(f"stages.{name}", "an input has this name; rename one of them")


def _order(config: ToolConfig, known: set[str]) -> list[str]:
    """Order the stages so that each comes after its sources."""
    ordered: list[str] = []
    open_stages: list[str] = []

    def visit(name: str) -> None:
        if name in known or name in ordered:
            return
        if name in open_stages:
            circle = " -> ".join([*open_stages[open_stages.index(name) :], name])
            raise ConfigError(f"stages.{name}", f"the stages feed each other in a circle: {circle}")
        open_stages.append(name)
        stage = config.stages[name]
        for key, source in stage.sources.items():
            if source not in known and source not in config.stages:
                names = known | set(config.stages)
                where = f"{stage.path}.from" + ("" if isinstance(key, int) else f".{key}")
                raise ConfigError(
                    where, f"no input or stage '{source}'.{did_you_mean(source, names)}"
                )
            visit(source)
        open_stages.pop()
        ordered.append(name)

    for name in config.stages:
        visit(name)
    return ordered


def _node(name: str, config: StageConfig, parameters: Mapping[str, Any]) -> Node:
    try:
        stage = STAGES.get(config.use)
    except PastaError as error:
        raise ConfigError(f"{config.path}.use", str(error)) from error
    positional = _positional(stage, config)
    arguments = bind(stage, config.arguments, config.path, parameters)
    return Node(name, stage, positional, arguments, config.path)


def _positional(stage: Stage, config: StageConfig) -> tuple[str | None, ...]:
    """Return the sources in the order of the stage's parameters."""
    path = f"{config.path}.from"
    if stage.inputs and stage.inputs[-1].many:
        return tuple(config.sources.values())
    names = [entry.name for entry in stage.inputs]
    given: dict[str, str] = {}
    for key, source in config.sources.items():
        if isinstance(key, int) and key >= len(names):
            raise ConfigError(path, f"stage '{stage.name}' takes {len(names)} inputs: {names}")
        name = names[key] if isinstance(key, int) else key
        if name not in names:
            hint = did_you_mean(name, names)
            raise ConfigError(f"{path}.{name}", f"stage '{stage.name}' has no such input.{hint}")
        given[name] = source
    for entry in stage.inputs:
        if not entry.optional and entry.name not in given:
            raise ConfigError(path, f"stage '{stage.name}' needs an input for '{entry.name}'")
    return tuple(given.get(name) for name in names)


def _one_line(error: Exception) -> str:
    text = str(error)
    for end in ("\n\nResolved plan", "\n\nThis error occurred"):
        text = text.partition(end)[0]
    return " ".join(text.split())
