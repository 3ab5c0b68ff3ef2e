"""YAML values turned into what a stage's annotations ask for, with the key's path in messages."""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, NewType

import polars as pl

from pasta.errors import ConfigError, did_you_mean, shown
from pasta.pipeline.expressions import Measure, parse, parse_measure
from pasta.pipeline.sql_text import unusable
from pasta.pipeline.stage import Stage

Nanoseconds = NewType("Nanoseconds", int)
"""A duration; YAML may say `10ms`."""

Bytes = NewType("Bytes", int)
"""A size; YAML may say `2MiB` or `40GB`."""

Inner = Callable[[Any, Any, str], Any]
"""Takes an item of a list or a mapping, its annotation and its path, and returns it coerced."""

_TIME = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
_SIZE = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_NUMBER_WITH_UNIT = re.compile(r"(\d{1,30})(?:\.(\d{1,30}))?\s*([A-Za-z]*)")


class Arguments(dict[str, Any]):
    """What a stage is called with; it is not changed once it is bound."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what they are, and nothing that is derived from it."""
        return Arguments, (dict(self),)

    @cached_property
    def identity(self) -> Any:
        """What they say, to be compared and hashed; made once, as it takes expressions written out."""
        return identity(dict(self))


def bind(
    stage: Stage, raw: Mapping[str, Any], path: str, parameters: Mapping[str, Any]
) -> Arguments:
    """Return the stage's keyword arguments from the YAML mapping `raw`.

    Raises:
        ConfigError: an argument is unknown, missing or of the wrong type; with its key's path.
    """
    for name in raw:
        if name not in stage.arguments:
            hint = did_you_mean(name, stage.arguments)
            raise ConfigError(f"{path}.{name}", f"stage '{stage.name}' has no such argument.{hint}")
    bound = Arguments()
    for name, argument in stage.arguments.items():
        if name in raw:
            bound[name] = coerce(raw[name], argument.annotation, f"{path}.{name}", parameters)
        elif argument.required:
            raise ConfigError(path, f"stage '{stage.name}' needs the argument '{name}'")
        else:
            bound[name] = argument.default
    return bound


def identity(value: Any) -> Any:
    """Return what arguments, or one of them, say as something that can be compared and hashed."""
    if isinstance(value, Arguments):
        return value.identity
    if isinstance(value, pl.Expr):
        return value.meta.serialize()
    if isinstance(value, Mapping):
        return tuple((key, identity(entry)) for key, entry in value.items())
    if isinstance(value, list | tuple):
        return tuple(identity(entry) for entry in value)
    if dataclasses.is_dataclass(value):
        return tuple(identity(getattr(value, entry.name)) for entry in dataclasses.fields(value))
    return type(value).__name__, value


def coerce(value: Any, annotation: Any, path: str, parameters: Mapping[str, Any]) -> Any:
    """Return `value` as `annotation` wants it.

    A text `$name` is replaced by a parameter, at any depth; `$$text` stands for the text `$text`.

    Raises:
        ConfigError: it is nothing of the kind, or names a parameter that is not there; with the
            path of the part that is wrong.
    """
    if annotation is pl.Expr:
        return parse(value, path, parameters)
    if annotation is Measure:
        return parse_measure(value, path, parameters)
    if not (isinstance(value, str) and value.startswith("$")):

        def inner(item: Any, kind: Any, where: str) -> Any:
            return coerce(item, kind, where, parameters)

        return _fitted(value, annotation, path, inner)
    name = value[1:]
    if name.startswith("$"):
        return _plain(name, annotation, path)
    if name not in parameters:
        raise ConfigError(path, f"no parameter '{name}'.{did_you_mean(name, parameters)}")
    try:
        return _plain(parameters[name], annotation, path)
    except ConfigError as error:
        raise ConfigError(error.path, f"{error.problem} (parameter '{name}')") from error


def _plain(value: Any, annotation: Any, path: str) -> Any:
    """Return `value`, in which no `$name` is left, as `annotation` wants it."""
    return _fitted(value, annotation, path, _plain)


def _fitted(value: Any, annotation: Any, path: str, inner: Inner) -> Any:
    origin, options = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return inner(value, options[0], path)
    if origin is list:
        items = value if isinstance(value, list) else [value]
        return [inner(item, options[0], f"{path}[{i}]") for i, item in enumerate(items)]
    if origin is dict:
        return _mapping(value, options[1], path, inner)
    if origin in (typing.Union, types.UnionType):
        return _union(value, options, path, inner)
    if origin is Literal:
        if value not in options:
            raise ConfigError(
                path, f"expected one of {', '.join(map(str, options))}, got {shown(value)}"
            )
        return value
    if annotation is Any:
        return value
    return _scalar(value, annotation, path)


def _mapping(value: Any, kind: Any, path: str, inner: Inner) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(path, f"expected a mapping, got {shown(value)}")
    return {str(key): inner(item, kind, f"{path}.{key}") for key, item in value.items()}


def _union(value: Any, options: tuple[Any, ...], path: str, inner: Inner) -> Any:
    if value is None and type(None) in options:
        return None
    problems = []
    for option in options:
        if option is type(None):
            continue
        try:
            return inner(value, option, path)
        except ConfigError as error:
            problems.append(error)
    raise problems[-1]


def _scalar(value: Any, annotation: Any, path: str) -> Any:
    if annotation is Nanoseconds:
        return quantity(value, _TIME, path, "a duration such as 10ms")
    if annotation is Bytes:
        return quantity(value, _SIZE, path, "a size such as 2MiB")
    if annotation is float and isinstance(value, int) and not isinstance(value, bool):
        return float(_usable(value, path))
    matches: bool = isinstance(value, annotation) and (
        annotation is bool or not isinstance(value, bool)
    )
    if not matches:
        raise ConfigError(path, f"expected {annotation.__name__}, got {shown(value)}")
    return _usable(value, path)


def _usable(value: Any, path: str) -> Any:
    if (problem := unusable(value)) is not None:
        raise ConfigError(path, problem)
    return value


def quantity(value: Any, units: Mapping[str, int], path: str, expected: str) -> int:
    """Return a number with a unit as an integer in the base unit, exactly.

    Raises:
        ConfigError: it is no such number, is not whole in the base unit, or takes more than 64
            bits.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return int(_usable(value, path))
    match = _NUMBER_WITH_UNIT.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or (match.group(3) and match.group(3) not in units):
        raise ConfigError(
            path, f"expected {expected} (units: {', '.join(units)}), got {shown(value)}"
        )
    whole, fraction, unit = match.group(1), match.group(2) or "", match.group(3)
    scaled = int(whole + fraction) * (units[unit] if unit else 1)
    divisor: int = 10 ** len(fraction)
    exact, rest = divmod(scaled, divisor)
    if rest:
        base = next(name for name, size in units.items() if size == 1)
        raise ConfigError(path, f"{shown(value)} is not a whole number of {base}")
    return int(_usable(exact, path))


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
    """Return a parameter's value from YAML, or from the text that `--set` gives.

    Raises:
        ConfigError: it is nothing of the kind.
    """
    if isinstance(value, str) and kind in ("int", "float", "bool"):
        try:
            if kind == "bool":
                value = {"true": True, "false": False}[value.lower()]
            else:
                value = int(value) if kind == "int" else float(value)
        except (ValueError, KeyError) as error:
            raise ConfigError(path, f"expected {kind}, got {shown(value)}") from error
    return _scalar(value, PARAMETER_TYPES[kind], path)
