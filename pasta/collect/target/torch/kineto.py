"""Levels `operators` and `timeline` by PyTorch's own profiler, in cycles of bounded length.

Each cycle ends in a file of the profiler's format, which the analysis process imports: formatting
it takes the profiler at most half of the time that Python needs to read the events (benchmarks/
kineto_cycles.py). Cycles begin and end on the main thread, as the profiler belongs to a thread, and
one follows another only where no operator is open.
"""

# ruff: noqa: SLF001 - PyTorch has no public names for what is needed here

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from .. import main_thread
from ..session import Session
from .named_ranges import NamedRanges
from .quiet import is_quiet

KIND = "kineto"
CYCLE_SECONDS = {"operators": 0.5, "timeline": 2.0}
"""Longest cycles: with devices each one waits for them and costs some 50 ms."""
SHORTEST_SECONDS = 0.1
_AFTER_IDLE_SECONDS = 0.5
"""How long a cycle lasts at most after one in which nothing happened: much may happen next."""
CYCLE_BYTES = 1 << 23
"""About this large a cycle's file becomes at most: cycles get shorter where more happens."""
UNREAD_BYTES = 256 << 20
_SPARE_BYTES = 64 << 20
_SOME_EVENTS_BYTES = 4096
"""So much larger than the emptiest cycle is one in which the program did something."""
_UNREAD = "cycles of PyTorch's profiler that were not read in time: dropped whole"
_OVERDUE = 5
"""A cycle so many times as long as the longest ends wherever the program is."""
_ATTEMPTS, _ATTEMPT_SECONDS = 20, 0.002
_ANSWER_SECONDS = 1.0
_PAUSED = "cycles of PyTorch's profiler that ended inside an operator: none recorded until it ended"
_YIELDED = "times that the program's own profiler ran: nothing of PyTorch is recorded meanwhile"
_BEGIN, _END = ("_prepare_profiler", "_enable_profiler"), "_disable_profiler"

_current: KinetoCycles | None = None


