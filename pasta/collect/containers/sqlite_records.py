"""Rows on the leaf pages of an SQLite table: where each value stands and of which type it is.

All rows of a few hundred pages are taken apart at once with numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pasta.collect.containers.sqlite_pages import Bytes, Numbers, Pages, header_at

ROW_BYTES_MAX = 4 << 20
_ROWS_BYTES_MAX = 64 << 20
_PADDING = 64
_PIECE_ROWS = 1 << 16
_PIECE_VALUES = 1 << 22
_KIND_MAX, _KIND_BYTES_MAX = 1 << 30, 5

REAL, ZERO, ONE, BLOB = 7, 8, 9, 12
_SIZES = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, _KIND_MAX, _KIND_MAX])

Lost = Callable[[str, int], None]
"""Called with what is wrong with rows, and how many they are."""


@dataclass(frozen=True)
class Records:
    """Rows that are not decoded yet.

    Attributes:
        data: the bytes in which they lie.
        start: where each row begins in them.
        size: of each row.
        rowid: the row's own number.
    """

    data: Bytes
    start: Numbers
    size: Numbers
    rowid: Numbers

    def pieces(self, columns: int) -> Iterator[Records]:
        """Yield the rows some at a time, so few that all their columns fit into memory."""
        step = max(min(_PIECE_ROWS, _PIECE_VALUES // max(columns, 1)), 1)
        for first in range(0, len(self.start), step):
            rows = slice(first, first + step)
            yield Records(self.data, self.start[rows], self.size[rows], self.rowid[rows])

    def only(self, keep: NDArray[np.bool_]) -> Records:
        """Return the rows where `keep` is true."""
        return Records(self.data, self.start[keep], self.size[keep], self.rowid[keep])


@dataclass(frozen=True)
class Fields:
    """The values of rows, column by column.

    Most rows of a table share a few forms: the same types and sizes of all values.

    Attributes:
        records: the rows that are sound.
        body: where the values of each row begin in the rows' bytes.
        form: the form of each row.
        kinds: SQLite's serial type of each value, (column, form).
        offsets: where in a row's body each value begins, (column, form).
    """

    records: Records
    body: Numbers
    form: Numbers
    kinds: Numbers
    offsets: Numbers


def records_of(pages: Pages, numbers: Numbers, content: Bytes, lost: Lost) -> Records:
    """Return the rows on leaf pages.

    Args:
        pages: the file, for what does not fit on the leaf pages.
        numbers: of the pages.
        content: their bytes.
        lost: told of rows that are left out.
    """
    data = np.concatenate([content.reshape(-1), np.zeros(_PADDING, dtype=np.uint8)])
    cells, ends = _cells(pages, numbers, data, lost)
    size, after = varints(data, cells)
    rowid, start = varints(data, after)
    large = (size < 0) | (size > ROW_BYTES_MAX)
    large |= np.cumsum(np.where(large, 0, size)) > _ROWS_BYTES_MAX
    local = np.where(large, 0, _local_bytes(size, pages.usable))
    spills = (local < size) & ~large
    sound = (start + local + 4 * spills <= ends) & ~large
    lost("row that is larger than 4 MiB", int(large.sum()))
    lost("row that is damaged", int((~sound & ~large).sum()))
    records = Records(data, start, size, rowid)
    if (spills & sound).any():
        return _joined(pages, records, local, sound, lost)
    return records if sound.all() else records.only(sound)


def fields_of(records: Records, columns: int, lost: Lost) -> Fields:
    """Return the values of rows of a table with so many columns; absent ones are null."""
    data, start, size = records.data, records.start, records.size
    header, after = varints(data, start)
    length = header - (after - start)
    sound = (length >= 0) & (header <= size) & (length <= columns * _KIND_BYTES_MAX)
    length = np.where(sound, length, 0)
    forms, form = _forms(data, after, length)
    kinds = _kinds(forms, columns)
    sizes = np.where(kinds < BLOB, _SIZES.take(np.minimum(kinds, BLOB - 1)), (kinds - 12) >> 1)
    offsets = np.cumsum(sizes, axis=0) - sizes
    body = after + length
    sound &= body + sizes.sum(axis=0)[form] <= start + size
    if not sound.all():
        lost("row that is damaged", int((~sound).sum()))
        return Fields(records.only(sound), body[sound], form[sound], kinds, offsets)
    return Fields(records, body, form, kinds, offsets)


def varints(data: Bytes, at: Numbers) -> tuple[Numbers, Numbers]:
    """Return the numbers of variable length that begin at `at`, and where each has ended."""
    values = data[at].astype(np.int64)
    after = at + 1
    rows = np.flatnonzero(values >= 128)
    if rows.size == 0:
        return values, after
    partial = values[rows] & 127
    for byte in range(1, 9):
        following = data[at[rows] + byte].astype(np.int64)
        partial = partial << 8 | following if byte == 8 else partial << 7 | following & 127
        values[rows], after[rows] = partial, at[rows] + byte + 1
        more = following >= 128
        rows, partial = rows[more], partial[more]
        if rows.size == 0:
            break
    return values, after


def pieces_at(data: Bytes, at: Numbers, size: int) -> NDArray[np.void]:
    """Return the `size` bytes from each place on; as plain bytes, which numpy gathers fastest."""
    pieces = np.ndarray((len(data) - size + 1,), f"V{size}", data.data, strides=(1,))
    found: NDArray[np.void] = pieces[at]
    return found


def _cells(pages: Pages, numbers: Numbers, data: Bytes, lost: Lost) -> tuple[Numbers, Numbers]:
    """Return where in `data` each cell begins, and where its page ends."""
    bases = np.arange(len(numbers)) * pages.size
    header = bases + header_at(numbers)
    ends = bases + pages.usable
    counts = data[header + 3].astype(np.int64) << 8 | data[header + 4]
    first = header + 8
    fitting = np.minimum(counts, (ends - first) // 2)
    page = np.repeat(np.arange(len(numbers)), fitting)
    within = np.arange(len(page)) - np.repeat(np.cumsum(fitting) - fitting, fitting)
    at = first[page] + 2 * within
    cells = bases[page] + (data[at].astype(np.int64) << 8 | data[at + 1])
    sound = (cells >= (first + 2 * fitting)[page]) & (cells < ends[page])
    lost("row that is damaged", int((counts - fitting).sum() + (~sound).sum()))
    return cells[sound], ends[page][sound]


def _local_bytes(size: Numbers, usable: int) -> Numbers:
    """Return how much of rows of such sizes lies on the leaf page itself."""
    most = usable - 35
    least = (usable - 12) * 32 // 255 - 23
    share = least + (size - least) % (usable - 4)
    return np.where(size <= most, size, np.where(share <= most, share, least))


def _joined(
    pages: Pages,
    records: Records,
    local: Numbers,
    sound: NDArray[np.bool_],
    lost: Lost,
) -> Records:
    """Return sound rows, those that go on elsewhere put together behind the others' bytes."""
    data, start = records.data, records.start.copy()
    seen = np.zeros(pages.count + 1, dtype=np.bool_)
    parts = [data]
    length = len(data)
    for row in np.flatnonzero(sound & (local < records.size)).tolist():
        here = data[start[row] : start[row] + local[row]]
        follows = data[start[row] + local[row] :][:4]
        rest = _chain(pages, follows, int(records.size[row] - local[row]), seen)
        if rest is None:
            sound[row] = False
            lost("row that goes on in a page that cannot be read", 1)
            continue
        parts += [here, rest]
        start[row] = length
        length += len(here) + len(rest)
    parts.append(np.zeros(_PADDING, dtype=np.uint8))
    joined = Records(np.concatenate(parts), start, records.size, records.rowid)
    return joined.only(sound)


