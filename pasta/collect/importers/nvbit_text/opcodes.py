"""What memory instructions of NVIDIA's GPUs do, as their mnemonics tell."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_READ, _WRITE, _ATOMIC, _PREFETCH = range(4)
_GLOBAL, _SHARED, _LOCAL, _GENERIC, _REMOTE_SHARED, _TEXTURE = range(6)
_SPACES = {"G": _GLOBAL, "S": _SHARED, "L": _LOCAL, "": _GENERIC}
_NAMED = {
    "LDSM": (_READ, _SHARED),
    "STSM": (_WRITE, _SHARED),
    "LDGSTS": (_READ, _GLOBAL),
    "LDGDEPBAR": None,
    "RED": (_ATOMIC, _GLOBAL),
    "REDG": (_ATOMIC, _GLOBAL),
    "REDS": (_ATOMIC, _SHARED),
    "CCTL": (_PREFETCH, _GENERIC),
    "STAS": (_WRITE, _REMOTE_SHARED),
    "SULD": (_READ, _TEXTURE),
    "SUST": (_WRITE, _TEXTURE),
    "SUATOM": (_ATOMIC, _TEXTURE),
    "SURED": (_ATOMIC, _TEXTURE),
}
_PLAIN = re.compile(r"(LD|ST|ATOM)([GSL]?)")
_OPERATIONS = {"LD": _READ, "ST": _WRITE, "ATOM": _ATOMIC}
_TEXTURE_READ = re.compile(r"(?:TEX|TLD|TLD4|TXD)S?")
_WIDTH = re.compile(r"(?:[USF]|BF)?(8|16|32|64|128|256)(?:x(2))?")
_MATRIX_BYTES, _DEFAULT_BYTES = 16, 4


class Opcode(NamedTuple):
    """A memory instruction: codes of `op` and `space` as the table `access` has them, and bytes."""

    op: int
    space: int
    bytes: int


@lru_cache(maxsize=1 << 12)
def opcode_of(mnemonic: str) -> Opcode | None:
    """Return what an instruction such as `LDG.E.64.SYS` does; `None`: it is of no known kind.

    The width is the first suffix that tells one (`.U8`, `.64`, `.F16x2`, ...), else 4 bytes; rows of
    matrices (`LDSM`, `STSM`) are 16 bytes.
    """
    name, *suffixes = mnemonic.split(".")
    if name in _NAMED:
        told = _NAMED[name]
    elif plain := _PLAIN.fullmatch(name):
        told = (_OPERATIONS[plain[1]], _SPACES[plain[2]])
    else:
        told = (_READ, _TEXTURE) if _TEXTURE_READ.fullmatch(name) else None
    if told is None:
        return None
    if name in ("LDSM", "STSM"):
        return Opcode(*told, _MATRIX_BYTES)
    widths = (found for found in map(_WIDTH.fullmatch, suffixes) if found)
    width = next((int(found[1]) * int(found[2] or 1) // 8 for found in widths), _DEFAULT_BYTES)
    return Opcode(*told, width)
