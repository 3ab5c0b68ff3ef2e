"""A tool's config wired into a graph: parameters set, tools included, stages ordered and bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pasta.errors import ConfigError, PastaError, did_you_mean
from pasta.pipeline.arguments import bind, coerce
from pasta.pipeline.config import StageConfig, ToolConfig
from pasta.pipeline.graph import Graph, Node
from pasta.pipeline.identity import without_repeats
from pasta.pipeline.stage import STAGES, Stage

DEEPEST_INCLUDE = 12
MOST_NODES = 1000

Includes = Callable[[str, ToolConfig], ToolConfig]
"""Finds the config that a tool means by a name under `include`."""

Built = dict[tuple[Path, str], Graph]
"""The graphs of files, by path and values of parameters."""


def build_graph(
    config: ToolConfig,
    settings: Mapping[str, Any],
    includes: Includes,
    built: Built | None = None,
) -> Graph:
    """Wire a tool's stages, and those of the tools it includes; what is the same is read once.

    Args:
        config: the tool.
        settings: parameter name -> value from `--set` or the Python API.
        includes: finds the config of an included tool.
        built: graphs of files, which are taken from here and added where they are included again.

    Raises:
        ConfigError: a parameter, a stage, an argument or a source does not exist or fit.
    """
    return without_repeats(_wired(config, settings, includes, (), {} if built is None else built))


def _wired(
    config: ToolConfig,
    settings: Mapping[str, Any],
    includes: Includes,
    including: tuple[ToolConfig, ...],
    built: Built,
) -> Graph:
    """Wire a tool's stages, and those of the tools it includes, which several may have included."""
    parameters = _parameters(config, settings)
    known = None if config.path is None else (config.path, repr(parameters))
    if known is not None and known in built:
        return built[known]
    inputs = dict(config.inputs)
    nodes: dict[str, Node] = {}
    for alias in config.include:
        other = _included(
            config, alias, parameters, includes, chain=(*including, config), built=built
        )
        inputs |= {f"{alias}.{name}": table for name, table in other.inputs.items()}
        nodes |= {f"{alias}.{name}": _renamed(node, alias) for name, node in other.nodes.items()}
        if len(nodes) > MOST_NODES:
            raise ConfigError(f"include.{alias}", f"more than {MOST_NODES} stages in all")
    _check_names(config)
    for name in _order(config, set(inputs) | set(nodes)):
        nodes[name] = _node(name, config.stages[name], parameters)
    graph = Graph(inputs, nodes, parameters)
    if known is not None:
        built[known] = graph
    return graph


def _included(
    config: ToolConfig,
    alias: str,
    parameters: Mapping[str, Any],
    includes: Includes,
    *,
    chain: tuple[ToolConfig, ...],
    built: Built,
) -> Graph:
    """Build the graph of the tool included as `alias`."""
    included = config.include[alias]
    path = f"include.{alias}"
    try:
        tool = includes(included.tool, config)
        check_chain(chain, tool)
        settings = {
            name: coerce(value, Any, f"parameters.{name}", parameters)
            for name, value in included.parameters.items()
        }
        return _wired(tool, settings, includes, chain, built)
    except ConfigError as error:
        raise error.within(f"{path}.") from error


def check_chain(chain: tuple[ToolConfig, ...], tool: ToolConfig) -> None:
    """Check that a tool that is included includes none of those around it, and that these are not many.

    Raises:
        ConfigError: it does, or they are.
    """
    if any((tool.name, tool.path) == (outer.name, outer.path) for outer in chain):
        circle = " -> ".join([*(outer.name for outer in chain), tool.name])
        raise ConfigError("", f"tools include each other in a circle: {circle}")
    if len(chain) > DEEPEST_INCLUDE:
        raise ConfigError("", f"includes go deeper than {DEEPEST_INCLUDE}")


def _parameters(config: ToolConfig, settings: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: parameter.default for name, parameter in config.parameters.items()}
    for name, value in settings.items():
        if name not in config.parameters:
            raise ConfigError(
                f"parameters.{name}",
                f"tool '{config.name}' has no such parameter.{did_you_mean(name, values)}",
            )
        values[name] = config.parameters[name].read(value, f"parameters.{name}")
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
