"""What a user says of files that no importer knows: which column is which, and in which unit.

table: kernel
unit: us
columns: {ts: start, dur: {end: stop}, name: kernel_name, device: {value: 0}}
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec
import pyarrow as pa

from pasta.errors import InputError, did_you_mean
from pasta.schema import TABLES, Column
from pasta.yaml_text import read_yaml_file

_TIMES = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
_SIZES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}  # fmt: skip
_FACTORS = {"ns": _TIMES, "bytes": _SIZES}
_SET_BY_THE_IMPORT = frozenset({"rank", "parent_id"})

_WORDS = {"object": "a mapping", "array": "a list", "str": "text", "null": "nothing"}
_EXAMPLE = "a map is as {table: kernel, unit: us, columns: {ts: start, dur: {end: stop}}}"

Value = int | float | bool | str


class _Origin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    column: str | None = None
    end: str | None = None
    value: Value | None = None
    unit: str | None = None
    values: dict[str | int, Value] | None = None


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    table: str
    columns: dict[str, str | _Origin]
    unit: Literal["ns", "us", "ms", "s"] = "ns"


class Origin(msgspec.Struct, frozen=True):
    """Where the values of a column come from.

    Attributes:
        column: the column of the file; empty: `value` is the same in every row.
        value: that value.
        factor: what a value is multiplied by, to be in the unit of the trace.
        is_end: whether the column is the end of what begins at `ts`, so that the value is the time between.
        values: what each text of the column stands for; empty: itself.
    """

    column: str = ""
    value: Value | None = None
    factor: int = 1
    is_end: bool = False
    values: dict[str, Value] = {}


class ColumnMap(msgspec.Struct, frozen=True):
    """What the columns of a file are.

    Attributes:
        table: the table that its rows go to.
        origins: by column of that table.
    """

    table: str
    origins: dict[str, Origin]

    @property
    def wanted(self) -> list[str]:
        """The columns of the file that are read."""
        return sorted({origin.column for origin in self.origins.values() if origin.column})

    def check(self, there: Iterable[str], source: str) -> None:
        """Refuse a file that lacks a column.

        Raises:
            InputError: it does.
        """
        names = list(there)
        for column, origin in self.origins.items():
            if origin.column and origin.column not in names:
                raise InputError(
                    f"{source}: has no column '{origin.column}', which the map wants for"
                    f" '{column}'.{did_you_mean(origin.column, names)}"
                )


def read_column_map(path: Path) -> ColumnMap:
    """Read a map of columns.

    Raises:
        ConfigError: the file is absent or not YAML.
        InputError: it says what no map can mean.
    """
    document = read_yaml_file(path)
    try:
        parsed = msgspec.convert(document, _Document)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InputError(f"{path}: {_in_words(str(error))}") from error
    possible_tables = TABLES.keys() - {"loss"}
    if parsed.table not in possible_tables:
        raise InputError(
            f"{path}: table: no table '{parsed.table}' to fill."
            f"{did_you_mean(parsed.table, possible_tables)}"
        )
    known = {column.name: column for column in TABLES[parsed.table].columns}
    if "ts" in known and "ts" not in parsed.columns:
        raise InputError(f"{path}: columns: lacks 'ts', the start of each row of '{parsed.table}'")
    origins = {}
    for name, given in parsed.columns.items():
        place = f"{path}: columns.{name}"
        if name not in known or name in _SET_BY_THE_IMPORT:
            possible = known.keys() - _SET_BY_THE_IMPORT
            raise InputError(
                f"{place}: '{parsed.table}' has no such column to fill.{did_you_mean(name, possible)}"
            )
        origin = given if isinstance(given, _Origin) else _Origin(column=given)
        origins[name] = _origin(origin, known[name], parsed.unit, place)
    found = ColumnMap(parsed.table, origins)
    if not found.wanted:
        raise InputError(f"{path}: columns: none of them is read from the file")
    return found


def _origin(given: _Origin, column: Column, unit: str, place: str) -> Origin:
    if sum(part is not None for part in (given.column, given.end, given.value)) != 1:
        raise InputError(f"{place}: wants one of 'column', 'end' and 'value'")
    if pa.types.is_list(column.type):
        raise InputError(f"{place}: holds lists, which a map cannot fill")
    if given.end is not None and column.name != "dur":
        raise InputError(f"{place}: 'end' is for 'dur' alone")
    factors = _FACTORS.get(column.unit, {})
    chosen = given.unit or (unit if column.unit == "ns" else None)
    if chosen is not None and chosen not in factors:
        allowed = f"one of {', '.join(factors)}" if factors else "no unit"
        raise InputError(f"{place}: unit '{chosen}' does not fit; it takes {allowed}")
    if isinstance(given.value, str) and not pa.types.is_string(column.type):
        raise InputError(f"{place}: wants a number, not the text '{given.value}'")
    return Origin(
        column=given.column or given.end or "",
        value=given.value,
        factor=factors[chosen] if chosen else 1,
        is_end=given.end is not None,
        values={str(text): meaning for text, meaning in (given.values or {}).items()},
    )


def _in_words(problem: str) -> str:
    """Return msgspec's message, `Expected X, got Y - at $.a`, as `a: expected X, got Y`."""
    what, _, where = problem.partition(" - at ")
    path = where.strip("`").removeprefix("$").lstrip(".")
    for code, word in _WORDS.items():
        what = what.replace(f"`{code}`", word)
    text = f"{what[:1].lower()}{what[1:]}; {_EXAMPLE}"
    return f"{path}: {text}" if path else text
