"""Events of Chrome's trace format, as they stand in the file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw, Struct

ABSENT = Raw(b"null")
"""Stands for a value that an event lacks, where values stay raw."""


class Event(Struct, gc=False):
    """One event of any phase; `ts` and `dur` are decimal microseconds."""

    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: Raw = ABSENT
    dur: Raw = ABSENT
    id: Any = None
    id2: Any = None
    args: Raw = ABSENT
    attr: Raw = ABSENT


decode_events: Callable[[bytes], list[Event]] = msgspec.json.Decoder(list[Event]).decode
"""Decodes an array of events."""

_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


def arguments_of(text: bytes | Raw) -> dict[str, Any]:
    """Return the arguments of an event; what is no object counts as none."""
    try:
        return _decode_object(text)
    except (msgspec.DecodeError, RecursionError):
        return {}
