"""What all makers of inputs share."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

NAMES = 200
START_NS = 1_700_000_000_000_000_000
INSERTED_ROWS = 1 << 14

Row = tuple[Any, ...]


def write_until(path: Path, size: int, pieces: Iterable[bytes], end: bytes = b"") -> None:
    """Write pieces until a file has `size` bytes, then what ends it."""
    with path.open("wb", buffering=1 << 22) as file:
        written = 0
        for piece in pieces:
            written += file.write(piece)
            if written >= size:
                break
        file.write(end)


def json_text(value: Any) -> bytes:
    """Return a value as JSON without blanks."""
    return json.dumps(value, separators=(",", ":")).encode()
