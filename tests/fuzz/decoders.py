"""The readers of containers alone, each behind the interface of an importer that has no rows.

They hold all handling of damage, and without tables to fill they are several times as fast.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from pasta.collect.containers.arrow_files import ArrowFile, is_arrow_or_parquet
from pasta.collect.containers.csv_rows import CsvRows
from pasta.collect.containers.json_arrays import NumberArrays
from pasta.collect.containers.json_documents import read_document
from pasta.collect.containers.json_events import EventReader
from pasta.collect.containers.pickle_stream import PickleStream
from pasta.collect.containers.protobuf_fields import LENGTH, MessageStream, WireError, fields
from pasta.collect.containers.sqlite_tables import SqliteTables
from pasta.collect.containers.text_lines import TextLines
from pasta.collect.importer import Imported
from pasta.collect.losses import Losses
from pasta.collect.sources import Source, as_file
from pasta.trace_writer import PartWriter

from .content import Content, one_file
from .seeds.host import perf_script
from .seeds.pytorch import kineto, torch_memory, torch_memory_timeline
from .seeds.tables import tables
from .seeds.timelines import perfetto

CONTAINER = "container "
"""What the names of these targets begin with."""

_BLOCK_BYTES = 512
_DEEPEST = 8

Read = Callable[[Source, Path, Losses], int]
"""Reads a source to the end and returns how much was in it, in whatever unit."""


class Decoder:
    """A reader of one kind of container.

    Args:
        read: reads it.
        reports_damage: whether it counts a stream that ended early itself.
    """

    version = 1
    general = True

    def __init__(self, read: Read, *, reports_damage: bool) -> None:
        self.format = read.__name__
        self._read = read
        self._reports_damage = reports_damage

    def recognises(self, source: Source) -> bool:
        """Take everything that has the first bytes of the container."""
        return source.folder is None and _TAKES.get(self.format, bool)(source.head)

    def read(self, source: Source, part: PartWriter, losses: Losses) -> Imported:
        """Read all that is there, and count it as rows of no table."""
        with _scratch(part) as scratch:
            part.rows["decoded"] = self._read(source, scratch, losses)
        for damage in () if self._reports_damage else source.damage:
            losses.fault(damage)
        return Imported()


@contextmanager
def _scratch(part: PartWriter) -> Iterator[Path]:
    folder = part.folder.with_name(f"{part.folder.name}-scratch")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _objects(text: bytes) -> list[dict[str, Any]]:
    return msgspec.json.decode(text, type=list[dict[str, Any]])


def json_events(source: Source, scratch: Path, losses: Losses) -> int:  # noqa: ARG001
    """Read events in blocks so small that most events stand across two."""
    reader = EventReader(source.chunks, _objects, losses, source.damage, block_bytes=_BLOCK_BYTES)
    found = sum(map(len, reader))
    losses.fault(reader.cut or "", 1 if reader.cut else 0)
    return found


def json_document(source: Source, scratch: Path, losses: Losses) -> int:  # noqa: ARG001
    """Read a document as a whole."""
    return len(str(read_document(source, msgspec.json.Decoder().decode, losses)))


def json_numbers(source: Source, scratch: Path, losses: Losses) -> int:  # noqa: ARG001
    """Read arrays of numbers."""
    return sum(
        len(array)
        for arrays in NumberArrays(source.chunks, losses, source.damage)
        for array in arrays
    )


def text_lines(source: Source, scratch: Path, losses: Losses) -> int:  # noqa: ARG001
    """Read lines."""
    return sum(1 for _ in TextLines(source, losses))


def csv_rows(source: Source, scratch: Path, losses: Losses) -> int:  # noqa: ARG001
    """Read rows of texts."""
    found = 0
    for batch in CsvRows(source, losses).batches():
        batch.validate(full=True)
        found += batch.num_rows
    return found


def pickle_stream(source: Source, scratch: Path, losses: Losses) -> int:
    """Read a pickle, handing out the elements of some of its lists."""
    lists = {"segments": 1, "device_traces": 2, "external_annotations": 1}
    stream = PickleStream(as_file(source, scratch), losses, lists)
    return sum(len(elements.items) for elements in stream)


def sqlite_tables(source: Source, scratch: Path, losses: Losses) -> int:
    """Read every table twice, as numbers and as texts."""
    found = 0
    with SqliteTables(as_file(source, scratch), losses) as database:
        for name in database.names:
            columns = database.columns(name)
            for kind in (pa.int64(), pa.string()):
                for batch in database.read(name, dict.fromkeys(columns, kind)):
                    batch.validate(full=True)
                    found += batch.num_rows
    return found


def protobuf_messages(source: Source, scratch: Path, losses: Losses) -> int:  # noqa: ARG001
    """Read messages with all that is nested in them."""
    stream = MessageStream(source.chunks, source.damage)
    found = sum(_count_fields(content, 0) for _, content in stream)
    losses.fault(stream.cut or "", 1 if stream.cut else 0)
    return found


def _count_fields(content: Any, depth: int) -> int:
    if not isinstance(content, bytes) or depth > _DEEPEST:
        return 1
    found = 1
    try:
        for _, wire, value in fields(content):
            found += _count_fields(value, depth + 1) if wire == LENGTH else 1
    except WireError:
        return found
    return found


def arrow_file(source: Source, scratch: Path, losses: Losses) -> int:
    """Read the batches of an Arrow or Parquet file, and their values."""
    found = 0
    for batch in ArrowFile(as_file(source, scratch), source.name, losses).batches():
        found += batch.num_rows
    return found


_TAKES: dict[str, Callable[[bytes], bool]] = {
    "arrow_file": is_arrow_or_parquet,
    "sqlite_tables": lambda head: head.startswith(b"SQLite format 3\0"),
}


def _database() -> list[Content]:
    """Return files with all types, rows over several pages, and both encodings."""
    found = []
    for encoding, count in (("UTF-8", 3), ("UTF-16le", 2), ("UTF-8", 60)):
        connection = sqlite3.connect(":memory:", isolation_level=None)
        connection.execute("PRAGMA page_size = 512")
        connection.execute(f"PRAGMA encoding = '{encoding}'")
        connection.execute(
            "CREATE TABLE a (id INTEGER PRIMARY KEY, name TEXT, value REAL, raw BLOB)"
        )
        connection.execute(
            "CREATE TABLE b (start INT, end INT, text, PRIMARY KEY (start)) WITHOUT ROWID"
        )
        for number in range(count):
            row = (number * 7, "nämé" * (number % 40), number / 3, b"\0\xff" * (number % 9))
            connection.execute("INSERT INTO a VALUES (?, ?, ?, ?)", row)
            connection.execute("INSERT INTO b VALUES (?, ?, ?)", (number, 1 << number % 63, None))
        found.append(one_file(connection.serialize(), "sqlite"))
        connection.close()
    return found


def decoders() -> Iterator[tuple[str, Decoder, list[Content]]]:
    """Yield name, reader and seeds of each container."""
    csv = [content for content in tables() if content.kind == "lines"]
    arrow = [content for content in tables() if content.kind == "arrow"]
    for read, seeds, reports_damage in (
        (json_events, kineto()[1:], True),
        (json_document, kineto()[1:], True),
        (json_numbers, torch_memory_timeline(), True),
        (text_lines, perf_script()[:1], True),
        (csv_rows, csv, False),
        (pickle_stream, torch_memory(), False),
        (sqlite_tables, _database(), False),
        (protobuf_messages, perfetto(), True),
        (arrow_file, arrow, False),
    ):
        yield f"{CONTAINER}{read.__name__}", Decoder(read, reports_damage=reports_damage), seeds
