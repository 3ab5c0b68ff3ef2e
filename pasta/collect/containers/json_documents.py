"""Reading one JSON document of bounded size, whole or cut short."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from itertools import chain
from typing import TypeVar, cast

import msgspec

from pasta.collect.containers.json_repair import repaired, valid_utf8
from pasta.collect.losses import Losses
from pasta.collect.sources import Source
from pasta.errors import InputError

DOCUMENT_BYTES_MAX = 128 << 20
SMALL_BYTES_MAX = 16 << 20
"""Up to which a document is read whole even where it can be read in pieces."""

_DEPTH_MAX = 900
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|["{}\[\],]', re.DOTALL)
_PLACE = re.compile(r"\(byte (\d+)\)")

_REPAIRED = "infinities read as null, control characters and bad escapes replaced"
_CLOSED = "what stands before is kept, all else is left out"

T = TypeVar("T")


def is_small(source: Source) -> bool:
    """Tell whether a source has at most `SMALL_BYTES_MAX` bytes; it can still be read from its start."""
    begin: list[bytes] = []
    size = 0
    for chunk in source.chunks:
        begin.append(chunk)
        size += len(chunk)
        if size > SMALL_BYTES_MAX:
            break
    source.chunks = chain(begin, source.chunks)
    return size <= SMALL_BYTES_MAX


def read_document(source: Source, decode: Callable[[bytes], T], losses: Losses) -> T:
    """Decode a source that is one JSON document; one that is cut is closed where it still makes sense.

    Args:
        source: what is read.
        decode: decodes it, as a decoder of msgspec does.
        losses: where damage is counted.

    Raises:
        InputError: it is too large, nested too deeply, or cannot be decoded however it is closed.
    """
    text = _text(source, losses)
    try:
        return decode(text)
    except RecursionError as error:
        raise InputError(f"{source.name}: JSON nested too deeply") from error
    except msgspec.ValidationError as error:
        raise InputError(f"{source.name}: is of another form ({error})") from error
    except msgspec.DecodeError as error:
        place = _PLACE.search(str(error))
        sound = int(place[1]) if place else len(text)
    for candidate, done in (
        (repaired(text), _REPAIRED),
        (_closed(repaired(text[:sound])), _CLOSED),
    ):
        try:
            document = decode(candidate)
        except (msgspec.DecodeError, RecursionError):
            continue
        cause = "; ".join(source.damage) or "damaged JSON"
        losses.fault(f"{cause}: {done}", where=f"byte {sound}")
        return document
    raise InputError(f"{source.name}: damaged JSON at byte {sound}; record it again")


def _text(source: Source, losses: Losses) -> bytes:
    gathered = bytearray()  # grows in place: parts and whole would be twice the memory
    for chunk in source.chunks:
        gathered += chunk
        if len(gathered) > DOCUMENT_BYTES_MAX:
            raise InputError(
                f"{source.name}: is larger than {DOCUMENT_BYTES_MAX >> 20} MiB, too large for a"
                " format that is read whole; record less"
            )
    if gathered.startswith(codecs.BOM_UTF8):
        del gathered[: len(codecs.BOM_UTF8)]
    text, count, first = valid_utf8(cast("bytes", gathered))
    losses.fault("invalid UTF-8: replaced by U+FFFD", count, where=f"byte {first}")
    return text


def _closed(text: bytes) -> bytes:
    """Return the start of a damaged text up to its last whole element, closed by brackets."""
    closers: list[bytes] = []
    kept = opened_since = 0
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark == b"{":
            closers.append(b"}")
            opened_since += 1
            continue
        if mark == b"[":
            closers.append(b"]")
            kept, opened_since = token.end(), 0
        elif mark in (b"}", b"]"):
            if closers[-1:] != [mark]:
                break
            closers.pop()
            kept, opened_since = token.end(), 0
        elif mark == b",":
            kept, opened_since = token.start(), 0
        elif mark == b'"':
            break
        if len(closers) > _DEPTH_MAX:
            break
    return text[:kept] + b"".join(reversed(closers[: len(closers) - opened_since]))
