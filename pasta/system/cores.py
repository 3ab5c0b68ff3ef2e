"""Lists of processor cores, as Linux writes them: `0-3,8`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pasta.errors import ConfigError, shown

_PART = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)


def read_cores(text: str, path: str) -> tuple[int, ...]:
    """Return the cores that a list names, ascending.

    Args:
        text: as `0-3,8`; empty: none.
        path: where it stands, for messages.

    Raises:
        ConfigError: it is no such list.
    """
    found: set[int] = set()
    for part in filter(None, text.replace(" ", "").split(",")):
        named = _PART.fullmatch(part)
        if named is None or int(named[2] or named[1]) < int(named[1]):
            raise ConfigError(path, f"expected cores such as 0-3,8, got {shown(text)}")
        found.update(range(int(named[1]), int(named[2] or named[1]) + 1))
    return tuple(sorted(found))


def cores_text(cores: Iterable[int]) -> str:
    """Return cores as a list of ranges."""
    ranges: list[list[int]] = []
    for core in sorted(cores):
        if ranges and core == ranges[-1][1] + 1:
            ranges[-1][1] = core
        else:
            ranges.append([core, core])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in ranges)
