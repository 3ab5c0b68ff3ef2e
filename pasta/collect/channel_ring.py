"""One ring of a channel, read: committed slots become record batches without a copy."""

from __future__ import annotations

import fcntl
import mmap
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import pyarrow as pa

from pasta.collect.target import channel_layout as layout
from pasta.collect.target.channel_layout import TableLayout, make_fence

ARROW_TYPES: dict[int, pa.DataType] = {
    layout.U8: pa.uint8(),
    layout.U16: pa.uint16(),
    layout.U32: pa.uint32(),
    layout.U64: pa.uint64(),
    layout.I8: pa.int8(),
    layout.I16: pa.int16(),
    layout.I32: pa.int32(),
    layout.I64: pa.int64(),
    layout.F32: pa.float32(),
    layout.F64: pa.float64(),
    layout.BOOL: pa.bool_(),
    layout.UTF8: pa.string(),
    layout.LIST_UTF8: pa.list_(pa.string()),
    layout.LIST_I64: pa.list_(pa.int64()),
}
"""Type code of the ring -> type of the record batch."""

FULL = "the ring was full or in use: the batch was dropped"
TOO_LARGE = "a row is larger than a slot of the ring: it was dropped"
DAMAGED = "the batch was damaged in shared memory: it was passed over"
UNREAD = "the channel was closed before the batch was read"
UNFINISHED = "the writer ended while it wrote the batch: it was passed over"


class Producer(NamedTuple):
    """Who writes a ring: one thread of one process of one rank."""

    rank: int
    pid: int
    tid: int


class ChannelLoss(NamedTuple):
    """What one producer's ring did not bring to the reader.

    Attributes:
        producer: whose rows they were.
        reason: what was lost and why.
        batches: how many batches, as they were to be put into slots.
        rows: how many rows; 0 where a damaged batch does not tell.
        first_ts: when it first happened, in ns since the epoch; `None`: unknown.
    """

    producer: Producer
    reason: str
    batches: int
    rows: int
    first_ts: int | None


class Batch:
    """A batch borrowed from a ring; also a context manager that releases it.

    Attributes:
        table: the table that the rows belong to.
        producer: who wrote them.
        ring: name of the ring.
        sequence: ordinal of the batch in its ring.
        rows: the rows, in shared memory. Gone after `release`; whoever keeps rows copies them.
    """

    __slots__ = ("_ring", "producer", "ring", "rows", "sequence", "table")

    def __init__(self, ring: RingReader, table: str, sequence: int, rows: pa.RecordBatch) -> None:
        self._ring = ring
        self.table = table
        self.producer = ring.producer
        self.ring = ring.path.name
        self.sequence = sequence
        self.rows = rows

    def release(self) -> None:
        """Give the slot back to the writer, from any thread; more than once is harmless."""
        if hasattr(self, "rows"):
            del self.rows
            self._ring.release(self.sequence)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.release()


