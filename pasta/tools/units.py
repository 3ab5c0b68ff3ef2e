"""Numbers for people: times, sizes and shares in readable units; exact values stay in JSON.

A column's name tells its unit: `_ns` (also `dur`) is a time, `bytes` a size, `share` a
fraction shown in percent, `address` and `pc` an address shown in hexadecimal, `flops_per_second`,
`roof` (that of a roofline) and `bytes_per_second` a rate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pasta.errors import ConfigError

LONGEST_NAME = 80
NO_DEVICE = -1
"""The device of memory of the host, and of work of which none is recorded."""

_FIELD = re.compile(r"\{([A-Za-z_]\w*)(?::([^}]*))?\}")
_TIMES = (
    (3_600_000_000_000, "h"),
    (60_000_000_000, "min"),
    (1_000_000_000, "s"),
    (1_000_000, "ms"),
    (1_000, "us"),
)
_SIZES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_THOUSANDS = ((10**15, "P"), (10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
_RATES = {"flop/s", "B/s"}
KINDS = ("time", "bytes", "%", ",", "address", *sorted(_RATES), "raw")
"""How a template may say that a value is shown."""


def human(value: Any, column: str, kind: str | None = None) -> str:
    """Return `value` as a person reads it; `kind` overrides what the column's name says.

    Kinds: those of `KINDS`, of which `,` is a number with thousands separators.
    """
    if value is None:
        return "-"
    if isinstance(value, bool | str) or kind == "raw":
        return printable(str(value))
    if isinstance(value, list):
        return printable(", ".join(str(item) for item in value))
    if column == "device" and value == NO_DEVICE:
        return "host or unknown"
    kind = kind or unit_of(column)
    if kind == "time":
        return _scaled(value, _TIMES, "ns")
    if kind == "bytes":
        return _scaled(value, _SIZES, "B")
    if kind in _RATES:
        return _scaled(value, [(size, f"{prefix}{kind}") for size, prefix in _THOUSANDS], kind)
    if kind == "%":
        return _percent(100 * value)
    if kind == "address":
        return hex(value)
    if isinstance(value, int):
        return str(value) if kind == "id" else f"{value:,}"
    return f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"


_UNITS = {"_ns": " time", "_bytes": " bytes"}
"""What the end of a column's name tells of its unit, in a word."""


def unit_of(column: str) -> str | None:
    """Return the kind of number that a column of this name holds."""
    if column == "dur" or column.endswith("_ns"):
        return "time"
    if column == "ts" or column.endswith("_ts"):
        return "id"
    if column in ("flops_per_second", "roof"):
        return "flop/s"
    if column == "bytes_per_second":
        return "B/s"
    if column == "bytes" or column.endswith("_bytes") or column.startswith("bytes_"):
        return "bytes"
    if column == "share" or column.endswith("_share"):
        return "%"
    if column in ("address", "pc") or column.endswith(("_address", "_pc")):
        return "address"
    if column in ("rank", "pid", "tid", "device", "stream") or column.endswith(("_id", "_pid")):
        return "id"
    return None


def heading(column: str, beside: Iterable[str] = ()) -> str:
    """Return a column's name as a heading; the unit goes, since values show it.

    Args:
        column: the name.
        beside: the columns of the table; where another would have the same heading, a word tells the unit.
    """
    bare = _without_unit(column)
    if any(_without_unit(other) == bare for other in beside if other != column):
        bare = next((bare + word for unit, word in _UNITS.items() if column.endswith(unit)), bare)
    return bare.replace("_", " ")


def _without_unit(column: str) -> str:
    for unit in _UNITS:
        column = column.removesuffix(unit)
    return column


def shorten(text: str, width: int = LONGEST_NAME) -> str:
    """Cut the middle out of a text that is too long, so that both ends stay readable."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 3
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def fields_of(template: str) -> list[str]:
    """Return the names in the braces of a template."""
    return [name for name, _ in kinds_of(template)]


def kinds_of(template: str) -> list[tuple[str, str | None]]:
    """Return the names in the braces of a template, each with what is behind its colon."""
    return [(match.group(1), match.group(2)) for match in _FIELD.finditer(template)]


def printable(text: str) -> str:
    """Replace control characters, with which a name could drive the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == " " else "\ufffd" for c in text)


def fill_template(
    template: str, row: Mapping[str, Any], path: str, parameters: Mapping[str, Any]
) -> str:
    """Replace `{column}` and `{column:kind}` by values of `row`; long names lose their middle.

    `{column:one|many}` is a number with what is said of one, or else of others, as `{n:call takes|calls take}`.

    `device {device}` is `the host or an unknown device` where it is none.

    Raises:
        ConfigError: the template names neither a column of the row nor a parameter.
    """

    def value(match: re.Match[str]) -> str:
        name, kind = match.group(1), match.group(2)
        if name not in row and name not in parameters:
            known = ", ".join([*row, *parameters])
            raise ConfigError(path, f"'{template}' names '{name}'; there are: {known}")
        found = row[name] if name in row else parameters[name]
        if kind is not None and "|" in kind:
            return _counted(found, name, *kind.split("|", 1))
        return shorten(human(found, name, kind)) if name in row else human(found, name, kind)

    if row.get("device") == NO_DEVICE:
        template = template.replace("device {device}", "the host or an unknown device")
    return _FIELD.sub(value, template)


def _counted(value: Any, column: str, one: str, many: str) -> str:
    number = human(value, column)
    return f"{number} {one if number == '1' else many}"


def _percent(value: float) -> str:
    """Return one digit after the point, or two that count where that would turn little into nothing."""
    return f"{value:.2g} %" if value and abs(value) < 0.05 else f"{value:.1f} %"


def _scaled(value: float, units: Sequence[tuple[int, str]], base: str) -> str:
    for size, unit in units:
        if abs(value) >= size:
            return f"{value / size:.2f} {unit}"
    return f"{value:,.0f} {base}" if float(value).is_integer() else f"{value:,.1f} {base}"
