"""A tool's YAML read into frozen dataclasses; every message starts with the path of its key."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pasta.errors import ConfigError, did_you_mean, shown
from pasta.pipeline.arguments import PARAMETER_TYPES, parameter_value
from pasta.pipeline.charts import CHARTS, ROLES
from pasta.pipeline.clauses import CLAUSES, written_out
from pasta.schema import TABLES
from pasta.yaml_text import read_document

CONFIG_VERSION = 1

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_RESERVED = {"tool", "trace", "runs", "engine", "workers", "scheduler", "off_gpu", "out"}
_ROWS = {"by", "measures", "descending", "n", "smallest", *CLAUSES}
"""What an entry of the report may say of its rows: which of those of `from`, in which order, or their sums."""
_REPORT_KINDS = {
    "finding": {"finding", "from", "row", "when", "weight", *_ROWS},
    "facts": {"facts", "from", *_ROWS},
    "table": {"table", "from", "title", "columns", "where_filled", "limit", *_ROWS},
    "chart": {"chart", "from", "title", "limit", "columns", "log", *ROLES, *_ROWS},
    "note": {"note"},
    "findings": {"findings"},
}
_TOP = {"type": "int", "default": 20, "about": "rows to show"}
"""The parameter of every tool that says `$top`, where it declares none, or its default alone."""
_OPTIONAL = "optional "
"""Stands in front of the table of an input that may be absent."""
_NAMING = {"table", "facts"}
"""The kinds of entries that are called as the stage whose rows they show."""
_TYPE_OF = {int: "int", float: "float", str: "string", bool: "bool"}
"""The type of a parameter that names none, by its default's."""
_SAYS_TOP = re.compile(r"(?<!\$)\$top\b")


@dataclass(frozen=True)
class InputConfig:
    """A table of a trace that the tool reads."""

    table: str
    optional: bool = False
    run: str | None = None


@dataclass(frozen=True)
class ParameterConfig:
    """A value that `--set` may change, within `least` and `most` or among `choices` where they are given."""

    kind: str
    default: Any
    about: str
    least: int | float | None = None
    most: int | float | None = None
    choices: tuple[str, ...] = ()

    def read(self, value: Any, path: str) -> Any:
        """Return a value given for it, in its own units.

        Raises:
            ConfigError: it is of another type, below `least`, above `most` or none of `choices`.
        """
        found = parameter_value(value, self.kind, path)
        if self.least is not None and found < self.least:
            raise ConfigError(path, f"must be {self.least} or more, got {value}")
        if self.most is not None and found > self.most:
            raise ConfigError(path, f"must be {self.most} or less, got {value}")
        if self.choices and found not in self.choices:
            raise ConfigError(path, f"must be one of {', '.join(self.choices)}; got {shown(value)}")
        return found


@dataclass(frozen=True)
class StageConfig:
    """A node of the graph; `sources` maps a stage's parameter, or its position, to a node."""

    use: str
    sources: Mapping[str | int, str]
    arguments: Mapping[str, Any]
    path: str


@dataclass(frozen=True)
class ReportItem:
    """One entry of the report: a finding, facts, a table, a chart, a note, or the findings of a tool included."""

    kind: str
    options: Mapping[str, Any]
    path: str


@dataclass(frozen=True)
class IncludeConfig:
    """Another tool whose stages this one uses, with its parameters set; those in `adopt` are this one's too."""

    tool: str
    parameters: Mapping[str, Any]
    adopt: tuple[str, ...] = ()


@dataclass(frozen=True)
class ToolConfig:
    """A tool as YAML declares it.

    `findings` are for the reports of tools that include it. `collect` is what `-- COMMAND` records for it,
    as `--with` says; `off_gpu` what happens to stages that a GPU declines, `raise` an error or run them on
    the `cpu`.
    """

    name: str
    about: str
    inputs: Mapping[str, InputConfig]
    parameters: Mapping[str, ParameterConfig]
    stages: Mapping[str, StageConfig]
    report: tuple[ReportItem, ...]
    parquet: tuple[str, ...]
    findings: tuple[ReportItem, ...] = ()
    include: Mapping[str, IncludeConfig] = field(default_factory=dict)
    report_function: str | None = None
    collect: str | None = None
    off_gpu: str = "raise"
    path: Path | None = None


