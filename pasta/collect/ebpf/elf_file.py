"""What an ELF file says of its functions: where they are, how they are called, how they begin."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

X86_64 = 62
_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_LOAD, _NOTES, _SYMBOLS, _DYNAMIC_SYMBOLS = 1, 7, 2, 11
_SYMBOL = np.dtype(
    [
        ("name", "<u4"),
        ("info", "u1"),
        ("other", "u1"),
        ("section", "<u2"),
        ("value", "<u8"),
        ("size", "<u8"),
    ]
)
_FUNCTION, _INDIRECT = 2, 10


class Section(NamedTuple):
    """A section of the file: its type, its bytes, the section it refers to, and its name."""

    kind: int
    offset: int
    size: int
    link: int
    name: str


class Segment(NamedTuple):
    """A part of the file that is loaded: its bytes and where they are wanted."""

    offset: int
    size: int
    address: int


class ElfFile:
    """An ELF file of 64 bits, little-endian.

    Args:
        path: the file.

    Attributes:
        machine: the architecture by ELF's number.

    Raises:
        OSError: it cannot be read.
        ValueError: it is none, or is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bytes = np.memmap(path, np.uint8, "r") if path.stat().st_size else b""
        if bytes(self._bytes[:6]) != _MAGIC:
            raise ValueError(f"{path}: no ELF file of 64 bits, little-endian")
        try:
            header = _HEADER.unpack(self._part(0, _HEADER.size))
            self.machine: int = header[1]
            self._sections = self._read_sections(header[5], header[11], header[12])
            self._segments = [
                Segment(offset, size, address)
                for kind, _, offset, address, _, size, _, _ in self._table(
                    header[4], header[9], _SEGMENT
                )
                if kind == _LOAD
            ]
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: a damaged ELF file ({error})") from error

    def functions(self) -> dict[str, int]:
        """Return the address of each function by name."""
        symbols, names = self._symbols
        return {_text(names, int(symbol["name"])): int(symbol["value"]) for symbol in symbols[::-1]}

    def function_at(self, address: int) -> str:
        """Return the function that an address is in; empty: unknown."""
        symbols, names = self._symbols
        place = int(np.searchsorted(symbols["value"], np.uint64(address), side="right")) - 1
        if place < 0:
            return ""
        symbol = symbols[place]
        if address >= int(symbol["value"]) + max(int(symbol["size"]), 1):
            return ""
        return _text(names, int(symbol["name"]))

    def address_of_offset(self, offset: int) -> int:
        """Return where a byte of the file is loaded, before relocation; -1: nowhere."""
        for segment in self._segments:
            if segment.offset <= offset < segment.offset + segment.size:
                return segment.address + offset - segment.offset
        return -1

    def code(self, address: int, size: int) -> bytes:
        """Return up to `size` bytes as they are loaded at an address."""
        for segment in self._segments:
            behind = address - segment.address
            if 0 <= behind < segment.size:
                return self._part(segment.offset + behind, min(size, segment.size - behind))
        return b""

    def notes(self, section: str) -> Iterator[tuple[str, bytes]]:
        """Yield owner and content of each note in the sections of a name."""
        for found in self._sections:
            if found.kind != _NOTES or found.name != section:
                continue
            content, place = self._part(found.offset, found.size), 0
            while place + 12 <= len(content):
                name_size, size, _ = struct.unpack_from("<III", content, place)
                start = place + 12 + (name_size + 3) // 4 * 4
                yield _text(content, place + 12), content[start : start + size]
                place = start + (size + 3) // 4 * 4

    @cached_property
    def _symbols(self) -> tuple[np.ndarray[Any, Any], bytes]:
        """Functions by address, and the texts of their names: all that there are, else exported ones."""
        kinds = [section.kind for section in self._sections]
        for kind in (_SYMBOLS, _DYNAMIC_SYMBOLS):
            if kind in kinds:
                return self._functions_in(self._sections[kinds.index(kind)])
        return np.zeros(0, _SYMBOL), b""

    def _functions_in(self, table: Section) -> tuple[np.ndarray[Any, Any], bytes]:
        size = table.size // _SYMBOL.itemsize * _SYMBOL.itemsize
        symbols = np.frombuffer(self._part(table.offset, size), _SYMBOL)
        texts = self._sections[table.link]
        kinds = symbols["info"] & 15
        functions = symbols[np.isin(kinds, (_FUNCTION, _INDIRECT)) & (symbols["section"] > 0)]
        order = np.lexsort((functions["size"], functions["value"]))
        return functions[order], self._part(texts.offset, texts.size)

    def _read_sections(self, offset: int, count: int, names: int) -> list[Section]:
        rows = list(self._table(offset, count, _SECTION))
        if not rows:
            return []
        texts = self._part(rows[names][4], rows[names][5])
        return [Section(row[1], row[4], row[5], row[6], _text(texts, row[0])) for row in rows]

    def _table(self, offset: int, count: int, row: struct.Struct) -> Iterator[tuple[Any, ...]]:
        rows = self._part(offset, count * row.size)
        if len(rows) != count * row.size:
            raise IndexError(f"a table ends behind the file's end, at {offset}")
        return row.iter_unpack(rows)

    def _part(self, offset: int, size: int) -> bytes:
        return bytes(self._bytes[offset : offset + size])


def _text(texts: bytes, place: int) -> str:
    return texts[place : texts.find(b"\0", place)].decode("utf-8", "replace")
