"""Rows on their way from a recorded program into a trace, and the count of what is lost."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import pyarrow as pa

from pasta.schema import arrow_schema
from pasta.trace_writer import PartWriter

BATCH_ROWS = 1 << 13

Texts = tuple[str, ...]
"""A cell that holds texts: a tuple, since the garbage collector need not track rows of those."""


class Rows:
    """The rows of one table, appended one by one and written as Arrow batches.

    `append` is atomic, so that a finaliser may call it in the midst of anything; `write` is not
    reentrant and skips where another thread is at it.

    Args:
        part: where the batches go.
        table: name of the table.
        columns: the columns that each row gives, in order.
        constants: columns of equal value in each row, as `rank`.
    """

    def __init__(
        self, part: PartWriter, table: str, columns: tuple[str, ...], constants: dict[str, Any]
    ) -> None:
        schema = arrow_schema(table)
        self._part = part
        self._table = table
        self._schema = pa.schema([schema.field(name) for name in (*columns, *constants)])
        self._constants = constants
        self._rows: deque[tuple[Any, ...]] = deque()
        self._writing = threading.Lock()
        self.append = self._rows.append

    @property
    def full(self) -> bool:
        """Whether a batch's worth of rows waits."""
        return len(self._rows) >= BATCH_ROWS

    def write(self) -> None:
        """Write the rows that wait."""
        if not self._writing.acquire(blocking=False):
            return
        try:
            rows = [self._rows.popleft() for _ in range(len(self._rows))]
            if rows:
                self._part.append(self._table, self._batch(rows))
        finally:
            self._writing.release()

    def _batch(self, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        columns = [*zip(*rows, strict=True)]
        columns += [(value,) * len(rows) for value in self._constants.values()]
        arrays = [
            pa.array(column, type=field.type)
            for column, field in zip(columns, self._schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


class Losses:
    """What could not be kept or trusted, counted by reason."""

    def __init__(self) -> None:
        self._counts: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()

    def count(self, reason: str, ts: int, by: int = 1) -> None:
        """Count `by` more of `reason`; the first time stays."""
        with self._lock:
            known, first = self._counts.get(reason, (0, ts))
            self._counts[reason] = (known + by, first)

    def rows(self) -> list[tuple[str, int, int]]:
        """Return (reason, count, first time) of each reason."""
        return [(reason, count, first) for reason, (count, first) in self._counts.items()]