def _chain(pages: Pages, follows: Bytes, size: int, seen: NDArray[np.bool_]) -> Bytes | None:
    """Return `size` bytes from a chain of overflow pages; `None`: it breaks off or runs round."""
    room = pages.usable - 4
    found = []
    while size > 0:
        number = int.from_bytes(follows.tobytes(), "big")
        if not 1 <= number <= pages.count or seen[number]:
            return None
        seen[number] = True
        page = pages.read(np.array([number]))[0]
        follows = page[:4]
        found.append(page[4 : 4 + min(size, room)])
        size -= room
    return np.concatenate(found)


def _forms(data: Bytes, at: Numbers, length: Numbers) -> tuple[Bytes, Numbers]:
    """Return the distinct headers of rows, filled up with nulls, and which of them each has.

    Args:
        data: the bytes in which the rows lie.
        at: where the types of a row's values begin.
        length: of them, in bytes.
    """
    width = max(int(length.max(initial=0)), 1)
    filled = data
    if int(at.max(initial=0)) + width > len(data):
        filled = np.concatenate([data, np.zeros(width, dtype=np.uint8)])
    headers = pieces_at(filled, at, width).view(np.uint8).reshape(-1, width)
    for shorter in np.flatnonzero(np.bincount(length, minlength=width)[:width]):
        headers[length == shorter, shorter:] = 0
    rows: Any = pa.Array.from_buffers(pa.binary(width), len(at), [None, pa.py_buffer(headers.data)])
    encoded = rows.dictionary_encode()
    distinct = np.frombuffer(b"".join(encoded.dictionary.to_pylist()), dtype=np.uint8)
    return distinct.reshape(-1, width), encoded.indices.to_numpy().astype(np.int64)


def _kinds(forms: Bytes, columns: int) -> Numbers:
    """Return the types of values, (column, form); a row may lack the last columns."""
    count, width = forms.shape
    data = np.concatenate([forms.reshape(-1), np.zeros(_PADDING, dtype=np.uint8)])
    at = np.arange(count) * width
    ends = at + width
    kinds = np.zeros((columns, count), dtype=np.int64)
    for column in range(columns):
        within = at < ends
        if not within.any():
            break
        kind, following = varints(data, np.where(within, at, 0))
        kind = np.where((kind < 0) | (kind > _KIND_MAX), _KIND_MAX, kind)
        kinds[column] = np.where(within, kind, 0)
        at = np.where(within, following, at)
    return kinds
