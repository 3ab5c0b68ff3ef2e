"""What a program that must wait is started through: it becomes the program when it is let go.

Run by its path, as `python -I -S gate.py GO ANSWER PROGRAM ARGUMENT ...`, with all signals blocked
that could reach it before it is set up. It reads one byte of the pipe `GO` and replaces itself; where
it cannot, the error's number is written to `ANSWER`. The end of `GO` without a byte ends it.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from pathlib import Path

_NOT_RUN = 127
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def given_environment() -> dict[bytes, bytes]:
    """Return the environment as it was given, without what Python itself has set in it."""
    try:
        entries = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:
        return dict(os.environb)
    return dict(entry.split(b"=", 1) for entry in entries if b"=" in entry)


def wait_and_become(go: int, answer: int, command: list[str]) -> int:
    """Become `command` once a byte comes; return the exit code where it cannot be."""
    for number in _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    if not os.read(go, 1):
        return _NOT_RUN
    os.close(go)
    fcntl.fcntl(answer, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
    try:
        os.execvpe(command[0], command, given_environment())  # noqa: S606 - the user's own command
    except OSError as error:
        os.write(answer, str(error.errno).encode())
        return _NOT_RUN


if __name__ == "__main__":
    os._exit(wait_and_become(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
