"""Write batches of rows into a ring in shared memory, from inside a recorded program.

The owner of a channel makes a folder with a file `layout` in it. Each thread that records makes a
ring of its own there, by `RingWriter(folder)`, and is its only writer; the owner finds and reads
it. `docs/channel.md` describes the bytes and the guarantees.

A program whose Python has no pasta loads this folder by its path, as a package of any name: it
imports only the standard library and its own siblings. Arrays of numpy are taken as they are,
through the buffer protocol; numpy is used where the program has imported it.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import threading
import time
from collections.abc import Iterable, Mapping

from .channel_columns import Encoded, Nullable, Values, length
from .channel_layout import (
    BATCH,
    BATCH_AT,
    BEGUN,
    BLOCK_NS,
    CHECKSUM,
    CHECKSUM_AT,
    CLOSED,
    COMMIT,
    FULL_BATCHES,
    FULL_ROWS,
    FULL_SINCE,
    HEADER,
    LARGE_ROWS,
    LARGE_SINCE,
    LAYOUT_FILE,
    RELEASED,
    RING_PREFIX,
    Header,
    TableLayout,
    batch_checksum,
    make_fence,
    read_layout,
)

__all__ = ["Nullable", "RingWriter"]

_FIRST_SLEEP, _LONGEST_SLEEP = 50e-6, 1e-3


class RingWriter:
    """The one writer of one ring, for one thread.

    Nothing that happens to the owner of the channel raises here: where the folder is gone, full or
    its owner dead, rows are dropped and counted. After a fork the child makes a ring of its own
    when it first writes. What a signal handler or finalizer writes in the middle of a write to the
    same ring is dropped and counted too.

    Args:
        folder: the channel's folder.
        rank: rank of this process.

    Attributes:
        unplaced_rows: rows dropped for want of any ring to count them in.
    """

    def __init__(self, folder: str, *, rank: int = 0) -> None:
        self.folder = folder
        self.rank = rank
        self.unplaced_rows = 0
        self._fence = make_fence()
        self._attach()

    def _attach(self) -> None:
        self._pid = os.getpid()
        self._memory: memoryview | None = None
        self._writing = False
        self._next = 0
        self._stalled_at = -1
        self._tables: dict[str, TableLayout] = {}
        try:
            with open(os.path.join(self.folder, LAYOUT_FILE), "rb") as file:
                layout = file.read()
            head, self._tables = read_layout(layout)
            memory, slots = self._make_ring(head, layout)
        except (OSError, ValueError):
            return
        self._memory = memoryview(memory)
        self._words = self._memory.cast("Q")
        self._slots, self._slot_bytes, self._slots_at = slots, head.slot_bytes, head.header_bytes
        if slots == 0:
            self._stalled_at = 0

    def _make_ring(self, head: Header, layout: bytes) -> tuple[mmap.mmap, int]:
        """Make the ring's file, visible only once complete, and map it.

        It is locked as long as a descriptor is open; the mapping keeps one.

        Returns:
            The mapping, and how many slots there was room for: all or none. A ring without slots
            still counts what is dropped.
        """
        tid = threading.get_native_id()
        name = f"{RING_PREFIX}{self._pid}-{tid}-{time.monotonic_ns()}"
        hidden = os.path.join(self.folder, f".{name}")
        fd = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            slots = _allocate(fd, head)
            own = head._replace(
                slots=slots, rank=self.rank, pid=self._pid, tid=tid, created=time.time_ns()
            )
            os.pwrite(fd, HEADER.pack(*own) + layout[HEADER.size :], 0)
            memory = mmap.mmap(fd, head.header_bytes + slots * head.slot_bytes)
            os.rename(hidden, os.path.join(self.folder, name))
        finally:
            os.close(fd)
        return memory, slots

    @property
    def columns(self) -> dict[str, frozenset[str]]:
        """The channel's tables with the names of their columns; empty without a channel."""
        return {name: frozenset(table.columns) for name, table in self._tables.items()}

    def close(self) -> None:
        """End the ring; what was committed stays readable, and later rows are unplaced.

        The mapping, and with it the lock, ends with the last reference to it.
        """
        if self._memory is not None:
            del self._words
            self._memory = None

    def write(self, table: str, columns: Mapping[str, Values | Nullable]) -> None:
        """Write rows, as one batch or, where they do not fit into a slot, as several.

        Args:
            table: name of a table of the channel.
            columns: column -> its values, all of one length; columns left out are absent. Values
                are a buffer of exactly the column's type, a `Nullable`, or a sequence in which
                `None` is null. Text is a sequence of `str`, lists are sequences of sequences.

        Raises:
            ValueError: the channel has no such table or column, or lengths differ.
            TypeError: values are not of the column's type.
        """
        if self._pid != os.getpid():
            self.close()
            self._attach()
        if self._memory is None:
            self.unplaced_rows += max(map(length, columns.values()), default=0)
            return
        layout = self._tables.get(table)
        if layout is None:
            raise ValueError(f"the channel has no table '{table}'")
        encoded = Encoded(layout, columns)
        if self._writing:
            self._drop(encoded.rows)
            return
        self._writing = True
        try:
            for start, stop in self._split(encoded, 0, encoded.rows):
                self._write_rows(encoded, start, stop)
        finally:
            self._writing = False

    def _write_rows(self, encoded: Encoded, start: int, stop: int) -> None:
        if encoded.size(start, stop) > self._slot_bytes:
            self._count(LARGE_ROWS, LARGE_SINCE, 1)
        elif self._wait_for_slot():
            self._commit(encoded, start, stop)
        else:
            self._drop(stop - start)

    def _split(self, encoded: Encoded, start: int, stop: int) -> Iterable[tuple[int, int]]:
        """Yield row ranges that fit into a slot each, or hold a single row."""
        rows = stop - start
        size = encoded.size(start, stop)
        if size <= self._slot_bytes or rows == 1:
            yield start, stop
            return
        room = self._slot_bytes - encoded.overhead
        step = min(max(rows * room // size, 1), rows // 2)
        for first in range(start, stop, step):
            yield from self._split(encoded, first, min(first + step, stop))

    def _drop(self, rows: int) -> None:
        self._words[FULL_BATCHES] += 1
        self._count(FULL_ROWS, FULL_SINCE, rows)

    def _count(self, counter: int, since: int, rows: int) -> None:
        if self._words[counter] == 0:
            self._words[since] = time.time_ns()
        self._words[counter] += rows

    def _wait_for_slot(self) -> bool:
        """Wait for a free slot as long as the channel allows; not for a reader seen standing still."""
        words = self._words
        if words[CLOSED]:
            return False
        if self._next - words[RELEASED] < self._slots:
            return True
        if self._stalled_at == words[RELEASED]:
            return False
        give_up = time.monotonic_ns() + words[BLOCK_NS]
        pause = _FIRST_SLEEP
        while time.monotonic_ns() < give_up and not words[CLOSED]:
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_SLEEP)
            if self._next - words[RELEASED] < self._slots:
                return True
        self._stalled_at = words[RELEASED]
        return False

    def _commit(self, encoded: Encoded, start: int, stop: int) -> None:
        """Fill the next slot; its commit mark, written last, makes it visible."""
        assert self._memory is not None  # noqa: S101
        self._fence()
        at = self._slots_at + self._next % self._slots * self._slot_bytes
        slot = self._memory[at : at + self._slot_bytes]
        layout = encoded.layout
        mark = self._next + 1
        BATCH.pack_into(slot, BATCH_AT, self._next, layout.index, stop - start, layout.regions, 0)
        self._fence()
        self._words[at // 8 + BEGUN] = mark
        used = encoded.put(slot, start, stop)
        BATCH.pack_into(
            slot, BATCH_AT, self._next, layout.index, stop - start, layout.regions, used
        )
        CHECKSUM.pack_into(slot, CHECKSUM_AT, batch_checksum(slot, layout.regions))
        self._fence()
        # No call between these two: the interpreter runs signal handlers only after calls.
        self._words[at // 8 + COMMIT] = mark
        self._next = mark


def _allocate(fd: int, head: Header) -> int:
    """Give a ring's file its memory; return the number of slots that it has."""
    try:
        os.posix_fallocate(fd, 0, head.header_bytes + head.slots * head.slot_bytes)
    except OSError:
        os.ftruncate(fd, 0)
        os.posix_fallocate(fd, 0, head.header_bytes)
        return 0
    return head.slots
