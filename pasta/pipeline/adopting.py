"""What a tool takes over from those that it includes as its own: parameters and findings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pasta.errors import ConfigError, did_you_mean
from pasta.pipeline.config import ParameterConfig, ReportItem, ToolConfig
from pasta.pipeline.wiring import Includes, check_chain


def with_adopted(
    config: ToolConfig, includes: Includes, outer: tuple[ToolConfig, ...] = ()
) -> ToolConfig:
    """Return a tool with the parameters that it adopts, and the findings of others in their places.

    Args:
        config: the tool.
        includes: finds the config of an included tool.
        outer: the tools that adopt from this one.

    Raises:
        ConfigError: an included tool does not exist, or has no such parameter or no findings.
    """
    parameters: dict[str, ParameterConfig] = {}
    for alias, include in config.include.items():
        if include.adopt:
            other = _included(config, alias, includes, outer)
            parameters |= _parameters(config, alias, other, parameters)
    report: list[ReportItem] = []
    for item in config.report:
        report += _findings(config, item, includes, outer) if item.kind == "findings" else [item]
    return replace(config, parameters=parameters | dict(config.parameters), report=tuple(report))


def _included(
    config: ToolConfig, alias: str, includes: Includes, outer: tuple[ToolConfig, ...]
) -> ToolConfig:
    try:
        other = includes(config.include[alias].tool, config)
        check_chain((*outer, config), other)
        return with_adopted(other, includes, (*outer, config))
    except ConfigError as error:
        raise error.within(f"include.{alias}.") from error


def _parameters(
    config: ToolConfig, alias: str, other: ToolConfig, before: Mapping[str, ParameterConfig]
) -> dict[str, ParameterConfig]:
    for position, name in enumerate(config.include[alias].adopt):
        path = f"include.{alias}.adopt[{position}]"
        if name not in other.parameters:
            hint = did_you_mean(name, other.parameters)
            raise ConfigError(path, f"'{other.name}' has no parameter '{name}'.{hint}")
        if name in config.parameters:
            problem = f"the tool has a parameter '{name}' itself; hand it on under 'parameters'"
            raise ConfigError(path, problem)
        if before.get(name, other.parameters[name]) != other.parameters[name]:
            problem = f"another include has a parameter '{name}' with another default, type or text"
            raise ConfigError(path, f"{problem}; hand this one on under 'parameters'")
    return {name: other.parameters[name] for name in config.include[alias].adopt}


def _findings(
    config: ToolConfig, item: ReportItem, includes: Includes, outer: tuple[ToolConfig, ...]
) -> Iterator[ReportItem]:
    """Yield the findings of the tool that is included under a name such as `of`, or `of.at` of its own."""
    name, other = item.options["findings"], config
    adopted: list[set[str]] = []
    for alias in name.split("."):
        if alias not in other.include:
            hint = did_you_mean(alias, other.include)
            raise ConfigError(f"{item.path}.findings", f"nothing is included as '{alias}'.{hint}")
        adopted.append(set(other.include[alias].adopt))
        other = _included(other, alias, includes, outer)
    if not other.findings:
        raise ConfigError(f"{item.path}.findings", f"'{other.name}' has no findings for others")
    for each in other.findings:
        _check_parameters(each, set(other.parameters) - adopted[0].intersection(*adopted), name)
        options = {**each.options, "from": f"{name}.{each.options['from']}"}
        yield replace(each, options=options, path=f"include.{name}.{each.path}")


def _check_parameters(item: ReportItem, others: set[str], name: str) -> None:
    """Refuse a finding that names a parameter which is not that of the tool that tells it: values may differ."""
    names = re.findall(r"\{(\w+)", item.options["finding"])
    names += re.findall(r"\$(\w+)", item.options.get("when", ""))
    for each in names:
        if each in others:
            problem = f"names the parameter '{each}', which may have another value here: adopt it"
            raise ConfigError(f"include.{name}.{item.path}", problem)