def load_config(path: Path) -> ToolConfig:
    """Read the tool in the YAML file `path`.

    Raises:
        ConfigError: the file is absent, not YAML, or says something a tool cannot mean.
    """
    return dataclasses.replace(read_document(path, parse_config), path=path)


def parse_config(document: Any) -> ToolConfig:
    """Turn a parsed YAML document into a tool.

    Raises:
        ConfigError: it says what a tool cannot mean; with the path of the key.
    """
    top = _mapping(document, "the file")
    known = (
        "version tool about collect inputs parameters include stages findings report report_function"
        " outputs off_gpu"
    )
    _known_keys(top, set(known.split()), "")
    version = top.get("version")
    if version != CONFIG_VERSION or type(version) is not int:
        raise ConfigError("version", f"expected {CONFIG_VERSION}, got {shown(version)}")
    stages = _stages(top.get("stages", {}))
    findings = _report(top.get("findings", []), "findings", stages)
    report = _report(top.get("report", []), "report", stages)
    outputs = _mapping(top.get("outputs", {}), "outputs")
    _known_keys(outputs, {"parquet"}, "outputs")
    function = top.get("report_function")
    return ToolConfig(
        name=_checked_name(_text(top.get("tool"), "tool"), "tool"),
        about=_text(top.get("about"), "about"),
        inputs=_each(top.get("inputs", {}), "inputs", _input),
        parameters=_parameters(top),
        include=_includes(top.get("include", {})),
        stages=stages,
        findings=findings,
        report=report,
        parquet=_texts(outputs.get("parquet", []), "outputs.parquet"),
        report_function=None if function is None else _text(function, "report_function"),
        collect=None if "collect" not in top else _text(top["collect"], "collect"),
        off_gpu=_off_gpu(top.get("off_gpu", "raise")),
    )


def _off_gpu(value: Any) -> str:
    if value not in ("raise", "cpu"):
        raise ConfigError("off_gpu", f"expected raise or cpu, got {shown(value)}")
    return str(value)


def _input(value: Any, path: str) -> InputConfig:
    if isinstance(value, str):
        value = {"table": value.removeprefix(_OPTIONAL), "optional": value.startswith(_OPTIONAL)}
    options = _mapping(value, path)
    _known_keys(options, {"table", "optional", "run"}, path)
    table = _text(options.get("table"), f"{path}.table")
    if table not in TABLES:
        raise ConfigError(f"{path}.table", f"no table '{table}'.{did_you_mean(table, TABLES)}")
    optional = options.get("optional", False)
    if not isinstance(optional, bool):
        raise ConfigError(f"{path}.optional", f"expected true or false, got {shown(optional)}")
    run = options.get("run")
    return InputConfig(table, optional, None if run is None else _text(run, f"{path}.run"))


def _parameters(top: Mapping[str, Any]) -> dict[str, ParameterConfig]:
    given = dict(_mapping(top.get("parameters", {}), "parameters"))
    if type(given.get("top")) is int:
        given["top"] = _TOP | {"default": given["top"]}
    elif "top" not in given and _wants_top(top):
        given["top"] = _TOP
    return _each(given, "parameters", _parameter)


def _wants_top(top: Mapping[str, Any]) -> bool:
    """Tell whether a tool uses the parameter `top`, and none that it includes has it adopted."""
    includes = top.get("include")
    given = includes.values() if isinstance(includes, dict) else ()
    adopted = [each.get("adopt") for each in given if isinstance(each, dict)]
    if any("top" in names for names in adopted if isinstance(names, list)):
        return False
    return any(_says_top(top.get(key)) for key in ("include", "stages", "report", "findings"))


def _says_top(value: Any) -> bool:
    """Tell whether a part of the document uses the parameter `top`."""
    if isinstance(value, dict):
        return any(_says_top(each) for each in value.values())
    if isinstance(value, list):
        return any(_says_top(each) for each in value)
    return isinstance(value, str) and _SAYS_TOP.search(value) is not None


