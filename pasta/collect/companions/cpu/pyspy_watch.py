"""Runs py-spy on a program as soon as there is a Python to sample.

Run by its path, as `python -I -S pyspy_watch.py TARGET GATE PY-SPY ARGUMENT ...`. py-spy gives up where it
finds no Python, ends with the last one that it samples, and cannot follow a process that becomes one: it is
started when the target has left its gate, and again for as long as the target runs.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

READY = "pasta: waits for a Python"
NO_PYTHON = "pasta: found no Python"

_ABSENT = b"No python processes found"
_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_POLL_SECONDS = 0.002
_AGAIN_SECONDS = 0.02


class Watch:
    """One target, and the py-spy that samples it at the moment.

    Args:
        target: its process id.
        gate: what is in its command line for as long as it waits to begin.
    """

    def __init__(self, target: int, gate: str) -> None:
        self._target = target
        self._gate = os.fsencode(gate)
        self._stopped = False
        self._child: subprocess.Popen[bytes] | None = None
        signal.signal(signal.SIGINT, self._stop)

    def sample(self, command: list[str]) -> int:
        """Run py-spy until the target has ended; return the exit code of one that failed, else 0."""
        while self._waits() and not self._stopped:
            time.sleep(_POLL_SECONDS)
        found = False
        while True:
            code, absent = self._run(command)
            if code > 0 and not absent:
                return code
            found = found or code == 0
            if self._stopped or not self._command_line():
                break
            time.sleep(_AGAIN_SECONDS)
        if not found:
            _say(NO_PYTHON)
        return 0

    def _run(self, command: list[str]) -> tuple[int, bool]:
        """Run py-spy once; return its exit code, and whether it found no Python."""
        absent = False
        with subprocess.Popen(  # noqa: S603 - the tool that was found on PATH
            command,
            stderr=subprocess.PIPE,
            preexec_fn=_end_with_parent,  # noqa: PLW1509 - there are no other threads
        ) as child:
            self._child = child
            if self._stopped:
                child.send_signal(signal.SIGINT)
            assert child.stderr is not None  # noqa: S101
            for line in child.stderr:
                absent = absent or _ABSENT in line
                if not absent:
                    _say(line.decode(errors="replace").rstrip())
        self._child = None
        return child.returncode, absent

    def _waits(self) -> bool:
        return self._gate in self._command_line()

    def _command_line(self) -> bytes:
        """Return the target's command line; empty once it has ended."""
        try:
            return Path(f"/proc/{self._target}/cmdline").read_bytes()
        except OSError:
            return b""

    def _stop(self, *_signal: object) -> None:
        self._stopped = True
        if self._child is not None:
            self._child.send_signal(signal.SIGINT)


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    watch = Watch(int(sys.argv[1]), sys.argv[2])
    _say(READY)
    raise SystemExit(watch.sample(sys.argv[3:]))
