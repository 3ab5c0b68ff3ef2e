"""The session of a recorded process: its clock, rows, spans and losses, written to the channel.

There is one per process, made on the first look at `current()` where the environment names a
channel. Rows wait in memory for at most `FLUSH_SECONDS`; a thread of the session writes them.
"""

from __future__ import annotations

import atexit
import json
import os
import platform
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from . import main_thread, region
from .annotate import add_sink, remove_sink
from .channel_writer import RingWriter
from .process_end import close_in_children
from .ranks import place
from .rows import WAITING_ROWS, Encoder, Losses, Rows
from .selection import Selection
from .spans import SPAN_COLUMNS, THREAD_COLUMNS, Spans
from .stacks import FRAME_COLUMNS, Stacks
from .watchdog import HANG_SECONDS, SAMPLE_COLUMNS, Watchdog

CHANNEL, SETTINGS = "PASTA_CHANNEL", "PASTA_COLLECT"
"""Environment variables: the channel's folder, and what to collect as JSON."""
FLUSH_SECONDS = 0.1
_PROCESS_COLUMNS = (
    "parent_pid",
    "host",
    "command",
    "world_size",
    "started",
    "ended",
    "framework",
    "stack_id",
)
_METRIC_COLUMNS = ("ts", "dur", "name", "value", "unit")
_FILE_COLUMNS = ("path", "kind", "shift", "events")
_LOSS_COLUMNS = ("collector", "reason", "count", "first_ts")
_TOO_MANY = "rows that came faster than they could be written: dropped"

_session: Session | None = None


def current() -> Session | None:
    """Return this process's session; `None`: nothing records it."""
    global _session  # noqa: PLW0603 - one for each process
    if _session is None:
        folder = os.environ.get(CHANNEL)
        if not folder or not os.path.isdir(folder):
            return None
        try:
            settings = json.loads(os.environ.get(SETTINGS, "{}"))
            _session = Session(folder, settings)
        except Exception:  # noqa: BLE001 - whatever it is, the program must go on
            return None
    return _session


def install(session: Session | None) -> None:
    """Let `current()` return `session` from now on."""
    global _session  # noqa: PLW0603 - one for each process
    _session = session


class Collector(Protocol):
    """What fills rows while the session records; called on the main thread only."""

    def start(self) -> None:
        """Record from here on."""

    def stop(self) -> None:
        """Record no more, until started again."""

    def close(self) -> None:
        """Hand over what is left: the session ends."""

    def forked(self) -> None:
        """Record no more in this child, which was forked."""


