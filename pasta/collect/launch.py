"""Running a program: its streams, arguments and signals are its own, its end is ours to know."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from pasta.collect import gate
from pasta.errors import CollectError

TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_PASSED_ON = (*TO_END, signal.SIGUSR1, signal.SIGUSR2)
_FROM_KEYS = frozenset([signal.SIGINT, signal.SIGQUIT])
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


class End(NamedTuple):
    """How a program ended.

    Attributes:
        code: its exit code; negative: the signal that ended it.
    """

    code: int

    @property
    def shell_code(self) -> int:
        """The exit code by which a shell tells it: 128 and the signal's number."""
        return self.code if self.code >= 0 else 128 - self.code

    def __str__(self) -> str:
        if self.code >= 0:
            return f"exit {self.code}"
        try:
            return f"signal {-self.code} ({signal.Signals(-self.code).name})"
        except ValueError:
            return f"signal {-self.code}"


class Program:
    """A program that runs; a context manager that passes signals on to it.

    It inherits the standard streams, the working directory and the process group, so that a
    terminal's keys reach it as ever. Signals that others send to this process are passed on;
    none of them ends this process as long as the block lasts. What is ignored stays so (`nohup`).

    Args:
        command: program and arguments, given to the system as they are.
        environment: all of its environment.
        gated: whether the program waits, with its process id known, until `release` lets it begin.

    Attributes:
        pid: its process id; 0 before it runs.
        interrupted: the last signal by which this process was asked to end while the program ran, which
            may have ended early then, whatever its exit code; 0: none.
        processor_seconds: processor time of it and of the children that it waited for, once it has ended.

    Raises:
        CollectError: there is no such program, or it cannot be run.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], *, gated: bool = False
    ) -> None:
        self._command = command
        self._environment = environment
        self._gate = _Gate() if gated else None
        self._end: End | None = None
        self._handlers: dict[int, Any] = {}
        self._waiter = threading.Thread(target=self._await_end, daemon=True)
        self._ended_ns = 0
        self._early: list[int] = []
        self.pid = 0
        self.interrupted = 0
        self.processor_seconds = 0.0

    def ended(self) -> End | None:
        """Return how the program ended; `None`: it runs."""
        if self._end is None:
            pid, status, used = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self._end = End(os.waitstatus_to_exitcode(status))
                self.processor_seconds = used.ru_utime + used.ru_stime
        return self._end

    @property
    def ended_ns(self) -> int:
        """When it ended, on the monotonic clock, however rarely `ended` is asked; waits for that."""
        self._waiter.join()
        return self._ended_ns

    def _await_end(self) -> None:
        with contextlib.suppress(ChildProcessError):  # `ended` was faster
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        self._ended_ns = time.monotonic_ns()

    def _pass_on(self, number: int, _frame: object = None) -> None:
        if number in TO_END:
            self.interrupted = number
        if not self.pid:
            self._early.append(number)  # the program may run before the system has told its id
        elif self._end is None and not (number in _FROM_KEYS and _in_front()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, number)

    def __enter__(self) -> Self:
        """Start the program; off the main thread, signals are left as they are."""
        if threading.current_thread() is threading.main_thread():
            for number in _PASSED_ON:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._handlers[number] = signal.signal(number, self._pass_on)
        try:
            check_command(self._command)
            if self._gate:
                self.pid = self._gate.spawn(self._command, self._environment)
            else:
                self.pid = _spawn(self._command, self._environment)
        except BaseException:
            self.__exit__()
            raise
        self._waiter.start()
        for early in self._early:
            self._pass_on(early)
        return self

    def release(self) -> None:
        """Let a gated program begin; one that was ended while it waited stays so.

        Raises:
            CollectError: it cannot be run.
        """
        assert self._gate is not None  # noqa: S101
        error = self._gate.open()
        if error:
            raise CollectError(f"{self._command[0]}: cannot be run ({os.strerror(error)})")

    def __exit__(self, *_error: object) -> None:
        still_waited = self._gate is not None and self._gate.close()
        if still_waited and self.pid:
            self._waiter.join()
            self.ended()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)


def _in_front() -> bool:
    """Whether the terminal's keys send their signals to this process's group, and so to all in it."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def command_text(command: Sequence[str]) -> str:
    """Return a command as text for people; what of it is no UTF-8, as old names of files, is replaced."""
    return shlex.join(command).encode("utf-8", "replace").decode("utf-8")


def check_command(command: Sequence[str]) -> None:
    """Check that a program can be found.

    Raises:
        CollectError: it cannot.
    """
    if not command:
        raise CollectError("no program to run; give one after --, as: -- python train.py")
    if shutil.which(command[0]) is None:
        why = "it is not executable" if os.path.exists(command[0]) else "no such program"  # noqa: PTH110
        raise CollectError(f"{command[0]}: {why}; name the program to run after --")


def _spawn(command: Sequence[str], environment: Mapping[str, str]) -> int:
    try:
        return os.posix_spawnp(
            command[0],
            list(command),
            dict(environment),
            setsigmask=(),
            setsigdef=_IGNORED_BY_PYTHON,
        )
    except OSError as error:
        raise CollectError(f"{command[0]}: cannot be run ({error.strerror})") from error


class _Gate:
    """Two pipes to a process that waits and then becomes the program; see `gate.py`."""

    def __init__(self) -> None:
        self._waits, self._go = os.pipe()
        self._answer, self._answers = os.pipe()
        self._open = [self._waits, self._go, self._answer, self._answers]

    def spawn(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Start the process that waits; return its id, which the program will have."""
        theirs = (self._waits, self._answers)
        for end in theirs:
            os.set_inheritable(end, True)  # noqa: FBT003 - the system's own order
        waiting = [sys.executable, "-I", "-S", gate.__file__, *map(str, theirs), *command]
        try:
            return os.posix_spawn(sys.executable, waiting, dict(environment), setsigmask=_PASSED_ON)
        finally:
            for end in theirs:
                self._close(end)

    def open(self) -> int:
        """Let the program begin; return the number of the error that kept it from that, or 0."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._go, b"!")
        self._close(self._go)
        return int(os.read(self._answer, 16) or 0)

    def close(self) -> bool:
        """Close what is open; tell whether a process still waited, which ends now."""
        waited = self._go in self._open
        for end in list(self._open):
            self._close(end)
        return waited

    def _close(self, end: int) -> None:
        if end in self._open:
            self._open.remove(end)
            os.close(end)