class KinetoCycles:
    """PyTorch's profiler, switched on and off so that its memory stays bounded.

    Args:
        session: knows the channel and the clock, and announces files.
        level: `operators` (host only) or `timeline` (host and devices).
        settings: `cycle_seconds`: longest cycle.

    Attributes:
        busy: tells whether a cycle may not end now, though the main thread is at a bytecode.
    """

    def __init__(self, session: Session, level: str, settings: dict[str, Any]) -> None:
        global _current  # noqa: PLW0603 - what happens around forks is told to functions
        self.busy: Callable[[], bool] = lambda: False
        self._session = session
        self._devices = level == "timeline"
        self._stacks = bool(settings.get("stacks"))
        self._longest = float(settings.get("cycle_seconds") or CYCLE_SECONDS[level])
        self._seconds = SHORTEST_SECONDS
        self._wanted = self._open = self._yielded = False
        self._opened = 0.0
        self._cycles = 0
        self._profiled = False
        self._asked = self._turning = False
        self._ended: list[Any] = []
        self._written: list[Any] = []
        self._smallest = _SPARE_BYTES
        self._lively = 0
        self._profiler = _originals()
        self._replaced = self._give_way()
        self._ranges = NamedRanges(
            session, lambda: self._wanted and not self._yielded, lambda: self._yielded
        )
        _current = self
        session.each_flush(self.tick)
        session.watchdog.watch(lambda: self._lively)

    def start(self) -> None:
        """Record from here on."""
        self._wanted = True
        self._alone(self._begin_if_quiet)

    def stop(self) -> None:
        """Record no more, until started again."""
        self._wanted = False
        self._alone(self._end_cycle)

    def close(self) -> None:
        """End the open cycle, and leave PyTorch as it was."""
        self.stop()
        self._ranges.close()
        for module, name, ours, original in self._replaced:
            if getattr(module, name) is ours:
                setattr(module, name, original)

    def forked(self) -> None:
        """Record no more in this child: the cycle ended before the fork."""
        self._wanted = self._open = False
        self._written, self._ended = [], []
        if self._profiled:
            _end_without_destructors()

    def tick(self) -> None:
        """Ask the main thread to turn to the next cycle, where this one has lasted long enough.

        Where it is inside an operator it is asked again, as that may be so most of the time.
        """
        self._asked = False
        for _ in range(_ATTEMPTS):
            if not self._is_due():
                return
            if not self._asked:
                self._asked = True
                main_thread.call_soon(self._answer)
            time.sleep(_ATTEMPT_SECONDS)

    def turn_if_due(self) -> None:
        """Turn to the next cycle here, on the main thread, where this one has lasted long enough."""
        if self._is_due():
            self._session.guarded("cycle", self._alone, self._turn)

    def before_fork(self) -> None:
        """End the cycle, so that no child inherits a profiler that nobody would end."""
        if self._open and threading.current_thread() is threading.main_thread():
            self._session.guarded("cycle", self._alone, self._end_cycle)

    def after_fork(self) -> None:
        """Go on in the parent."""
        if threading.current_thread() is threading.main_thread():
            self._session.guarded("cycle", self._alone, self._begin_if_quiet)

    def _alone(self, action: Callable[[], None]) -> None:
        """Begin or end a cycle, unless that is what was interrupted to come here."""
        if self._turning:
            return
        self._turning = True
        try:
            action()
            if not self._wanted or self._yielded:
                self._end_cycle()
        finally:
            self._turning = False

    def _is_due(self) -> bool:
        """Whether a cycle is to begin, or to end since it has lasted long enough."""
        if not self._wanted or self._yielded:
            return False
        return not self._open or time.monotonic() - self._opened >= self._seconds

    def _answer(self) -> None:
        self._asked = False
        self.turn_if_due()

    def _turn(self) -> None:
        if self.busy() or _captures():
            return
        if self._may_begin():
            self._end_cycle()
            self._begin_cycle()
        elif self._open and time.monotonic() - self._opened >= _OVERDUE * self._longest:
            self._end_cycle()
            self._session.losses.count(_PAUSED, self._session.clock())

    def _may_begin(self) -> bool:
        """Whether nothing is open that a profiler has seen the begin of."""
        return not self._profiled or (not self._ranges.known_to_profilers and is_quiet())

    def _begin_if_quiet(self) -> None:
        """Begin a cycle here, or leave it to the next tick."""
        if self._is_due() and not self._open and not self.busy() and self._may_begin():
            self._begin_cycle()

    def _begin_cycle(self) -> None:
        from torch._C._profiler import ProfilerConfig, ProfilerState

        self._profiled = True
        began = time.monotonic_ns()
        # Positional only: shapes, memory, stacks, flops, modules.
        wanted = (True, True, self._stacks, False, False)
        config = ProfilerConfig(ProfilerState.KINETO, *wanted, _without_events())
        activities = _activities(devices=self._devices)
        prepare, enable, _ = self._profiler
        prepare(config, activities)
        # Told before it is so: a signal may interrupt this line and not the profiler's beginning.
        self._open, self._opened = True, time.monotonic()
        try:
            enable(config, activities)
        except Exception:
            self._open = False
            raise
        self._session.spent["collect"] += time.monotonic_ns() - began

    def _end_cycle(self) -> None:
        """End the open cycle and write its file.

        A handler of the program's may interrupt this by an exception: what is left is done then by the
        next call. So one call into C both ends the profiler and keeps what it has recorded, and one
        both writes that and notes it: neither can be done twice.
        """
        began = time.monotonic_ns()
        lasted = time.monotonic() - self._opened
        if self._open:
            if self._devices:
                _synchronize()
            ending = itertools.starmap(self._profiler[2], [()])
            self._open = False
            self._ended.extend(ending)
        if self._ended:
            ended = time.monotonic_ns()
            self._session.spent["collect"] += ended - began
            self._choose_length(lasted, self._save(self._ended[0]))
            self._session.spent["transfer"] += time.monotonic_ns() - ended

    def _choose_length(self, lasted: float, size: int) -> None:
        """Let the next cycle become about `CYCLE_BYTES` large, by the length and size of this one."""
        self._smallest = min(self._smallest, size or _SPARE_BYTES)
        lively = size > self._smallest + _SOME_EVENTS_BYTES
        self._lively += lively
        fitting = lasted * min(CYCLE_BYTES / max(size, 1), 2) if lively else _AFTER_IDLE_SECONDS
        self._seconds = min(max(fitting, SHORTEST_SECONDS), self._longest)

    def _save(self, result: Any) -> int:
        """Write a cycle's file; return its size, 0 where it was dropped."""
        name = f"cycle-{os.getpid()}-{self._cycles}.json"
        folder = self._roomy_folder()
        if folder is None:
            self._written, self._ended = [], []
            self._session.losses.count(_UNREAD, self._session.clock())
            return 0
        hidden, path = os.path.join(folder, f".{name}"), os.path.join(folder, name)
        shift = _shift(self._session.clock)
        if not self._written:
            self._written.extend(itertools.starmap(result.save, [(hidden,)]))
        size = os.stat(hidden).st_size
        os.rename(hidden, path)
        self._cycles += 1
        self._written, self._ended = [], []
        self._session.announce(path, KIND, shift, 0)
        return size

    def _roomy_folder(self) -> str | None:
        """Return shared memory where it has room, else the trace's disk; `None`: too much waits."""
        places = (self._session.folder, self._session.settings.get("files", ""))
        waiting = sum(map(_cycle_bytes, filter(None, places)))
        if waiting > UNREAD_BYTES:
            return None
        state = os.statvfs(self._session.folder)
        roomy = state.f_bavail * state.f_frsize > _SPARE_BYTES + waiting
        return self._session.folder if roomy or not places[1] else places[1]

    def _give_way(self) -> list[tuple[Any, str, Any, Any]]:
        """Let a profiler that the program starts have its turn; return what was replaced."""
        from torch.autograd import profiler

        replaced = []
        for name, wrap in (
            (_BEGIN[0], self._before),
            (_BEGIN[1], self._before),
            (_END, self._after),
        ):
            original = getattr(profiler, name)
            ours = wrap(original)
            setattr(profiler, name, ours)
            replaced.append((profiler, name, ours, original))
        return replaced

    def _before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def yielding(*args: Any, **kwargs: Any) -> Any:
            if not self._yielded:
                self._yielded = self._profiled = True
                self._make_way()
                self._session.losses.count(_YIELDED, self._session.clock())
            try:
                return function(*args, **kwargs)
            except BaseException:
                self._yielded = False
                raise

        return yielding

    def _make_way(self) -> None:
        """End the cycle before a profiler of the program begins, whatever thread that is on."""
        ended = threading.Event()

        def end() -> None:
            self._session.guarded("cycle", self._alone, self._end_cycle)
            ended.set()

        if self._open:
            main_thread.call_soon(end)
            ended.wait(_ANSWER_SECONDS)

    def _after(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def resuming(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            self._yielded = False
            if threading.current_thread() is threading.main_thread():
                self._session.guarded("cycle", self._alone, self._begin_if_quiet)
            return result

        return resuming


def _shift(clock: Callable[[], int]) -> int:
    """Return what takes the time of day, which the profiler tells, to `clock`.

    Of several looks at both, the quickest is believed: it is off by at most half its length.
    """
    looks = []
    for _ in range(9):
        before, now, after = clock(), time.time_ns(), clock()
        looks.append((after - before, (before + after) // 2 - now))
    return min(looks)[1]


def _originals() -> tuple[Callable[..., Any], Callable[..., Any], Callable[[], Any]]:
    from torch.autograd import profiler

    return profiler._prepare_profiler, profiler._enable_profiler, profiler._disable_profiler


def _without_events() -> Any:
    """Return the configuration in which the profiler makes no Python objects, if it knows that one."""
    from torch._C._profiler import _ExperimentalConfig

    try:
        return _ExperimentalConfig(trace_only=True)
    except TypeError:  # PyTorch before 2.13
        return _ExperimentalConfig()


def _activities(*, devices: bool) -> set[Any]:
    from torch.autograd import ProfilerActivity
    from torch.profiler import supported_activities

    return set(supported_activities()) if devices else {ProfilerActivity.CPU}


def _synchronize() -> None:
    """Wait for the devices, as the profiler would otherwise miss what still runs."""
    import torch

    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _captures() -> bool:
    """Whether a CUDA graph is being captured, which a synchronisation would spoil."""
    import torch

    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


def _end_without_destructors() -> None:
    """Let this forked child end once Python has, with its output written.

    The profiler's destructor would wait for a thread that the child does not have, for ever.
    """
    libc = ctypes.CDLL(None)
    libc.on_exit(libc._exit, None)
    libc.__cxa_atexit(libc.fflush, None, None)  # the last registered is the first called


def _cycle_bytes(folder: str) -> int:
    """Return the size of the cycles that wait in `folder`."""
    total = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("cycle-"):
                    total += entry.stat().st_size
    except OSError:
        pass
    return total


def _before_fork() -> None:
    if _current is not None:
        _current.before_fork()


def _after_fork() -> None:
    if _current is not None:
        _current.after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork)