def nobody_locks(fd: int) -> bool:
    """Whether no process holds the lock on the file of `fd`, which is closed."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True


class RingReader:
    """The one reader of one ring.

    Args:
        path: the ring's file.

    Raises:
        OSError: it cannot be opened or mapped.
        ValueError: it is no ring.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            memory = mmap.mmap(fd, 0)
        finally:
            os.close(fd)
        self._memory = memoryview(memory)
        head, tables = layout.read_layout(self._memory)
        if len(memory) != head.header_bytes + head.slots * head.slot_bytes:
            raise ValueError("of another size than its header says")
        self.producer = Producer(head.rank, head.pid, head.tid)
        self._head = head
        self._tables = [_TableReader(table) for table in tables.values()]
        self._words = self._memory.cast("Q")
        self._slots = pa.py_buffer(memory).slice(head.header_bytes)
        self._fence = make_fence()
        self._next = 0
        self._released: set[int] = set()
        self._releasing, self._release_fence = threading.Lock(), make_fence()
        self._damaged = 0
        self._unread = (0, 0)

    def poll(self) -> Batch | None:
        """Return the next batch if one is committed; damaged ones are counted and passed over."""
        while self.has_next():
            sequence, at = self._next, self._slot_at()
            self._fence()
            self._next += 1
            batch = self._read(sequence, at)
            if batch is not None:
                return batch
            self._damaged += 1
            self.release(sequence)
        return None

    def has_next(self) -> bool:
        """Return whether a batch is committed that was not yet given out."""
        if self._next - self._words[layout.RELEASED] >= self._head.slots:
            return False
        return self._words[self._slot_at() // 8 + layout.COMMIT] > self._next

    def _read(self, sequence: int, at: int) -> Batch | None:
        slot = self._memory[at : at + self._head.slot_bytes]
        found, table, rows, regions, used = layout.BATCH.unpack_from(slot, layout.BATCH_AT)
        mark = self._words[at // 8 + layout.COMMIT]
        known = table < len(self._tables) and used <= len(slot)
        if mark != sequence + 1 or found != sequence or not known:
            return None
        if regions != self._tables[table].layout.regions:
            return None
        (checksum,) = layout.CHECKSUM.unpack_from(slot, layout.CHECKSUM_AT)
        if checksum != layout.batch_checksum(slot, regions):
            return None
        buffer = self._slots.slice(at - self._head.header_bytes, used)
        try:
            batch = self._tables[table].read(slot, buffer, rows)
        except (ValueError, pa.ArrowException):
            return None
        return Batch(self, self._tables[table].layout.name, sequence, batch)

    def release(self, sequence: int) -> None:
        """Give back the slot of batch `sequence`; the writer gets slots back in order.

        Any thread may do so.
        """
        with self._releasing:
            self._released.add(sequence)
            self._release_fence()
            done = self._words[layout.RELEASED]
            while done in self._released:
                self._released.remove(done)
                done += 1
            self._words[layout.RELEASED] = done

    def close(self) -> None:
        """Tell the writer that nothing will be read any more, and count what was not."""
        self._words[layout.CLOSED] = 1
        rows = [batch.rows.num_rows for batch in iter(self.poll, None)]
        self._unread = len(rows), sum(rows)

    @property
    def fill(self) -> float:
        """The share of slots that hold batches which were not given back, from 0 to 1."""
        slots, released = self._head.slots, self._words[layout.RELEASED]
        taken = self._next - released
        while taken < slots:
            sequence = released + taken
            at = self._head.header_bytes + sequence % slots * self._head.slot_bytes
            if self._words[at // 8 + layout.COMMIT] <= sequence:
                break
            taken += 1
        return taken / slots if slots else 0.0

    @property
    def borrowed(self) -> bool:
        """Whether batches are out that were not released."""
        return self._next != self._words[layout.RELEASED]

    def abandoned(self) -> bool:
        """Return whether the writer is gone: closed, or its process and all its forks ended."""
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return True
        return nobody_locks(fd)

    def losses(self, *, abandoned: bool) -> Iterator[ChannelLoss]:
        """Yield what was lost so far; of an `abandoned` ring also the batch begun last."""
        words = self._words
        full = words[layout.FULL_BATCHES], words[layout.FULL_ROWS], words[layout.FULL_SINCE]
        large = words[layout.LARGE_ROWS], words[layout.LARGE_ROWS], words[layout.LARGE_SINCE]
        unfinished = (1, self._rows_begun(), 0) if abandoned and self._begun() else (0, 0, 0)
        for reason, (batches, rows, since) in {
            FULL: full,
            TOO_LARGE: large,
            DAMAGED: (self._damaged, 0, 0),
            UNREAD: (*self._unread, 0),
            UNFINISHED: unfinished,
        }.items():
            if batches:
                yield ChannelLoss(self.producer, reason, batches, rows, since or None)

    def _slot_at(self) -> int:
        return self._head.header_bytes + self._next % self._head.slots * self._head.slot_bytes

    def _begun(self) -> bool:
        if self._head.slots == 0:
            return False
        at = self._slot_at() // 8
        mark = self._next + 1
        return self._words[at + layout.BEGUN] == mark != self._words[at + layout.COMMIT]

    def _rows_begun(self) -> int:
        rows = layout.BATCH.unpack_from(self._memory, self._slot_at() + layout.BATCH_AT)[2]
        return int(rows)


class _TableReader:
    """Makes record batches of one table from regions of a slot."""

    def __init__(self, table: TableLayout) -> None:
        self.layout = table
        self._columns = [
            (name, code, region, layout.REGION_COUNTS[code])
            for name, (code, region) in table.columns.items()
        ]

    def read(self, slot: memoryview, buffer: pa.Buffer, rows: int) -> pa.RecordBatch:
        """Return the batch in `slot`, with the columns that its writer gave.

        Raises:
            ValueError: regions lie outside the slot.
            pyarrow.ArrowInvalid: offsets or texts are invalid.
        """
        end = layout.REGIONS_AT + layout.REGION_BYTES * self.layout.regions
        regions = slot[layout.REGIONS_AT : end].cast("Q")
        names, arrays = [], []
        for name, code, first, count in self._columns:
            parts = [_region(buffer, word) for word in regions[first : first + count]]
            if parts[1] is not None:
                names.append(name)
                arrays.append(_array(code, rows, parts))
        return pa.RecordBatch.from_arrays(arrays, names) if arrays else _no_columns(rows)


def _no_columns(rows: int) -> pa.RecordBatch:
    if rows:
        raise ValueError("rows without columns")
    return pa.RecordBatch.from_arrays([], names=[])


def _region(buffer: pa.Buffer, word: int) -> pa.Buffer | None:
    if word == 0:
        return None
    at, size = word & 0xFFFFFFFF, word >> 32
    if at + size > buffer.size or at % 8:
        raise ValueError("a region outside the slot")
    return buffer.slice(at, size)


def _array(code: int, rows: int, parts: list[pa.Buffer | None]) -> pa.Array[Any]:
    kind = ARROW_TYPES[code]
    if code < layout.UTF8:
        array = pa.Array.from_buffers(kind, rows, parts)
        array.validate()
    elif code == layout.UTF8:
        array = pa.Array.from_buffers(kind, rows, parts)
        array.validate(full=True)
    else:
        offsets = parts[1]
        if offsets is None or offsets.size < 4 * (rows + 1):
            raise ValueError("offsets are missing")
        items = int.from_bytes(memoryview(offsets)[4 * rows : 4 * rows + 4], "little")
        child_code = layout.UTF8 if code == layout.LIST_UTF8 else layout.I64
        child = _array(child_code, items, [None, *parts[2:]])
        array = pa.Array.from_buffers(kind, rows, parts[:2], children=[child])
        array.validate(full=True)
    return array
