"""Rows of a recorded program on their way into the channel, and the count of what is lost."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any

BATCH_ROWS = 1 << 13
WAITING_ROWS = 1 << 18
"""So many rows of one table wait at most; what comes on top is dropped and counted."""

Texts = tuple[str, ...]
"""A cell that holds texts: a tuple, since the garbage collector need not track rows of those."""

Write = Callable[[str, dict[str, Any]], None]


class Rows:
    """The rows of one table, appended one by one and handed over as columns.

    `append` is atomic, so that a finaliser may call it in the midst of anything.

    Args:
        table: name of the table.
        columns: the columns that each row gives, in order.
        constants: columns of equal value in each row, as `space`.
    """

    def __init__(self, table: str, columns: tuple[str, ...], constants: dict[str, Any]) -> None:
        self.table = table
        self._columns = columns
        self._constants = constants
        self._gone = 0
        self._rows: deque[tuple[Any, ...]] = deque()
        self.append = self._rows.append

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def appended(self) -> int:
        """How many rows there have been so far."""
        return self._gone + len(self._rows)

    @property
    def full(self) -> bool:
        """Whether a batch's worth of rows waits."""
        return len(self._rows) >= BATCH_ROWS

    def forget(self) -> int:
        """Drop the rows that wait; return how many there were."""
        dropped = len(self._rows)
        self._rows.clear()
        self._gone += dropped
        return dropped

    def take(self) -> dict[str, tuple[Any, ...]]:
        """Return the rows that wait as columns, and keep them no more; empty: there are none."""
        rows = [self._rows.popleft() for _ in range(len(self._rows))]
        if not rows:
            return {}
        self._gone += len(rows)
        columns = dict(zip(self._columns, zip(*rows, strict=True), strict=True))
        for name, value in self._constants.items():
            columns[name] = (value,) * len(rows)
        return columns


class Interned:
    """Texts that travel once: a table of ids and texts, each row before its first use.

    Args:
        table: name of the table that carries them, and of its column of values.
        write: writes columns of a table.
    """

    def __init__(self, table: str, write: Write) -> None:
        self._table = table
        self._write = write
        self._ids: dict[Any, int] = {}

    def ids(self, values: tuple[Any, ...]) -> list[int]:
        """Return the id of each value, 0 for `None`; new ones are written at once."""
        known = self._ids
        new = [value for value in dict.fromkeys(values) if value not in known and value is not None]
        if new:
            first = len(known) + 1
            known.update(zip(new, range(first, first + len(new)), strict=True))
            self._write(self._table, {"id": [*range(first, first + len(new))], self._table: new})
        return [0 if value is None else known[value] for value in values]


class Encoder:
    """Turns columns of Python values into those of the channel: texts become ids.

    Args:
        columns: table -> names of its columns in the channel; that of the ids of texts in a
            column `name` is called `name_text`, that of lists of texts `name_texts`.
        write: writes columns of a table.
    """

    def __init__(self, columns: Mapping[str, Collection[str]], write: Write) -> None:
        self._columns = columns
        self._write = write
        self._text = Interned("text", write)
        self._texts = Interned("texts", write)

    def write(self, table: str, columns: dict[str, tuple[Any, ...]]) -> None:
        """Write `columns`, after the texts that they use for the first time."""
        known = self._columns[table]
        encoded: dict[str, Any] = {}
        for name, values in columns.items():
            if f"{name}_text" in known:
                encoded[f"{name}_text"] = self._text.ids(values)
            elif f"{name}_texts" in known:
                encoded[f"{name}_texts"] = self._texts.ids(values)
            else:
                encoded[name] = values
        self._write(table, encoded)


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

    def take(self) -> list[tuple[str, int, int]]:
        """Return (reason, count, first time) of what was counted since the last call."""
        with self._lock:
            counts, self._counts = self._counts, {}
        return [(reason, count, first) for reason, (count, first) in counts.items()]