class Session:
    """What records this process.

    Args:
        folder: the channel's folder.
        settings: what to collect; `offset` takes the monotonic clock to ns since the epoch.
        name: name of the run's span.

    Attributes:
        folder, settings: as given.
        offset: takes the monotonic clock to ns since the epoch.
        rank: rank of this process.
        spans: the open spans of every thread.
        operator_stack: gives the id of the stack that ends in a frame; `None`: not asked for.
        watchdog: looks for spans that stay open, and for a program that no longer moves.
        steps_by_hand: whether the program says where steps begin, so that optimizers do not.
        losses: what could not be kept or trusted.
        active: whether the session goes on; false once it has closed.
        recording: whether ranges and operators are recorded now.
        spent: what recording cost the program, in ns: `collect` in hooks, `transfer` in writing
            to the channel.
    """

    def __init__(self, folder: str, settings: dict[str, Any], name: str | None = None) -> None:
        self.folder = folder
        self.settings = settings
        where = place(os.environ)
        self.rank = where.rank
        self._world_size = where.world_size
        self.offset = int(settings.get("offset", 0))
        self.active = True
        self.steps_by_hand = False
        self._collector = "session"
        self._framework = f"python {platform.python_version()}"
        self._name = name or command_line()
        self._tables: list[Rows] = []
        self._listeners: list[Callable[[], None]] = []
        self._collectors: list[Collector] = []
        self._switched_off: set[str] = set()
        self._selection = Selection(folder, settings)
        self._begin()
        atexit.register(self.close)

    def _begin(self) -> None:
        """Make what belongs to this process alone: writer, thread, lock, open spans."""
        self._pid = os.getpid()
        self._flushing = threading.Lock()
        self._stop = threading.Event()
        self._writer = RingWriter(self.folder, rank=self.rank)
        self._encoder = Encoder(self._writer.columns, self._writer.write)
        self._tables.clear()
        self._started = self.clock()
        self.losses = Losses()
        self.spent = {"collect": 0, "transfer": 0}
        self.recording = self._selection.wants(self._started)
        self._span_rows = self.rows("span", SPAN_COLUMNS, external_id=0)
        self._thread_rows = self.rows("thread", THREAD_COLUMNS, stack_id=0)
        self._process_rows = self.rows("process", _PROCESS_COLUMNS)
        self._loss_rows = self.rows("loss", _LOSS_COLUMNS)
        self._file_rows = self.rows("file", _FILE_COLUMNS)
        self._metric_rows = self.rows("metric", _METRIC_COLUMNS, device=-1, launch_id=0)
        frames = self.rows("frame", FRAME_COLUMNS, language="python", library="")
        stacks = Stacks(frames, self.losses, self.clock)
        self.operator_stack = stacks.of if _stacks_wanted(self.settings) else None
        self.spans = Spans(
            self._name,
            self._span_rows,
            self._thread_rows,
            self.losses,
            self.clock,
            step_begins=self._step_begins,
            stack_id=stacks.here if _stacks_wanted(self.settings) else lambda: 0,
        )
        self.watchdog = Watchdog(
            self.spans,
            self._span_rows,
            open_rows=self.rows("span", SPAN_COLUMNS, external_id=0),
            samples=self.rows("sample", SAMPLE_COLUMNS),
            stacks=stacks,
            clock=self.clock,
            hang_seconds=self.settings.get("hang_seconds", HANG_SECONDS),
        )
        self.each_flush(self._watch)
        self.describe()
        self._thread = threading.Thread(target=self._run, name="pasta", daemon=True)
        self._thread.start()
        add_sink(self)
        region.attach(self)
        close_in_children(self)

    def clock(self) -> int:
        """Return the time in ns since the epoch: the monotonic clock, shifted once for the run."""
        return time.monotonic_ns() + self.offset

    def rows(self, table: str, columns: tuple[str, ...], **constants: Any) -> Rows:
        """Return what takes rows of `table`, given as tuples of `columns`."""
        rows = Rows(table, columns, constants)
        self._tables.append(rows)
        return rows

    def describe(self, collector: str | None = None, framework: str | None = None) -> None:
        """Write the row of the process, again as soon as more is known of it."""
        if collector:
            self._collector = collector
        if framework:
            self._framework = f"{framework}; {self._framework}"
        about = (socket.gethostname(), command_line(), self._world_size)
        times = (self._started, None)
        self._process_rows.append((os.getppid(), *about, *times, self._framework, 0))

    def begin(self, name: str) -> None:
        """Open an annotation of the calling thread."""
        if self.recording:
            self.guarded("annotation", self._open_annotation, name)

    def end(self, name: str) -> None:
        """Close an annotation of the calling thread."""
        self.guarded("annotation", self._close_annotation, name)

    def _open_annotation(self, name: object) -> None:
        text = str(name)  # programs give whatever they have at hand
        self.spans.open("annotation", text, text)

    def _close_annotation(self, name: object) -> None:
        self.spans.close("annotation", str(name))

    def guarded(self, hook: str, action: Callable[..., Any], *arguments: Any) -> Any:
        """Run `action` so that no failure of it reaches the program; `None` if it failed."""
        if not self.active or hook in self._switched_off:
            return None
        try:
            return action(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is, the program must go on
            self._switched_off.add(hook)
            reason = f"the {hook} hook failed and was switched off: {error!r}"
            self.losses.count(reason, self.clock())
            return None

    def step(self) -> None:
        """Begin a step here; from the first call on, optimizers no longer end steps."""
        first, self.steps_by_hand = not self.steps_by_hand, True
        self.guarded("step", self.spans.begin_first_step if first else self.spans.end_step)

    def metric(self, name: str, value: float, unit: str) -> None:
        """Make the row of what `name` is now."""
        self._metric_rows.append((self.clock(), 0, name, value, unit))

    def each_flush(self, listener: Callable[[], None]) -> None:
        """Call `listener` from the session's thread about every `FLUSH_SECONDS`."""
        self._listeners.append(listener)

    def add_collector(self, collector: Collector) -> None:
        """Let `collector` record whenever the session does, from now on."""
        self._collectors.append(collector)
        if self.recording:
            main_thread.call_soon(lambda: self.guarded("start", collector.start))

    def ask(self, *, record: bool, steps: int | None = None) -> None:
        """Record from here on, for so many steps or until told otherwise, or do not."""
        self._selection.ask(record=record, steps=steps)
        self._follow_selection()

    @property
    def collectors(self) -> tuple[Collector, ...]:
        """What records whenever the session does."""
        return tuple(self._collectors)

    def _step_begins(self, step: int) -> None:
        self._selection.step_begins(step)
        self._follow_selection()

    def _follow_selection(self) -> None:
        """Start or stop the collectors if what is wanted has changed."""
        wanted = self._selection.wants(self.clock())
        if wanted != self.recording:
            main_thread.call_soon(lambda: self._set_recording(recording=wanted))

    def _set_recording(self, *, recording: bool) -> None:
        if recording == self.recording or not self.active:
            return
        self.recording = recording
        for collector in self._collectors:
            if recording:
                self.guarded("start", collector.start)
            else:
                self.guarded("stop", collector.stop)

    def announce(self, path: str, kind: str, shift: int, events: int) -> None:
        """Tell the reader of a complete file, which it imports and removes.

        Args:
            path: the file.
            kind: its format.
            shift: added to all its times, in ns.
            events: how many events it holds, to be counted where it is lost.
        """
        self._file_rows.append((path, kind, shift, events))

    def flush(self) -> None:
        """Write the rows that wait; where another thread is at it, leave it to that one."""
        if not self._flushing.acquire(blocking=False):
            return
        try:
            self._flush()
        finally:
            self._flushing.release()

    def flush_if_full(self) -> None:
        """Write what waits if a batch of any table has gathered."""
        if any(rows.full for rows in self._tables):
            self.guarded("write", self.flush)

    def close(self) -> None:
        """Close what is open, write the last rows, and record no more."""
        if not self.active or self._pid != os.getpid():
            return
        remove_sink(self)
        region.detach(self)
        for collector in self._collectors:
            self.guarded("close", collector.close)
        self._stop.set()
        self.guarded("span", self.spans.finish)
        now = self.clock()
        for name, spent in self.spent.items():
            row = (self._started, now - self._started, f"pasta.{name}", spent / 1e9, "s")
            self._metric_rows.append(row)
        with self._flushing:
            self.guarded("write", self._flush)
            self.active = False
            self._writer.close()

    def forked(self) -> None:
        """Begin anew in a child that was forked: what waits belongs to the parent.

        What is recorded is chosen as in the parent at this moment.
        """
        if not self.active:
            return
        remove_sink(self)
        for collector in self._collectors:
            self.guarded("fork", collector.forked)
        self._listeners.clear()
        self._collectors.clear()
        self._begin()

    def _run(self) -> None:
        while not self._stop.wait(FLUSH_SECONDS):
            self._selection.read_control()
            self._follow_selection()
            for listener in self._listeners:
                self.guarded(f"periodic {listener.__qualname__}", listener)
            self.guarded("write", self.flush)

    def _watch(self) -> None:
        self.watchdog.look(recording=self.recording)

    def _flush(self) -> None:
        began = time.monotonic_ns()
        self._write_rows()
        self.spent["transfer"] += time.monotonic_ns() - began

    def _write_rows(self) -> None:
        for reason, count, first in self.losses.take():
            self._loss_rows.append((self._collector, reason, count, first))
        for rows in self._tables:
            if len(rows) > WAITING_ROWS:
                self.losses.count(_TOO_MANY, self.clock(), rows.forget())
            columns = rows.take()
            if columns:
                self._encoder.write(rows.table, columns)


def _stacks_wanted(settings: dict[str, Any]) -> bool:
    """Tell whether any collector is asked for call stacks."""
    options = (value for value in settings.values() if isinstance(value, dict))
    return any(option.get("stacks") for option in options)


def command_line() -> str:
    """Return the command line of this process, as the system knows it."""
    try:
        with open("/proc/self/cmdline", "rb") as file:
            words = file.read().split(b"\0")[:-1]
    except OSError:
        return " ".join(sys.argv)
    return " ".join(word.decode(errors="replace") for word in words)


def _forked() -> None:
    if _session is not None:
        _session.forked()


os.register_at_fork(after_in_child=_forked)
