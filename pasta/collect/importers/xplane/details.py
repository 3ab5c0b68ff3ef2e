"""What XLA writes of kernels and copies as text: `regs:32 static_shared:0 grid:8,1,1 ...`."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

_PAIR = re.compile(r"(\w+):([\w,.\-]*)")
_COPY = re.compile(r"(?:Memcpy|Copy)([HDP])(?:to|2)([HDP])", re.IGNORECASE)
_DEVICE = re.compile(r"/device:(\w+):(\d{1,6})")
_U32_MAX = (1 << 32) - 1
_I64_MAX = (1 << 63) - 1


def details(value: Any) -> dict[str, str]:
    """Return the names and values in a text of details."""
    return dict(_PAIR.findall(value)) if isinstance(value, str) else {}


def whole(value: Any, largest: int = _I64_MAX) -> int | None:
    """Return a whole number from 0 to `largest`, written out or not; `None`: it is none."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if 0 <= number <= largest else None


@lru_cache(maxsize=1 << 12)
def launch_shape(text: str) -> tuple[int | None, ...]:
    """Return what a text of `kernel_details` says, where it says it.

    Returns:
        The grid in x, y and z, the block, registers, static and dynamic shared memory.
    """
    known = details(text)
    rest = (
        whole(known.get(name), _U32_MAX) for name in ("regs", "static_shared", "dynamic_shared")
    )
    return (*sizes(known.get("grid")), *sizes(known.get("block")), *rest)


def sizes(value: str | None) -> tuple[int | None, int | None, int | None]:
    """Return a size in x, y and z, as `8,1,1`."""
    parts = [whole(part, _U32_MAX) for part in (value or "").split(",")]
    x, y, z = [*parts, None, None, None][:3]
    return x, y, z


def copy_kind(name: str) -> str:
    """Return the kind of a copy such as `MemcpyH2D`; names of other forms stay."""
    if "memset" in name.lower():
        return "memset"
    found = _COPY.search(name)
    return f"{found[1].upper()}to{found[2].upper()}" if found else name


def device_of(plane: str) -> tuple[str, int] | None:
    """Return kind and ordinal in `/device:GPU:0`; `None`: the plane is no device's."""
    found = _DEVICE.match(plane)
    return (found[1], int(found[2])) if found else None
