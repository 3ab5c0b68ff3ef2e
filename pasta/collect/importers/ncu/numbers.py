"""Numbers, sizes and times as Nsight Compute prints them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal

from pasta.collect.shaping.decimal_time import LIMIT

_NUMBER = re.compile(r"-?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?")
_SWAPPED = str.maketrans(".,", ",.")
_COMMA_IS_THE_POINT = re.compile(r"-?\d[\d.]*,\d{1,2}|-?\d{1,3}(\.\d{3}){2,}|-?\d{1,3}\.\d{3},\d+")
_LONGEST = 64
_INSTANCE = re.compile(r"(0x[0-9a-fA-F]+|\d[\d.,]*)\s*[:=]\s*(-?\d[\d.,]*)")
_TRIPLE = re.compile(r"\(?\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\)?")
_NANOSECONDS = {
    **dict.fromkeys(("ns", "nsecond"), 1),
    **dict.fromkeys(("us", "usecond"), 1_000),
    **dict.fromkeys(("ms", "msecond"), 1_000_000),
    **dict.fromkeys(("s", "second"), 1_000_000_000),
}


def comma_is_the_point(cells: Iterable[str]) -> bool:
    """Tell whether numbers are printed as `1.234,50`: ncu follows the user's locale."""
    return any(_COMMA_IS_THE_POINT.fullmatch(cell) for cell in cells)


def number(cell: str, *, comma: bool = False) -> Decimal | None:
    """Return what a cell says exactly; `None`: it is no number.

    Values of single instances, which follow in parentheses, are left out.

    Args:
        cell: digits, with or without separators of thousands.
        comma: whether a comma stands before the fraction, and points between thousands.
    """
    plain = cell.partition(" (")[0].strip()
    if comma:
        plain = plain.translate(_SWAPPED)
    if len(plain) > _LONGEST or not _NUMBER.fullmatch(plain):
        return None
    return Decimal(plain.replace(",", ""))


def instances(cell: str, *, comma: bool = False) -> Iterator[tuple[int, Decimal]]:
    """Yield the values of single instances by number, as in `44 (0x1a0: 12; 0x1b0: 32)`."""
    for found in _INSTANCE.finditer(cell.partition(" (")[2]):
        key = (
            Decimal(int(found[1], 16))
            if found[1].startswith("0x")
            else number(found[1], comma=comma)
        )
        value = number(found[2], comma=comma)
        if key is not None and value is not None:
            yield int(key), value


def triple(cell: str) -> tuple[int, int, int] | None:
    """Return a size in x, y and z, as `(64, 2, 1)`; `None`: it is none."""
    found = _TRIPLE.fullmatch(cell.strip()) if len(cell) <= _LONGEST else None
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def nanoseconds(value: Decimal, unit: str) -> int | None:
    """Return a time in ns; `None`: the unit is no time, or the time no whole number of ns.

    A time that is negative or of more than 73 years is none either.
    """
    factor = _NANOSECONDS.get(unit)
    if factor is None or value * factor != int(value * factor):
        return None
    return int(value * factor) if 0 <= value * factor < LIMIT else None