def _parameter(value: Any, path: str) -> ParameterConfig:
    if path.removeprefix("parameters.") in _RESERVED:
        raise ConfigError(path, f"a parameter may not be called {', '.join(sorted(_RESERVED))}")
    options = _mapping(value, path)
    _known_keys(options, {"type", "default", "about", "least", "most", "choices"}, path)
    kind = _text(options.get("type", _TYPE_OF.get(type(options.get("default")))), f"{path}.type")
    if kind not in PARAMETER_TYPES:
        hint = did_you_mean(kind, PARAMETER_TYPES)
        raise ConfigError(f"{path}.type", f"no parameter type '{kind}'.{hint}")
    if "default" not in options:
        raise ConfigError(path, "needs a default")
    for name in options.keys() & {"least", "most"}:
        if kind in {"string", "bool"} or type(options[name]) not in {int, float}:
            problem = "expected a number, for a parameter that is a number"
            raise ConfigError(f"{path}.{name}", problem)
    about = _text(options.get("about", ""), f"{path}.about")
    parameter = ParameterConfig(
        kind, None, about, options.get("least"), options.get("most"), _choices(options, kind, path)
    )
    return replace(parameter, default=parameter.read(options["default"], f"{path}.default"))


def _choices(options: Mapping[str, Any], kind: str, path: str) -> tuple[str, ...]:
    """Return the values that a parameter may have; none: all."""
    if "choices" not in options:
        return ()
    if kind != "string":
        raise ConfigError(f"{path}.choices", "only a parameter that is a string has choices")
    return _texts(options["choices"], f"{path}.choices")


def _stages(value: Any) -> dict[str, StageConfig]:
    found: dict[str, StageConfig] = {}
    for name, stage in _each(value, "stages", _stage).items():
        found |= written_out(name, stage)
    return found


def _stage(value: Any, path: str) -> StageConfig:
    options = dict(_mapping(value, path))
    use = _text(options.pop("use", None), f"{path}.use")
    sources = _sources(options.pop("from", None), f"{path}.from")
    return StageConfig(use, sources, options, path)


def _sources(value: Any, path: str) -> dict[str | int, str]:
    if value is None:
        raise ConfigError(path, "needs the name of an input or a stage")
    if isinstance(value, dict):
        return {str(key): _text(name, f"{path}.{key}") for key, name in value.items()}
    names = value if isinstance(value, list) else [value]
    return {i: _text(name, f"{path}[{i}]") for i, name in enumerate(names)}


def _includes(value: Any) -> dict[str, IncludeConfig]:
    if isinstance(value, list):
        value = {str(name): name for name in value}
    found = {}
    for alias, options in _mapping(value, "include").items():
        path = f"include.{alias}"
        given = {"tool": options} if isinstance(options, str) else _mapping(options, path)
        _known_keys(given, {"tool", "parameters", "adopt"}, path)
        adopt = _texts(given.get("adopt", []), f"{path}.adopt")
        parameters = _mapping(given.get("parameters", {}), f"{path}.parameters")
        for name in adopt:
            if name in parameters:
                problem = "the tool adopts this parameter too; leave it out here or there"
                raise ConfigError(f"{path}.parameters.{name}", problem)
        parameters = {name: f"${name}" for name in adopt} | dict(parameters)
        found[_checked_name(alias, "include")] = IncludeConfig(
            _text(given.get("tool"), f"{path}.tool"), parameters, adopt
        )
    return found


def _report(value: Any, path: str, stages: dict[str, StageConfig]) -> tuple[ReportItem, ...]:
    """Return the entries of a report; stages that they make themselves are added to `stages`."""
    items = []
    for position, entry in enumerate(_list(value, path)):
        item = _report_item(entry, f"{path}[{position}]")
        if path == "findings" and item.kind != "finding":
            raise ConfigError(item.path, f"expected a finding, got {shown(list(item.options))}")
        if item.options.keys() & _ROWS or (item.kind in _NAMING and "from" in item.options):
            item = _with_own_rows(item, stages)
        items.append(item)
    return tuple(items)


