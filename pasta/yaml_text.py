"""YAML as pasta reads it: safe, no key twice, `true` and `false` the only truth values, and `1e-8` a number."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml

from pasta.errors import ConfigError

MAXIMUM_BYTES = 1 << 20
"""A larger file is none that a person wrote."""

Meaning = TypeVar("Meaning")
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml_file(path: Path) -> Any:
    """Return the document in a file.

    Raises:
        ConfigError: the file is absent, too large or not YAML.
    """
    try:
        if path.stat().st_size > MAXIMUM_BYTES:
            raise ConfigError(str(path), f"larger than {MAXIMUM_BYTES} bytes; not read as YAML")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), f"cannot be read ({error})") from error
    try:
        return read_yaml(text)
    except ConfigError as error:
        raise error.within(f"{path}: ") from error


def read_document(path: Path, parse: Callable[[Any], Meaning]) -> Meaning:
    """Return what `parse` makes of the document in a file, whose errors then name the file.

    Raises:
        ConfigError: the file is absent, too large or not YAML, or says what it can't mean.
    """
    document = read_yaml_file(path)
    try:
        return parse(document)
    except ConfigError as error:
        raise error.within(f"{path}: ") from error


def read_yaml(text: str) -> Any:
    """Return the document in `text`; truth values are those of YAML 1.2, as are numbers with an exponent.

    Raises:
        ConfigError: it is not YAML, or says what no value can be, as the month 99.
    """
    try:
        return yaml.load(text, _Loader)  # noqa: S506 (a SafeLoader)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise ConfigError("", f"not valid YAML: {' '.join(str(error).split())}") from error


class _Loader(_SafeLoader):  # type: ignore[misc] # the C parser where PyYAML has it
    """A safe loader that refuses a key given twice, which YAML would silently overwrite."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 (overridden)
        """Return the mapping, of which no key may stand twice."""
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, str | int) and key in seen:
                line = key_node.start_mark.line + 1
                raise ConfigError(str(key), f"the key stands twice (line {line}); name it once")
            if isinstance(key, str | int):
                seen.add(key)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return mapping


_BOOLEAN = "tag:yaml.org,2002:bool"
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOLEAN]
    for first, resolvers in _SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOLEAN, re.compile("^(?:true|false)$"), list("tf"))
_WITH_EXPONENT = re.compile(r"^[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+$")
"""Numbers as `1e-8` and `1.5e3`, which YAML 1.2 knows and YAML 1.1 takes for text."""
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _WITH_EXPONENT, list("-+.0123456789"))
