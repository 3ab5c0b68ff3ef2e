"""Making JSON text that breaks the rules in common ways decodable."""

from __future__ import annotations

import re

_NOT_A_NUMBER = re.compile(
    rb'("(?:[^"\\]|\\.)*+")|[-+]?\b(?:inf(?:inity)?|nan)\b', re.DOTALL | re.IGNORECASE
)
_NUMBER_LIKE = re.compile(rb"[:,\[]\s*[-+]?(?:inf|nan)", re.IGNORECASE)
_HIGH, _LOW = rb"u[dD][89abAB][0-9a-fA-F]{2}", rb"u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(
    rb'\\(?:(["\\/bfnrt]|' + _HIGH + rb"\\" + _LOW + rb"|u(?![dD][89a-fA-F])[0-9a-fA-F]{4})"
    rb"|(" + _HIGH + rb"|" + _LOW + rb")|)"
)
_TRAILING_COMMA = re.compile(rb",[\s,]*\]")
_TRAILING_COMMAS = re.compile(rb'("(?:[^"\\]|\\.)*+")|,[\s,]*(?=\])', re.DOTALL)
_CONTROL_TO_SPACE = bytes(max(byte, 32) for byte in range(256))


def without_infinities(text: bytes) -> tuple[bytes, int]:
    """Return `text` with every bare `inf` and `nan` as `null`, and their number."""
    if not _NUMBER_LIKE.search(text):
        return text, 0
    count = 0

    def replace(match: re.Match[bytes]) -> bytes:
        nonlocal count
        if match[1]:
            return match[1]
        count += 1
        return b"null"

    return _NOT_A_NUMBER.sub(replace, text), count


def without_trailing_commas(text: bytes) -> bytes:
    """Return `text` without the commas before closing brackets, as hasty writers leave them."""
    if not _TRAILING_COMMA.search(text):
        return text
    return _TRAILING_COMMAS.sub(lambda match: match[1] or b"", text)


def repaired(text: bytes) -> bytes:
    """Return `text` with infinities as null, control characters as blanks, bad escapes doubled.

    Half of a character in two escapes becomes U+FFFD.
    """
    text, _ = without_infinities(text.translate(_CONTROL_TO_SPACE))
    return _ESCAPE.sub(_repaired_escape, text)


def _repaired_escape(escape: re.Match[bytes]) -> bytes:
    if escape[1]:
        return escape[0]
    return rb"\ufffd" if escape[2] else rb"\\"


def valid_utf8(text: bytes) -> tuple[bytes, int, int]:
    """Return `text` with what is no UTF-8 as U+FFFD, how often, and the byte of the first."""
    if text.isascii():
        return text, 0, 0
    try:
        text.decode()
    except UnicodeDecodeError as error:
        sound = text.decode(errors="replace")
        count = sound.count("\ufffd") - text.count("\ufffd".encode())
        return sound.encode(), count, error.start
    return text, 0, 0
