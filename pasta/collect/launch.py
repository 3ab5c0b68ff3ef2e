"""Running a program: its streams, arguments and signals are its own, its end is ours to know."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from pasta.errors import CollectError

_PASSED_ON = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2),
)
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

    Raises:
        CollectError: there is no such program, or it cannot be run.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command = command
        self._environment = environment
        self._end: End | None = None
        self._handlers: dict[int, Any] = {}
        self.pid = 0

    def ended(self) -> End | None:
        """Return how the program ended; `None`: it runs."""
        if self._end is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._end = End(os.waitstatus_to_exitcode(status))
        return self._end

    def _pass_on(self, number: int, _frame: object) -> None:
        if self.pid and self._end is None and not (number in _FROM_KEYS and _in_front()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, number)

    def __enter__(self) -> Self:
        """Start the program; off the main thread, signals are left as they are."""
        if threading.current_thread() is threading.main_thread():
            for number in _PASSED_ON:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._handlers[number] = signal.signal(number, self._pass_on)
        try:
            self.pid = _spawn(self._command, self._environment)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
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
    check_command(command)
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
