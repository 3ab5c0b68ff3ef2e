"""The live view: a thread that shows at the bottom of the terminal how a recording goes on.

The view is a convenience. It never holds up the recording: rows that it cannot follow are left out
of it (the trace has them all), and when it fails it goes, with one line that says so.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Self, TextIO, cast

import polars as pl
import pyarrow as pa
from rich.console import Console

from pasta.pipeline.live import LiveGraph
from pasta.tools.live_report import Status, live_report, view
from pasta.tools.terminal import LowestLines
from pasta.tools.units import printable

REFRESH_SECONDS = 0.25
MOST_LINES = 14
MOST_WAITING_ROWS = 1 << 18
"""Rows that wait for the next refresh; more are left out of the view."""

_RATE_SECONDS = 2.0
_END_SECONDS = 1.0
_IDLE_FACTOR = 3
"""A refresh is followed by so many times its own length without one: a quarter of a core at most."""


class LiveView:
    """The view of a recording, drawn by a thread of its own; a context manager.

    Where the stream is no terminal it does nothing at all.

    Args:
        live: the graph of the tool that runs, if one does.
        run: the name of the run that is recorded.
        stream: where to draw; default the error stream.

    Attributes:
        failure: why the view went off; empty: it did not.
        left_out: rows that came too fast for it.
    """

    def __init__(
        self, live: LiveGraph | None = None, run: str = "", stream: TextIO | None = None
    ) -> None:
        self.failure = ""
        self.left_out = 0
        self._live = live
        self._run = run
        self._stream = sys.stderr if stream is None else stream
        self._console = Console(file=self._stream)
        self.on = self._stream.isatty() and not self._console.is_dumb_terminal
        self._waiting: list[tuple[str, pa.Table]] = []
        self._waiting_rows = 0
        self._statuses: deque[Status] = deque(maxlen=round(_RATE_SECONDS / REFRESH_SECONDS))
        self._asked = 0.0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._refresh_often, name="pasta view", daemon=True)

    def offer(self, table: str, rows: pa.Table) -> None:
        """Take rows that arrived, to be counted in by the next refresh; returns at once."""
        if not self.on or self._live is None:
            return
        with self._lock:
            if self._waiting_rows >= MOST_WAITING_ROWS:
                self.left_out += rows.num_rows
                return
            self._waiting.append((table, rows))
            self._waiting_rows += rows.num_rows

    def watch(self, status: Callable[[], Status]) -> None:
        """Ask for the status, where it is time to; to be called often, by who may ask for it."""
        now = time.monotonic()
        if self.on and now - self._asked >= REFRESH_SECONDS:
            self._asked = now
            self._statuses.append(status())

    def __enter__(self) -> Self:
        """Start to draw; signals are left to the other threads."""
        if self.on:
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                self._thread.start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return self

    def __exit__(self, *_error: object) -> None:
        """Take the view away; a terminal that takes no more is not waited for."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(timeout=_END_SECONDS)

    def _refresh_often(self) -> None:
        lines = LowestLines(self._stream.fileno(), MOST_LINES if self._live is not None else 2)
        pause = REFRESH_SECONDS
        try:
            while not self._over.wait(pause):
                began = time.monotonic()
                self._refresh(lines)
                pause = max(REFRESH_SECONDS, _IDLE_FACTOR * (time.monotonic() - began))
        except Exception as error:  # noqa: BLE001 (whatever it is, the recording goes on)
            self.on = False
            self._waiting = []
            told = str(error).partition("\n\n")[0]
            self.failure = " ".join(told.split()) or type(error).__name__
        lines.close()
        if self.failure:
            with contextlib.suppress(OSError):
                line = f"pasta: live view off: {printable(self.failure)}; the recording goes on\n"
                os.write(self._stream.fileno(), line.encode("utf-8", "replace"))

    def _refresh(self, lines: LowestLines) -> None:
        report = None
        if self._live is not None:
            for table, rows in self._take_waiting().items():
                self._live.add(table, rows, self._run)
            report = live_report(self._live, self._run)
        size = lines.size
        if not self._statuses or not size.lines:
            return
        self._console.width = size.columns
        statuses = (self._statuses[0], self._statuses[-1])
        with self._console.capture() as captured:
            self._console.print(view(statuses, report, size, self.left_out))
        lines.draw(captured.get().splitlines())

    def _take_waiting(self) -> dict[str, pl.DataFrame]:
        """Return the rows that wait, by table, without spans that will come again when they end."""
        with self._lock:
            waiting, self._waiting, self._waiting_rows = self._waiting, [], 0
        batches: dict[str, list[pl.DataFrame]] = {}
        for table, rows in waiting:
            arrived = cast(pl.DataFrame, pl.from_arrow(rows))
            if table == "span":
                arrived = arrived.filter(pl.col("dur").is_not_null())
            batches.setdefault(table, []).append(arrived)
        return {table: pl.concat(rows, how="diagonal") for table, rows in batches.items()}
