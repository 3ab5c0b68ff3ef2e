"""What companions are started through, so that none outlives the process that started it.

Run by its path, as `python -I -S bound.py PARENT PROGRAM ARGUMENT ...`: it asks the system to be killed
with its parent, and becomes the program.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG, which outlasts exec
_NOT_RUN = 127


def become(parent: int, command: list[str]) -> int:
    """Become `command`, bound to `parent`; return the exit code where that is gone."""
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return _NOT_RUN
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)  # noqa: S606 - a companion's own command
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return _NOT_RUN


if __name__ == "__main__":
    raise SystemExit(become(int(sys.argv[1]), sys.argv[2:]))
