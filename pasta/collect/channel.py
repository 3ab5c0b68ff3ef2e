"""The channel: record batches from recorded programs, through rings in shared memory.

    with Channel.create("run") as channel:
        start_program(environment={"...": str(channel.folder)})
        while program_runs():
            batch = channel.wait(0.1)
            if batch is not None:
                with batch:
                    part.append(batch.table, batch.rows)

Each producing thread makes a ring of its own in the channel's folder, which the reader discovers:
memory is taken only by threads that record, and neither side waits for the other to begin. The
layout and the guarantees are in `docs/channel.md`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import pyarrow as pa

from pasta.collect.channel_ring import (
    ARROW_TYPES,
    Batch,
    ChannelLoss,
    Producer,
    RingReader,
    nobody_locks,
)
from pasta.collect.target import channel_layout as layout
from pasta.errors import CollectError
from pasta.schema import TABLES

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - shared memory is what the channel is made of
BLOCK_SECONDS = 0.1
_PREFIX = "pasta-"
_OWNER_FILE = "owner"
_PAGE = 4096
_LARGEST_SLOT = 1 << 31
_SCAN_SECONDS, _RETIRE_SECONDS = 0.01, 0.1
_FIRST_SLEEP, _LONGEST_SLEEP = 50e-6, 20e-3
_UNREADABLE = "the ring is damaged: none of it was read"
# Waits for the end of its input, which comes with the end of the owner however it ends.
_GUARD = """
read -r _closed && exit
mv -- "$1" "$2" && rm -rf -- "$2"
shift 2
[ $# -gt 0 ] && exec "$@"
"""


class Channel:
    """The reading side of a channel, and the owner of its memory; for one thread, save that any may release a batch.

    Attributes:
        folder: what producers are told; gone after `close`.
        ring_bytes: memory that each producing thread takes.
    """

    def __init__(
        self, folder: Path, header: bytes, ring_bytes: int, if_killed: Sequence[str] = ()
    ) -> None:
        self.folder = folder
        self.ring_bytes = ring_bytes
        self._pid = os.getpid()
        self._owner_fd = _make_folder(folder, header)
        self._guard = _start_guard(folder, if_killed)
        self._rings: dict[str, RingReader] = {}
        self._refused: dict[str, ChannelLoss] = {}
        self._retired: list[ChannelLoss] = []
        self._turn = 0
        self._scanned = self._retired_at = 0.0

    @classmethod
    def create(
        cls,
        name: str,
        *,
        slots: int = 16,
        slot_bytes: int = 1 << 20,
        block_seconds: float = BLOCK_SECONDS,
        tables: Mapping[str, pa.Schema] | None = None,
        if_killed: Sequence[str] = (),
    ) -> Channel:
        """Make a channel's folder in shared memory, after removing those of dead owners.

        Args:
            name: letters, digits, `_` and `-`; with the process id it names the folder.
            slots: batches that a ring holds.
            slot_bytes: the largest batch, with its header; a multiple of 4096.
            block_seconds: how long a writer waits for a full ring before it drops a batch; 0: it
                drops at once.
            tables: what can be written; the tables of a trace by default.
            if_killed: a command that is run should this process end without closing the channel.

        Raises:
            CollectError: a value is out of range, or shared memory has no room for one ring.
        """
        if not re.fullmatch(r"[\w-]{1,64}", name, re.ASCII):
            raise CollectError(f"channel '{name}': use up to 64 letters, digits, '_' and '-'")
        known = tables if tables is not None else {t.name: t.schema for t in TABLES.values()}
        header = _header(known, slots, slot_bytes, block_seconds)
        ring_bytes = len(header) + slots * slot_bytes
        remove_stale()
        _check_room(ring_bytes, slots, slot_bytes)
        folder = SHARED_MEMORY / f"{_PREFIX}{os.getpid()}-{name}"
        return cls(folder, header, ring_bytes, if_killed)

    def poll(self) -> Batch | None:
        """Return the next committed batch of any ring, in turn; `None`: there is none now."""
        if time.monotonic() - self._scanned >= _SCAN_SECONDS:
            self._scan()
        batch = self._next_in_turn()
        if batch is None:
            self._scan()
            batch = self._next_in_turn()
        return batch

    def _next_in_turn(self) -> Batch | None:
        rings = list(self._rings.values())
        for step in range(len(rings)):
            turn = (self._turn + step) % len(rings)
            batch = rings[turn].poll()
            if batch is not None:
                self._turn = turn + 1
                return batch
        return None

    def wait(self, seconds: float) -> Batch | None:
        """Return the next committed batch, waiting for up to `seconds`.

        While nothing comes it sleeps 50 us and then ever longer, up to 20 ms.
        """
        give_up = time.monotonic() + seconds
        pause = _FIRST_SLEEP
        while (batch := self.poll()) is None and time.monotonic() < give_up:
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_SLEEP)
        return batch

    def losses(self) -> list[ChannelLoss]:
        """Return what was lost so far, by producer and reason."""
        live = [
            loss
            for ring in self._rings.values()
            for loss in ring.losses(abandoned=ring.abandoned())
        ]
        return [*self._retired, *self._refused.values(), *live]

    @property
    def producers(self) -> int:
        """Rings that are written still, or not read to their end."""
        self._scan()
        return sum(not ring.abandoned() or ring.has_next() for ring in self._rings.values())

    @property
    def processes(self) -> int:
        """Processes that write, or whose batches are not read to their end."""
        return len({ring.producer.pid for ring in self._rings.values()})

    @property
    def fill(self) -> float:
        """How full the fullest ring is, from 0 to 1."""
        return max((ring.fill for ring in self._rings.values()), default=0.0)

    def _scan(self) -> None:
        """Find new rings, and now and then let go of those that nobody writes any more."""
        self._scanned = time.monotonic()
        if self._scanned - self._retired_at >= _RETIRE_SECONDS:
            self._retired_at = self._scanned
            self._retire()
        with contextlib.suppress(FileNotFoundError), os.scandir(self.folder) as entries:
            for entry in entries:
                new = entry.name not in self._rings and entry.name not in self._refused
                if new and entry.name.startswith(layout.RING_PREFIX):
                    self._attach(entry.name)

    def _retire(self) -> None:
        for name, ring in list(self._rings.items()):
            if not ring.borrowed and ring.abandoned() and not ring.has_next():
                self._retired += ring.losses(abandoned=True)
                ring.path.unlink(missing_ok=True)
                del self._rings[name]

    def _attach(self, name: str) -> None:
        try:
            self._rings[name] = RingReader(self.folder / name)
        except OSError:
            return  # out of descriptors or memory for now: the next scan tries again
        except ValueError:
            nobody = Producer(0, 0, 0)
            self._refused[name] = ChannelLoss(nobody, _UNREADABLE, 1, 0, None)

    def close(self) -> None:
        """Tell the writers and remove the folder; more than once is harmless."""
        if self._owner_fd < 0 or self._pid != os.getpid():
            return
        for ring in self._rings.values():
            ring.close()
            self._retired += ring.losses(abandoned=ring.abandoned())
        self._rings.clear()
        remove_folder(self.folder)
        os.close(self._owner_fd)
        self._owner_fd = -1
        self._guard.communicate(b"closed\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def remove_stale() -> list[Path]:
    """Remove channels whose owner is dead; return their folders."""
    removed = []
    for folder in SHARED_MEMORY.glob(f"{_PREFIX}[0-9]*-*"):
        with contextlib.suppress(OSError):
            ours = folder.stat(follow_symlinks=False).st_uid == os.geteuid()
            if ours and _is_stale(folder):
                remove_folder(folder)
                removed.append(folder)
    return removed


def remove_folder(folder: Path) -> None:
    """Remove a channel's folder.

    It is renamed first: producers that come now find nothing, instead of adding to what is removed.
    """
    away = _removed_name(folder)
    shutil.rmtree(away, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        folder.rename(away)
        shutil.rmtree(away)


def _removed_name(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.removed")


def _is_stale(folder: Path) -> bool:
    """Whether nobody holds the owner's lock; before there is one, whether the process is gone."""
    try:
        fd = os.open(folder / _OWNER_FILE, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        return not Path("/proc", pid).exists()
    return nobody_locks(fd)


def _make_folder(folder: Path, header: bytes) -> int:
    """Make the folder, with the owner's lock in place before its file has its name."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError as error:
        raise CollectError(f"{folder}: this process has such a channel; close it first") from error
    hidden = folder / f".{_OWNER_FILE}"
    fd = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    hidden.rename(folder / _OWNER_FILE)
    new = folder / f".{layout.LAYOUT_FILE}"
    new.write_bytes(header)
    new.rename(folder / layout.LAYOUT_FILE)
    return fd


def _start_guard(folder: Path, if_killed: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start the process that removes `folder` when this one ends, by whatever signal."""
    folders = [str(folder), str(_removed_name(folder))]
    return subprocess.Popen(  # noqa: S603 - a fixed script; paths are its arguments
        ["/bin/sh", "-c", _GUARD, "pasta-guard", *folders, *if_killed],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )


def _check_room(ring_bytes: int, slots: int, slot_bytes: int) -> None:
    state = os.statvfs(SHARED_MEMORY)
    free = state.f_bavail * state.f_frsize
    if ring_bytes > free:
        raise CollectError(
            f"{SHARED_MEMORY}: {free >> 20} MiB are free, but a ring of {slots} slots of"
            f" {slot_bytes} bytes needs {-(-ring_bytes >> 20)} MiB for each recording thread;"
            " enlarge it (docker run --shm-size) or ask for fewer or smaller slots"
        )


def _header(
    tables: Mapping[str, pa.Schema], slots: int, slot_bytes: int, block_seconds: float
) -> bytes:
    """Return the header that every ring of the channel begins with."""
    codes = {kind: code for code, kind in ARROW_TYPES.items()}
    table_records: list[bytes] = []
    column_records: list[bytes] = []
    for name, schema in tables.items():
        first, region = len(column_records), 0
        for field in schema:
            code = codes[field.type]
            padded = _padded(field.name, 56)
            column_records.append(layout.COLUMN.pack(padded, code, region))
            region += layout.REGION_COUNTS[code]
        table_records.append(layout.TABLE.pack(_padded(name, 48), first, len(schema), region, 0))
        _check_slot(name, region, slots, slot_bytes)
    records = b"".join(table_records + column_records)
    header_bytes = -(-(layout.TABLES_AT + len(records)) // _PAGE) * _PAGE
    head = layout.Header(
        layout.MAGIC,
        layout.VERSION,
        header_bytes,
        slot_bytes,
        slots,
        len(table_records),
        len(column_records),
        zlib.crc32(records),
        rank=0,
        pid=0,
        tid=0,
        created=0,
    )
    words = bytearray(layout.TABLES_AT)
    layout.HEADER.pack_into(words, 0, *head)
    memoryview(words).cast("Q")[layout.BLOCK_NS] = round(block_seconds * 1e9)
    return (bytes(words) + records).ljust(header_bytes, b"\0")


def _padded(name: str, size: int) -> bytes:
    encoded = name.encode()
    if not 0 < len(encoded) < size:
        raise CollectError(f"channel: '{name}' is longer than {size - 1} bytes, or empty")
    return encoded.ljust(size, b"\0")


def _check_slot(table: str, regions: int, slots: int, slot_bytes: int) -> None:
    smallest = layout.REGIONS_AT + (layout.REGION_BYTES + layout.ALIGNMENT) * regions
    if slots < 1 or slot_bytes % _PAGE or not smallest <= slot_bytes <= _LARGEST_SLOT:
        raise CollectError(
            f"channel: {slots} slots of {slot_bytes} bytes; there must be at least one, of a"
            f" multiple of {_PAGE} bytes, at least {smallest} for table '{table}' and at most 2 GiB"
        )
