"""Running a program: its streams, arguments and signals are its own, its end is ours to know."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

from pasta.errors import CollectError

_FROM_TERMINAL = 0x80
"""`si_code` of a signal that the kernel sends, as a terminal's to all processes in front of it."""
_FORWARDED = frozenset(
    [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2]
)
_WAKE = signal.SIGRTMIN


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
    none of them ends this process as long as the block runs.

    Args:
        command: program and arguments, given to the system as they are.
        environment: all of its environment.

    Raises:
        CollectError: there is no such program, or it cannot be run.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [*_FORWARDED, _WAKE])
        try:
            self.pid = _spawn(command, environment, self._blocked)
        except BaseException:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)
            raise
        self._end: End | None = None
        self._forwarder = threading.Thread(target=self._forward, name="pasta signals", daemon=True)
        self._forwarder.start()

    def ended(self) -> End | None:
        """Return how the program ended; `None`: it runs."""
        if self._end is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._end = End(os.waitstatus_to_exitcode(status))
        return self._end

    def _forward(self) -> None:
        while True:
            told = signal.sigwaitinfo([*_FORWARDED, _WAKE])
            if told.si_signo == _WAKE:
                return
            if told.si_code != _FROM_TERMINAL and self._end is None:
                os.kill(self.pid, told.si_signo)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        signal.pthread_kill(self._forwarder.ident or 0, _WAKE)
        self._forwarder.join()
        signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)


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


def _spawn(
    command: Sequence[str], environment: Mapping[str, str], mask: set[int | signal.Signals]
) -> int:
    check_command(command)
    try:
        return os.posix_spawnp(command[0], list(command), dict(environment), setsigmask=mask)
    except OSError as error:
        raise CollectError(f"{command[0]}: cannot be run ({error.strerror})") from error
