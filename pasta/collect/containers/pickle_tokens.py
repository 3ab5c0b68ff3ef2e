"""Operations of pickles as regular expressions, to pass over many of them at once."""

from __future__ import annotations


def _prefixed(operation: bytes, zeros: int, longest: int) -> bytes:
    """Return what matches an operation with a short argument after its length."""
    lengths = (b"\\x%02x%s.{%d}" % (size, b"\\x00" * zeros, size) for size in range(longest + 1))
    return operation + b"(?:" + b"|".join(lengths) + b")"


PUT = rb"(?:\x94|q.|r.{4})?+"
REFERENCE = rb"(?:h.|j.{4})"
NUMBER = rb"(?:K.|M..|J.{4}|" + _prefixed(rb"\x8a", 0, 9) + rb"|G.{8})"
SCALAR = rb"(?:" + REFERENCE + rb"|" + NUMBER + rb"|[N\x88\x89])"
PAIR = rb"(?:" + SCALAR + rb"{2}\x86" + PUT + rb")"
REFERENCES = rb"(?:\]" + PUT + rb"(?:\(" + REFERENCE + rb"++e|" + REFERENCE + rb"a)?+)"
SIMPLE = rb"(?:" + SCALAR + rb"|" + REFERENCES + rb")"
VALUE = rb"(?:" + REFERENCES + rb"|" + PAIR + rb"|" + SCALAR + rb")"
RECORD = rb"\}" + PUT + rb"\(((?:" + REFERENCE + VALUE + rb")++)u"
"""A dict of plain values, pairs and lists of references; its items are the group."""

OTHER = (
    rb"(?:h.|"
    + NUMBER
    + rb"|[\]\}\x94eustal)N\x88\x89\x85-\x87]|\((?!"
    + REFERENCE
    + rb"++e)|q.|r.{4}|"
    + _prefixed(rb"\x8c", 0, 64)
    + rb"|"
    + _prefixed(rb"X", 3, 64)
    + rb"|\x95.{8})"
)
"""Any operation that fetches nothing, or one of the first 256 numbers, but marks."""
