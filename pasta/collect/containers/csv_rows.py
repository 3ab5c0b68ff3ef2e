"""Tables as text, with commas, semicolons, tabs or bars between the fields, whole or damaged.

A file is parsed in blocks of whole lines. A sound block is parsed in one go; only one that fails is taken row by
row, and rows with another number of fields than the header are left out and counted.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv

from pasta.collect.containers.json_repair import valid_utf8
from pasta.collect.losses import Losses
from pasta.collect.sources import Source
from pasta.errors import InputError

_BLOCK_BYTES = 4 << 20
_QUOTED_BYTES_MAX = 16 << 20
_HEADER_BYTES_MAX = 1 << 20
_DELIMITERS = ",;\t|"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_OTHER_WIDTH = "row with another number of fields than the header: left out"
_CUT_ROW = "last row, in which the file is cut: left out"
_UNREADABLE = "row that is no CSV: left out"


def looks_like_csv(head: bytes) -> bool:
    """Tell whether the first two lines are text with the same number of fields, two or more."""
    lines = head.removeprefix(_BYTE_ORDER_MARK).split(b"\n", 2)[:2]
    if b"\0" in head or len(lines) < 2:
        return False
    counts = [[line.count(mark.encode()) for mark in _DELIMITERS] for line in lines]
    return any(first == second > 0 for first, second in zip(*counts, strict=True))


class CsvRows:
    """The rows of a table whose first line names its columns.

    Every field is a text; an empty one is null. Of columns with one name, the first counts.

    Args:
        source: the file.
        losses: where damage is counted.

    Raises:
        InputError: there is no line that names columns.
    """

    def __init__(self, source: Source, losses: Losses) -> None:
        self._source = source
        self._losses = losses
        self._chunks = source.chunks
        self._buffer = b""
        self._row = 1
        header = self._header()
        self._delimiter = max(_DELIMITERS, key=header.count)
        self._names = [name.strip() for name in self._fields(header)]
        if not any(self._names):
            raise InputError(f"{source.name}: its first line names no columns")
        self.schema = pa.schema([(name, pa.string()) for name in dict.fromkeys(self._names)])

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some columns, in order."""
        chosen = list(self.schema.names if columns is None else columns)
        for block in self._blocks():
            rows = self._parsed(block)
            self._row += rows.num_rows
            indices = [self._names.index(name) for name in chosen]
            arrays = [rows.column(index).combine_chunks() for index in indices]
            yield from pa.table(arrays, chosen).to_batches()

    def _header(self) -> str:
        while b"\n" not in self._buffer and len(self._buffer) < _HEADER_BYTES_MAX and self._fill():
            pass
        line, _, self._buffer = self._buffer.removeprefix(_BYTE_ORDER_MARK).partition(b"\n")
        return line[:_HEADER_BYTES_MAX].rstrip(b"\r").decode(errors="replace")

    def _fields(self, header: str) -> list[str]:
        try:
            return next(csv.reader([header], delimiter=self._delimiter), [])
        except csv.Error:
            return []

    def _fill(self) -> bool:
        chunk = next(self._chunks, b"")
        self._buffer += chunk
        return bool(chunk)

    def _blocks(self) -> Iterator[bytes]:
        """Yield whole lines, none of which ends within quotes."""
        more = True
        wanted = _BLOCK_BYTES
        while more:
            while more and len(self._buffer) < wanted:
                more = self._fill()
            end = self._buffer.rfind(b"\n") + 1 if more else len(self._buffer)
            if more and (end == 0 or self._buffer.count(b'"', 0, end) % 2):
                end = self._end_outside_quotes(end)
                if end == 0 and len(self._buffer) < _QUOTED_BYTES_MAX:
                    wanted = len(self._buffer) + _BLOCK_BYTES
                    continue
                end = end or len(self._buffer)
            wanted = _BLOCK_BYTES
            block, self._buffer = self._buffer[:end], self._buffer[end:]
            if not more and self._source.damage and not block.endswith(b"\n"):
                self._losses.fault(_CUT_ROW)
                block = block[: block.rfind(b"\n") + 1]
            if block.strip():
                yield block

    def _end_outside_quotes(self, end: int) -> int:
        """Return the end of the last line before the quote that is still open; 0: there is none."""
        if end == 0:
            return 0
        opened = self._buffer.rfind(b'"', 0, end)
        return self._buffer.rfind(b"\n", 0, opened) + 1

    def _parsed(self, block: bytes) -> pa.Table:
        text, count, _ = valid_utf8(block)
        self._losses.fault("invalid UTF-8: replaced by U+FFFD", count, where=f"row {self._row}")
        try:
            return self._parsed_at_once(text)
        except pa.ArrowInvalid:
            return self._parsed_by_row(text)

    def _parsed_at_once(self, text: bytes) -> pa.Table:
        numbered = [str(index) for index in range(len(self._names))]
        return arrow_csv.read_csv(
            io.BytesIO(text),
            read_options=arrow_csv.ReadOptions(
                column_names=numbered, block_size=max(len(text), 1), use_threads=False
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=self._delimiter, newlines_in_values=True
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(numbered, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
                check_utf8=False,
            ),
        )

    def _parsed_by_row(self, text: bytes) -> pa.Table:
        kept: list[list[Any]] = []
        reader = csv.reader(io.StringIO(text.decode(), newline=""), delimiter=self._delimiter)
        while True:
            try:
                fields = next(reader, None)
            except csv.Error:
                self._losses.fault(_UNREADABLE, where=f"row {self._row + len(kept)}")
                continue
            if fields is None:
                break
            if len(fields) == len(self._names):
                kept.append([field or None for field in fields])
            elif fields:
                self._losses.fault(_OTHER_WIDTH, where=f"row {self._row + len(kept)}")
        columns = zip(*kept, strict=True) if kept else [[] for _ in self._names]
        arrays = [pa.array(column, pa.string()) for column in columns]
        return pa.table(arrays, [str(index) for index in range(len(self._names))])
