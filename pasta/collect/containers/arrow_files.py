"""Arrow IPC files and streams, and Parquet files: rows in batches, whole or up to where they are cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pasta.collect.losses import Losses
from pasta.errors import InputError

PARQUET_MAGIC = b"PAR1"
ARROW_MAGIC = b"ARROW1\0\0"
_STREAM_MAGIC = b"\xff\xff\xff\xff"
_BATCH_ROWS = 1 << 16
_THRIFT_BYTES_MAX = 64 << 20


def is_arrow_or_parquet(head: bytes) -> bool:
    """Tell from its first bytes whether a file is Parquet, an Arrow file or an Arrow stream."""
    return head.startswith((PARQUET_MAGIC, ARROW_MAGIC, _STREAM_MAGIC))


class ArrowFile:
    """One file of columns.

    An Arrow file is read as the stream that it holds, so that one whose end is missing gives the batches before
    the cut; a Parquet file without its end gives nothing, since the end says where columns are.

    Args:
        path: the file, not compressed as a whole.
        name: what messages call it.
        losses: where damage is counted.

    Raises:
        InputError: not even the schema can be read.
    """

    def __init__(self, path: Path, name: str, losses: Losses) -> None:
        self._name = name
        self._losses = losses
        self._parquet: pq.ParquetFile | None = None
        try:
            with path.open("rb") as stream:
                magic = stream.read(len(ARROW_MAGIC))
            if magic.startswith(PARQUET_MAGIC):
                self._parquet = pq.ParquetFile(
                    path,
                    thrift_string_size_limit=_THRIFT_BYTES_MAX,
                    thrift_container_size_limit=_THRIFT_BYTES_MAX,
                )
                self.schema = self._parquet.schema_arrow
            else:
                mapped: Any = pa.memory_map(str(path))
                mapped.seek(len(ARROW_MAGIC) if magic == ARROW_MAGIC else 0)
                self._stream = pa.ipc.open_stream(mapped)
                self.schema = self._stream.schema
            self._names = self.schema.names  # which must be UTF-8
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InputError(
                f"{name}: not readable as Arrow or Parquet ({_line(error)})"
            ) from error

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some columns, in order; damage ends them and is counted."""
        chosen = list(self._names if columns is None else columns)
        rows = 0
        try:
            for batch in self._parts(chosen):
                there = batch.schema.names  # of columns with one name, the first counts
                kept = batch.select([there.index(name) for name in chosen])
                kept.validate(full=True)  # or offsets that point outside would be followed
                rows += batch.num_rows
                yield kept
        except (pa.ArrowException, OSError, ValueError) as error:
            reason = f"the file is damaged or cut: rows after the first {rows} left out"
            self._losses.fault(reason, where=_line(error))

    def _parts(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        if self._parquet is not None:
            yield from self._parquet.iter_batches(_BATCH_ROWS, columns=columns)
            return
        for batch in self._stream:
            for start in range(0, batch.num_rows, _BATCH_ROWS):
                yield batch.slice(start, _BATCH_ROWS)


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