def _with_own_rows(item: ReportItem, stages: dict[str, StageConfig]) -> ReportItem:
    """Write out what an entry says of its rows as a stage, which tables and facts name."""
    source = _text(item.options.get("from"), f"{item.path}.from")
    arguments = {key: value for key, value in item.options.items() if key in _ROWS}
    options = {key: value for key, value in item.options.items() if key not in _ROWS}
    name = item.path
    if item.kind in _NAMING:
        name = _checked_name(options[item.kind], f"{item.path}.{item.kind}")
        del options["from"]
    else:
        options["from"] = name
    if name in stages:
        problem = f"the stage '{name}' has rows; leave out 'from', or name it otherwise"
        raise ConfigError(f"{item.path}.{item.kind}", problem)
    stage = StageConfig(_use(arguments, item.path), {0: source}, arguments, item.path)
    stages |= written_out(name, stage)
    return dataclasses.replace(item, options=options)


def _use(arguments: Mapping[str, Any], path: str) -> str:
    """Return the stage that the arguments are of."""
    for use, key in (("aggregate", "measures"), ("top", "n"), ("sort", "by"), ("filter", "where")):
        if key in arguments:
            return use
    raise ConfigError(path, "'from' needs 'where', 'by' or 'measures' beside it")


def _report_item(value: Any, path: str) -> ReportItem:
    options = _mapping(value, path)
    kinds = [kind for kind in _REPORT_KINDS if kind in options]
    if len(kinds) != 1:
        known = ", ".join(_REPORT_KINDS)
        raise ConfigError(path, f"expected one of {known}; got {shown(list(options))}")
    kind = kinds[0]
    _known_keys(options, _REPORT_KINDS[kind], path)
    needed = {kind} | ({"from"} if kind in ("finding", "chart") else set())
    needed |= _roles(options, path) if kind == "chart" else set()
    for key in needed | (options.keys() & {"title", "from", *ROLES}):
        _text(options.get(key), f"{path}.{key}")
    if "row" in options:
        _integer(options["row"], f"{path}.row", least=0)
    if "limit" in options:
        _integer(options["limit"], f"{path}.limit", least=1)
    for key in ("columns", "where_filled"):
        _texts(options.get(key, []), f"{path}.{key}")
    return ReportItem(kind, options, path)


def _roles(options: Mapping[str, Any], path: str) -> set[str]:
    """Return what a chart of its kind must name."""
    name = options["chart"]
    kind = CHARTS.get(name) if isinstance(name, str) else None
    if kind is None:
        *others, last = CHARTS
        problem = f"expected {', '.join(others)} or {last}, got {shown(name)}"
        raise ConfigError(f"{path}.chart", problem)
    for key in options.keys() & {"columns", "log", *ROLES} - kind.keys:
        raise ConfigError(f"{path}.{key}", f"a {name} chart has no {key}")
    if kind.columns and len(_list(options.get("columns"), f"{path}.columns")) < 2:
        raise ConfigError(f"{path}.columns", f"a {name} chart shows two columns or more")
    if not isinstance(options.get("log", False), bool):
        raise ConfigError(f"{path}.log", f"expected true or false, got {shown(options['log'])}")
    return set(kind.roles)


def _each(value: Any, path: str, read: Any) -> dict[str, Any]:
    return {
        _checked_name(name, path): read(item, f"{path}.{name}")
        for name, item in _mapping(value, path).items()
    }


def _checked_name(name: str, path: str) -> str:
    """Names become file names and parts of other names, so they are words."""
    if not _NAME.fullmatch(name):
        raise ConfigError(path, f"{shown(name)} is no name: use letters, digits and _")
    return name


def _integer(value: Any, path: str, *, least: int) -> int:
    if type(value) is not int or value < least:
        raise ConfigError(path, f"expected a whole number from {least} on, got {shown(value)}")
    return value


def _mapping(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(path, f"expected a mapping, got {shown(value)}")
    for key in value:
        if not isinstance(key, str):
            raise ConfigError(path, f"expected names as keys, got {shown(key)}")
    return value


def _list(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise ConfigError(path, f"expected a list, got {shown(value)}")
    return value


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        problem = "is missing" if value is None else f"expected text, got {shown(value)}"
        raise ConfigError(path, problem)
    return value


def _texts(value: Any, path: str) -> tuple[str, ...]:
    return tuple(_text(each, f"{path}[{i}]") for i, each in enumerate(_list(value, path)))


def _known_keys(options: Mapping[str, Any], known: set[str], path: str) -> None:
    for key in options:
        if key not in known:
            where = f"{path}.{key}" if path else key
            raise ConfigError(where, f"unknown key.{did_you_mean(key, known)}")
