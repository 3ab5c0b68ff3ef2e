"""Files that no importer knows: CSV, Parquet and Arrow, whose columns a map tells."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from pasta.collect.column_map import ColumnMap
from pasta.collect.containers.arrow_files import ArrowFile, is_arrow_or_parquet
from pasta.collect.containers.csv_rows import CsvRows
from pasta.collect.importer import Imported
from pasta.collect.importers.mapped.rows import Rows
from pasta.collect.losses import Losses
from pasta.collect.shaping.processes import Processes
from pasta.collect.shaping.span_parents import SpanParents
from pasta.collect.sources import Source, as_file
from pasta.trace_merge import Transform
from pasta.trace_writer import PartWriter


class Mapped:
    """Imports rows of one table.

    Args:
        column_map: what the columns of the file are.
    """

    format = "a table with a map of its columns"
    version = 2
    general = True

    def __init__(self, column_map: ColumnMap) -> None:
        self._map = column_map

    def recognises(self, source: Source) -> bool:
        """Tell whether a file can hold columns at all: it is Arrow or Parquet, or text."""
        return is_arrow_or_parquet(source.head) or b"\0" not in source.head

    def read(self, source: Source, part: PartWriter, losses: Losses) -> Imported:
        """Append the rows of `source` to `part`.

        Raises:
            InputError: it is no table, or lacks a column that the map names.
        """
        scratch = part.folder.with_name(f"{part.folder.name}-scratch")
        processes = Processes()
        rows = Rows(self._map, losses)
        try:
            for batch in self._batches(source, scratch, losses):
                table = rows.convert(batch)
                processes.add(table)
                part.append(self._map.table, table)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        for damage in source.damage:
            losses.fault(damage)
        if self._map.table not in ("process", "device", "thread"):
            part.append("process", processes.rows())
        transforms: Mapping[str, Transform] = (
            {"span": SpanParents(losses).add} if self._map.table == "span" else {}
        )
        return Imported(pid=processes.first, transforms=transforms)

    def _batches(self, source: Source, scratch: Path, losses: Losses) -> Iterator[pa.RecordBatch]:
        wanted = self._map.wanted
        file: ArrowFile | CsvRows
        if is_arrow_or_parquet(source.head):
            file = ArrowFile(as_file(source, scratch), source.name, losses)
        else:
            file = CsvRows(source, losses)
        self._map.check(file.schema.names, source.name)
        yield from file.batches(wanted)
