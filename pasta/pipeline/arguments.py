"""YAML values turned into what a stage's annotations ask for, with the key's path in messages."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NewType

import polars as pl

from pasta.errors import ConfigError, did_you_mean
from pasta.pipeline.expressions import Measure, parse, parse_measure
from pasta.pipeline.stage import Stage

Nanoseconds = NewType("Nanoseconds", int)
"""A duration; YAML may say `10ms`."""

Bytes = NewType("Bytes", int)
"""A size; YAML may say `2MiB` or `40GB`."""

_TIME = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
_SIZE = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_NUMBER_WITH_UNIT = re.compile(r"(\d+)(?:\.(\d+))?\s*([A-Za-z]*)")


def bind(
    stage: Stage, raw: Mapping[str, Any], path: str, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the stage's keyword arguments from the YAML mapping `raw`.

    Raises:
        ConfigError: an argument is unknown, missing or of the wrong type; with its key's path.
    """
    for name in raw:
        if name not in stage.arguments:
            hint = did_you_mean(name, stage.arguments)
            raise ConfigError(f"{path}.{name}", f"stage '{stage.name}' has no such argument.{hint}")
    bound = {}
    for name, argument in stage.arguments.items():
        if name in raw:
            bound[name] = coerce(raw[name], argument.annotation, f"{path}.{name}", parameters)
        elif argument.required:
            raise ConfigError(path, f"stage '{stage.name}' needs the argument '{name}'")
        else:
            bound[name] = argument.default
    return bound


def coerce(value: Any, annotation: Any, path: str, parameters: Mapping[str, Any]) -> Any:
    """Return `value` as `annotation` wants it; `$name` is replaced by a parameter."""
    if annotation is pl.Expr:
        return parse(value, path, parameters)
    if annotation is Measure:
        return parse_measure(value, path, parameters)
    if isinstance(value, str) and value.startswith("$"):
        value = _parameter(value, path, parameters)
    origin, options = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return coerce(value, options[0], path, parameters)
    if origin is list:
        items = value if isinstance(value, list) else [value]
        return [
            coerce(item, options[0], f"{path}[{i}]", parameters) for i, item in enumerate(items)
        ]
    if origin is dict:
        return _mapping(value, options[1], path, parameters)
    if origin in (typing.Union, types.UnionType):
        return _union(value, options, path, parameters)
    if origin is Literal:
        if value not in options:
            raise ConfigError(
                path, f"expected one of {', '.join(map(str, options))}, got {value!r}"
            )
        return value
    if annotation is Any:
        return value
    return _scalar(value, annotation, path)


def _parameter(value: str, path: str, parameters: Mapping[str, Any]) -> Any:
    name = value[1:]
    if name not in parameters:
        raise ConfigError(path, f"no parameter '{name}'.{did_you_mean(name, parameters)}")
    return parameters[name]


def _mapping(value: Any, inner: Any, path: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(path, f"expected a mapping, got {value!r}")
    return {
        str(key): coerce(item, inner, f"{path}.{key}", parameters) for key, item in value.items()
    }


def _union(value: Any, options: tuple[Any, ...], path: str, parameters: Mapping[str, Any]) -> Any:
    if value is None and type(None) in options:
        return None
    problems = []
    for option in options:
        if option is type(None):
            continue
        try:
            return coerce(value, option, path, parameters)
        except ConfigError as error:
            problems.append(error)
    raise problems[-1]


def _scalar(value: Any, annotation: Any, path: str) -> Any:
    if annotation is Nanoseconds:
        return quantity(value, _TIME, path, "a duration such as 10ms")
    if annotation is Bytes:
        return quantity(value, _SIZE, path, "a size such as 2MiB")
    if annotation is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    matches: bool = isinstance(value, annotation) and (
        annotation is bool or not isinstance(value, bool)
    )
    if not matches:
        raise ConfigError(path, f"expected {annotation.__name__}, got {value!r}")
    return value


def quantity(value: Any, units: Mapping[str, int], path: str, expected: str) -> int:
    """Return a number with a unit as an integer in the base unit, exactly."""
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    match = _NUMBER_WITH_UNIT.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or (match.group(3) and match.group(3) not in units):
        raise ConfigError(path, f"expected {expected} (units: {', '.join(units)}), got {value!r}")
    whole, fraction, unit = match.group(1), match.group(2) or "", match.group(3)
    scaled = int(whole + fraction) * (units[unit] if unit else 1)
    divisor: int = 10 ** len(fraction)
    exact, rest = divmod(scaled, divisor)
    if rest:
        raise ConfigError(path, f"{value!r} is not a whole number of base units")
    return exact


PARAMETER_TYPES: dict[str, Any] = {
    "int": int,
    "float": float,
    "string": str,
    "bool": bool,
    "duration": Nanoseconds,
    "bytes": Bytes,
}
"""The `type` of a tool's parameter -> what its value becomes."""


def parameter_value(value: Any, kind: str, path: str) -> Any:
    """Return a parameter's value from YAML, or from the text that `--set` gives."""
    if isinstance(value, str) and kind in ("int", "float", "bool"):
        try:
            if kind == "bool":
                value = {"true": True, "false": False}[value.lower()]
            else:
                value = int(value) if kind == "int" else float(value)
        except (ValueError, KeyError) as error:
            raise ConfigError(path, f"expected {kind}, got {value!r}") from error
    return _scalar(value, PARAMETER_TYPES[kind], path)
