"""Modules of CUDA as ELF files, of no more than what pasta reads of them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

LOAD, LOAD_OF_ANOTHER_FORM, STORE, REDUCE = 0x5B4, 0x3B4, 0x3B5, 0x3B6
"""The lowest bits of instructions that copy tensors."""

BULK_COPY, PREFETCH, MOVE = 0x3BA, 0x5B8, 0x882
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")


def cubin(
    kernels: Mapping[str, Sequence[int]],
    functions: Mapping[str, Sequence[int]] = {},
    *,
    as_very_many: bool = False,
) -> bytes:
    """Return a module.

    Args:
        kernels: instructions of each kernel, of which the lowest bits are given.
        functions: the same of functions that kernels may call.
        as_very_many: say how many sections there are as a file of more than 65,279 does.
    """
    sections = [(".shstrtab", 3, b"")]
    for name, code in {**kernels, **functions}.items():
        words = (struct.pack("<QQ", 0xABCD << 48 | each, 0x1B4) for each in code)
        sections.append((f".text.{name}", 1, b"".join(words)))
    sections += [(f".nv.constant0.{name}", 1, bytes(64)) for name in kernels]
    names = b"\0".join(name.encode() for name, _, _ in sections) + b"\0"
    sections[0] = (".shstrtab", 3, names)
    contents = b"".join(content for _, _, content in sections)
    sections.insert(0, ("", 0, b""))
    table, at = b"", _HEADER.size
    for name, kind, content in sections:
        place = names.index(name.encode() + b"\0")
        table += _SECTION.pack(place, kind, 0, 0, at, len(content), 0, 0, 1, 0)
        at += len(content)
    if as_very_many:
        table = _SECTION.pack(0, 0, 0, 0, 0, len(sections), 1, 0, 0, 0) + table[_SECTION.size :]
    magic = b"\x7fELF\x02\x01\x01" + bytes(9)
    told = (0, 0xFFFF) if as_very_many else (len(sections), 1)
    counts = (_HEADER.size, 0, 0, _SECTION.size, *told)
    return _HEADER.pack(magic, 2, 190, 1, 0, 0, at, 0, *counts) + contents + table
