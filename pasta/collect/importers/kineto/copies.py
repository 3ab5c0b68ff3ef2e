"""What a copy moves from where to where, as its event's name and arguments tell."""

from __future__ import annotations

import re
from functools import lru_cache

_SHORT = re.compile(r"(?:Memcpy|Copy)\s*(\w+)\s*(?:\(([^()]*)\))?")
_LONG = re.compile(r"(Host|Device|Peer|Array)To(Host|Device|Peer|Array)")
_MEMSET = re.compile(r"memset\s*(?:\(([^()]*)\))?", re.IGNORECASE)
_MTIA_DIRECTIONS = {
    "DEVICE_TO_HOST": "DtoH",
    "HOST_TO_DEVICE": "HtoD",
    "DEVICE_TO_DEVICE": "DtoD",
}


@lru_cache(maxsize=4096)
def copy_kind(name: str, kind: str | None, direction: str | None) -> tuple[str, str, str]:
    """Return the kind of a copy and its kinds of source and destination memory.

    Args:
        name: as `Memcpy HtoD (Pageable -> Device)`, `Memset (Device)` or `CopyHostToDevice`.
        kind: the argument of that name, as ROCm has it.
        direction: the argument of that name, as MTIA has it.
    """
    if direction is not None:
        return _MTIA_DIRECTIONS.get(direction, direction), "", ""
    if memset := _MEMSET.match(name):
        return "memset", "", (memset[1] or "").lower()
    if long_form := _LONG.search(name):
        return f"{long_form[1][0]}to{long_form[2][0]}", "", ""
    short = _SHORT.match(name)
    if short is None:
        return kind or name, "", ""
    source, _, destination = (short[2] or "").lower().partition(" -> ")
    return short[1], source, destination
