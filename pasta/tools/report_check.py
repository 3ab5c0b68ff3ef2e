"""What a tool's report names is checked against the schemas of its stages, before any data is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from pasta.errors import ConfigError, did_you_mean
from pasta.pipeline.charts import CHARTS
from pasta.pipeline.config import ReportItem, ToolConfig
from pasta.pipeline.expressions import parse
from pasta.tools.report import REPORT_FUNCTIONS
from pasta.tools.units import KINDS, kinds_of


def check_report(
    config: ToolConfig, schemas: Mapping[str, pl.Schema], parameters: Mapping[str, Any]
) -> None:
    """Check columns, conditions and templates of the report, and the report function's name.

    The findings that the tool has for others are checked too.

    Raises:
        ConfigError: one of them does not fit; with its key's path.
    """
    for item in (*config.findings, *config.report):
        named = item.options.get("from") or item.options.get(item.kind)
        schema = schemas.get(str(named), pl.Schema())
        _check_templates(item, schema, parameters)
        if "when" in item.options:
            kind = _kind_of(item, "when", schema, parameters)
            if kind != pl.Boolean:
                problem = f"expected a condition, got a value of type {kind}"
                raise ConfigError(f"{item.path}.when", problem)
        if "weight" in item.options:
            kind = _kind_of(item, "weight", schema, parameters)
            if not kind.is_numeric():
                raise ConfigError(
                    f"{item.path}.weight", f"expected a share, got a value of type {kind}"
                )
        for position, column in enumerate(item.options.get("columns", [])):
            _check_column(column, f"{item.path}.columns[{position}]", schema)
        if len(set(item.options.get("columns", []))) < len(item.options.get("columns", [])):
            raise ConfigError(f"{item.path}.columns", "names a column twice")
        for column in item.options.get("where_filled", []):
            if column not in item.options.get("columns", []):
                raise ConfigError(f"{item.path}.where_filled", f"'{column}' is none of 'columns'")
        if item.kind == "chart":
            _check_axes(item, schema)
    if config.report_function is not None and config.report_function not in REPORT_FUNCTIONS:
        hint = did_you_mean(config.report_function, REPORT_FUNCTIONS)
        problem = f"no report function '{config.report_function}'.{hint}"
        raise ConfigError("report_function", problem)


def _check_templates(item: ReportItem, schema: pl.Schema, parameters: Mapping[str, Any]) -> None:
    for key in ("finding", "note", "title"):
        path, columns = f"{item.path}.{key}", schema if key == "finding" else pl.Schema()
        for name, kind in kinds_of(item.options.get(key, "")):
            if name not in columns and name not in parameters:
                hint = did_you_mean(name, {*columns, *parameters})
                raise ConfigError(path, f"no column or parameter '{name}'.{hint}")
            if kind is None or kind in KINDS:
                continue
            if kind.count("|") != 1:
                problem = f"'{{{name}:{kind}}}' tells no kind of value"
                known = f"{' '.join(KINDS)}, or what is said of one|of others"
                raise ConfigError(path, f"{problem}; there are {known}")
            held = columns[name] if name in columns else pl.Series([parameters[name]]).dtype
            if not held.is_numeric() and held != pl.Null:
                raise ConfigError(path, f"'{{{name}:{kind}}}' counts, but '{name}' is {held}")


def _kind_of(
    item: ReportItem, key: str, schema: pl.Schema, parameters: Mapping[str, Any]
) -> pl.DataType:
    """Return the type of what an expression of a finding is for a row."""
    path = f"{item.path}.{key}"
    expression = parse(item.options[key], path, parameters)
    try:
        return pl.DataFrame(schema=schema).select(expression.alias(key)).schema[key]
    except pl.exceptions.PolarsError as error:
        raise ConfigError(path, " ".join(str(error).partition("\n\n")[0].split())) from error


def _check_axes(item: ReportItem, schema: pl.Schema) -> None:
    kind = CHARTS[item.options["chart"]]
    shown: dict[str, str] = {}
    for role in (*kind.roles, *kind.optional):
        path, column = f"{item.path}.{role}", item.options.get(role)
        if column is None:
            continue
        _check_column(column, path, schema)
        _check_number(column, path, schema, wanted=kind.is_number(role))
        if column in shown and role in kind.roles:
            raise ConfigError(path, f"shows '{column}', as {shown[column]} does")
        shown[column] = role
    if kind.columns:
        for position, column in enumerate(item.options["columns"]):
            path = f"{item.path}.columns[{position}]"
            _check_column(column, path, schema)
            _check_number(column, path, schema, wanted=kind.numbers)


def _check_number(column: str, path: str, schema: pl.Schema, *, wanted: bool) -> None:
    if wanted and not schema[column].is_numeric():
        raise ConfigError(path, f"expected numbers, but '{column}' is {schema[column]}")


def _check_column(column: str, path: str, schema: pl.Schema) -> None:
    if column not in schema:
        raise ConfigError(path, f"no column '{column}'.{did_you_mean(column, schema)}")
