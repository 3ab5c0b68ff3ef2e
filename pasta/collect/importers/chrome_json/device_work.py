"""What a device's event did, as its name and arguments tell."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

_COPY = re.compile(r"(?:hip|cuda|cu)?(?:mem ?cpy|mem ?set|copy(?:Host|Device))", re.IGNORECASE)
_DMA = re.compile(r" Dma[IO]$")
_MEMSET = re.compile(r"mem ?set", re.IGNORECASE)
_DIRECTION = re.compile(r"([HDP])(?:to|2|ostTo|eviceTo|eerTo)([HDP])", re.IGNORECASE)
_DETAIL = re.compile(r"(\w+):(\S+)")
_COUNTS = {"regs": "registers", "static_shared": "static", "dynamic_shared": "dynamic"}
_BYTES = ("bytes", "Bytes", "size", "num_bytes", "bytes_transferred")
_LARGEST = (1 << 32) - 1


class Launch(NamedTuple):
    """What a kernel's arguments say of its launch; `None` where they do not."""

    grid: tuple[int | None, int | None, int | None] = (None, None, None)
    block: tuple[int | None, int | None, int | None] = (None, None, None)
    registers: int | None = None
    static: int | None = None
    dynamic: int | None = None


def is_copy(name: str) -> bool:
    """Tell from its name whether a device's event moves or sets memory."""
    return _COPY.match(name) is not None or _DMA.search(name) is not None


@lru_cache(maxsize=1 << 12)
def copy_kind(name: str) -> str:
    """Return `HtoD` and the like, `memset`, else the name."""
    if _MEMSET.search(name):
        return "memset"
    direction = _DIRECTION.search(name)
    if direction:
        return f"{direction[1].upper()}to{direction[2].upper()}"
    return name.rpartition(" ")[2] if _DMA.search(name) else name


def copy_bytes(arguments: dict[str, Any]) -> int | None:
    """Return the bytes that a copy's arguments tell."""
    details = dict(_DETAIL.findall(str(arguments.get("memcpy_details", ""))))
    for name in _BYTES:
        size = whole(arguments.get(name, details.get(name)))
        if size is not None:
            return size
    return None


def launch_of(arguments: dict[str, Any]) -> Launch:
    """Return the launch that arguments tell, as XLA's `kernel_details` or as single ones."""
    details = dict(_DETAIL.findall(str(arguments.get("kernel_details", ""))))
    counts = {name: _small(details.get(key)) for key, name in _COUNTS.items()}
    grid = _triple(details.get("grid", arguments.get("grid")))
    block = _triple(details.get("block", arguments.get("block")))
    return Launch(grid, block, **counts)


def whole(value: Any) -> int | None:
    """Return a number that is whole, not negative and fits 63 bits, from whatever it is written as."""
    try:
        number = int(str(value))
    except ValueError:
        return None
    return number if 0 <= number < 1 << 63 else None


def _small(value: Any) -> int | None:
    number = whole(value)
    return number if number is not None and number <= _LARGEST else None


def _triple(value: Any) -> tuple[int | None, int | None, int | None]:
    sizes = value if isinstance(value, list) else str(value or "").split(",")
    x, y, z = [*map(_small, sizes[:3]), None, None, None][:3]
    return x, y, z
