"""The bytes of a ring: constants and headers that the writer and the reader of a channel share.

`docs/channel.md` describes them; `pasta/collect/native/pasta_channel.h` is the same in C.
"""

from __future__ import annotations

import _thread
import platform
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

MAGIC, VERSION = b"PASTARNG", 1
ALIGNMENT = 64
LAYOUT_FILE, RING_PREFIX = "layout", "ring-"

# The ring's header; the lines that producer and consumer write are counted in words of 8 bytes.
HEADER = struct.Struct("<8sIIIIIIIiQQq")
FULL_BATCHES, FULL_ROWS, FULL_SINCE, LARGE_ROWS, LARGE_SINCE = range(8, 13)
RELEASED, CLOSED, BLOCK_NS = range(16, 19)
TABLES_AT = 192
TABLE, COLUMN = struct.Struct("<48sIIII"), struct.Struct("<56sII")

# A slot's header; commit and begun are words, the rest is covered by the checksum.
COMMIT, BEGUN = 0, 1
BATCH, BATCH_AT = struct.Struct("<QIIII"), 16
CHECKSUM, CHECKSUM_AT = struct.Struct("<I"), 40
REGIONS_AT, REGION_BYTES = 64, 8

U8, U16, U32, U64, I8, I16, I32, I64, F32, F64, BOOL, UTF8, LIST_UTF8, LIST_I64 = range(1, 15)
FORMATS = dict(zip(range(U8, BOOL), "BHIQbhiqfd", strict=True))
WIDTHS = {code: struct.calcsize(f"={letter}") for code, letter in FORMATS.items()}
REGION_COUNTS = {**dict.fromkeys(range(U8, UTF8), 2), UTF8: 3, LIST_UTF8: 4, LIST_I64: 3}


class Header(NamedTuple):
    """What a ring's first line says."""

    magic: bytes
    version: int
    header_bytes: int
    slot_bytes: int
    slots: int
    tables: int
    columns: int
    checksum: int
    rank: int
    pid: int
    tid: int
    created: int


@dataclass(frozen=True)
class TableLayout:
    """One table as a ring's header describes it; columns map to (type code, first region)."""

    name: str
    index: int
    columns: dict[str, tuple[int, int]]
    regions: int


def read_layout(header: bytes | memoryview) -> tuple[Header, dict[str, TableLayout]]:
    """Return the first line and the tables of a ring's header.

    Raises:
        ValueError: it is no header of this version, or damaged.
    """
    if len(header) < TABLES_AT:
        raise ValueError("shorter than a header")
    head = Header(*HEADER.unpack_from(header))
    if head.magic != MAGIC or head.version != VERSION:
        raise ValueError(f"not a ring of version {VERSION}")
    columns_at = TABLES_AT + TABLE.size * head.tables
    end = columns_at + COLUMN.size * head.columns
    if end > head.header_bytes or head.header_bytes > len(header):
        raise ValueError("shorter than its header says")
    if zlib.crc32(header[TABLES_AT:end]) != head.checksum:
        raise ValueError("its columns are damaged")
    columns = [COLUMN.unpack_from(header, at) for at in range(columns_at, end, COLUMN.size)]
    tables = {}
    for index in range(head.tables):
        raw, first, count, regions, _ = TABLE.unpack_from(header, TABLES_AT + TABLE.size * index)
        own = {_text(name): (code, at) for name, code, at in columns[first : first + count]}
        tables[_text(raw)] = TableLayout(_text(raw), index, own, regions)
    return head, tables


def _text(padded: bytes) -> str:
    return padded.rstrip(b"\0").decode()


def align(size: int) -> int:
    """Return `size` rounded up to the alignment of buffers."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def make_fence() -> Callable[[], None]:
    """Return a function before which all memory accesses happen before those after it.

    x86 keeps the order of stores and of loads by itself. Elsewhere a lock that is always held is
    released and taken again: nothing moves down past the release nor up past the acquisition.
    """
    if platform.machine() in ("x86_64", "AMD64", "i686"):
        return lambda: None
    lock = _thread.allocate_lock()
    lock.acquire()

    def fence() -> None:
        lock.release()
        lock.acquire()

    return fence


def batch_checksum(slot: memoryview, regions: int) -> int:
    """Return the checksum of a slot's header: what describes the batch, and its regions."""
    described = zlib.crc32(slot[BATCH_AT:CHECKSUM_AT])
    return zlib.crc32(slot[REGIONS_AT : REGIONS_AT + REGION_BYTES * regions], described)
