"""A thread that goes to every CPU, so that a script tells there of all that it holds.

The timer of a script does not fire on a CPU that idles with its clock stopped, as some virtual machines
and isolated CPUs do.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

_NAME = "pasta rounds"


class CpuRounds:
    """A thread that, when asked, goes from CPU to CPU and gives itself its name on each.

    Scripts see that as `tracepoint:task:task_rename` of the thread, which costs nobody else anything.

    Attributes:
        cpus: where it can go: all CPUs on which programs started from here can run.
    """

    def __init__(self) -> None:
        self.cpus: frozenset[int] = frozenset()
        self._asked = threading.Event()
        self._known = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=_NAME, daemon=True)

    def start(self) -> int:
        """Start the thread; return its id, as the kernel counts."""
        self._thread.start()
        self._known.wait()
        return self._id

    def ask(self) -> None:
        """Ask for a round, which begins after this call; return at once."""
        self._asked.set()

    def close(self) -> None:
        """End the thread, if it was started."""
        if self._thread.is_alive():
            self._closed = True
            self._asked.set()
            self._thread.join()

    def _run(self) -> None:
        self._id = threading.get_native_id()
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, range(os.sysconf("SC_NPROCESSORS_CONF")))
        self.cpus = frozenset(os.sched_getaffinity(0))
        self._known.set()
        while self._asked.wait() and not self._closed:
            self._asked.clear()
            self.cpus = frozenset(filter(self._tell, self.cpus))

    def _tell(self, cpu: int) -> bool:
        """Have the script tell of a CPU; return whether there still is such a CPU."""
        try:
            os.sched_setaffinity(0, [cpu])
        except OSError:
            return False
        Path(f"/proc/self/task/{self._id}/comm").write_text(_NAME, "ascii")
        return True
