"""How much a run may lose against another, as a YAML file says; see docs/regress.md.

version: 1
thresholds:
  - {of: step, most: 3%}
  - {of: operator, name: aten::mm, most: 50us}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from pasta.errors import ConfigError, did_you_mean, shown
from pasta.pipeline.arguments import Nanoseconds, coerce
from pasta.yaml_text import read_document

Of = Literal["step", "device", "host", "operator", "module", "kernel", "added", "removed"]
"""What a threshold is of: the time of a step, of all device or host work in it, of each operator, module or
kernel; or the number of kernels that are new or gone."""

NAMED = ("operator", "module", "kernel")
COUNTED = ("added", "removed")

_SHARE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*%")
_ARGUMENTS: dict[str, Any] = {"of": Of, "most": Any, "name": str, "significant": bool}


@dataclass(frozen=True)
class Threshold:
    """What may grow, and by how much.

    Attributes:
        of: what it is of.
        most: the most that it may grow by: a share of what it was, ns of a step, or a number of kernels.
        is_share: whether `most` is a share.
        name: the operator, module or kernel; empty: each of them.
        significant: whether growth counts only where the steps tell it from chance.
        path: where it stands in the file.
    """

    of: Of
    most: Fraction
    is_share: bool
    name: str
    significant: bool
    path: str


@dataclass(frozen=True)
class Thresholds:
    """A file of thresholds, and parameters of the tool `diff`."""

    thresholds: tuple[Threshold, ...]
    parameters: Mapping[str, Any]


def read_thresholds(path: Path) -> Thresholds:
    """Read a file of thresholds.

    Raises:
        ConfigError: the file is absent, not YAML, or says what no threshold can mean; with the place.
    """
    return read_document(path, _thresholds)


def _thresholds(document: Any) -> Thresholds:
    top = coerce(document, dict[str, Any], "the file", {})
    _check_keys(top, ("version", "parameters", "thresholds"), "")
    if type(top.get("version")) is not int or top["version"] != 1:
        raise ConfigError("version", f"must be 1, got {shown(top.get('version'))}")
    given = top.get("thresholds")
    if not isinstance(given, list) or not given:
        raise ConfigError("thresholds", "expected a list such as [{of: step, most: 3%}]")
    found = [_threshold(item, f"thresholds[{i}]") for i, item in enumerate(given)]
    return Thresholds(
        tuple(found), coerce(top.get("parameters", {}), dict[str, Any], "parameters", {})
    )


def _threshold(item: Any, path: str) -> Threshold:
    given = coerce(item, dict[str, Any], path, {})
    _check_keys(given, _ARGUMENTS, path)
    for key in ("of", "most"):
        if key not in given:
            raise ConfigError(path, f"needs the key '{key}', as in {{of: step, most: 3%}}")
    values = {
        key: coerce(value, _ARGUMENTS[key], f"{path}.{key}", {}) for key, value in given.items()
    }
    of, name = values["of"], values.get("name", "")
    if name and of not in NAMED:
        raise ConfigError(f"{path}.name", f"only {', '.join(NAMED)} have names, not '{of}'")
    if of in COUNTED and "significant" in values:
        raise ConfigError(f"{path}.significant", f"kernels that are {of} are counted, not timed")
    most, is_share = _most(values["most"], of, f"{path}.most")
    return Threshold(of, most, is_share, name, values.get("significant", of not in COUNTED), path)


def _most(value: Any, of: Of, path: str) -> tuple[Fraction, bool]:
    if of in COUNTED:
        if type(value) is not int or value < 0:
            raise ConfigError(path, f"expected a number of kernels, from 0 on, got {shown(value)}")
        return Fraction(value), False
    match = _SHARE.fullmatch(value) if isinstance(value, str) else None
    if match is not None:
        return Fraction(match.group(1)) / 100, True
    if not isinstance(value, str):
        raise ConfigError(
            path, f"expected a share such as 3% or a time such as 50us, got {shown(value)}"
        )
    return Fraction(coerce(value, Nanoseconds, path, {})), False


def _check_keys(given: Mapping[str, Any], known: Any, path: str) -> None:
    for key in given:
        if key not in known:
            raise ConfigError(
                f"{path}.{key}" if path else key, f"unknown key.{did_you_mean(key, known)}"
            )
