"""The regular end of a child of multiprocessing, which runs no `atexit` handlers."""

from __future__ import annotations

import sys
from typing import Protocol

_LAST = -1000
"""Priority among what multiprocessing runs at the end: after its own queues have been emptied."""


class Closing(Protocol):
    """What wants to be closed at the end of its process."""

    def close(self) -> None:
        """Hand over what is left; a second call does nothing."""


def close_in_children(closing: Closing) -> None:
    """Close `closing` at the end of this process, where multiprocessing made it, and of forks of it.

    Where the program has not loaded multiprocessing, there are no such children yet.
    """
    util = sys.modules.get("multiprocessing.util")
    process = sys.modules.get("multiprocessing.process")
    if util is None or process is None:
        return
    # A child forgets what was to be closed in its parent before it runs this.
    util.register_after_fork(closing, _close_at_end)
    if process.parent_process() is not None:
        _close_at_end(closing)


def _close_at_end(closing: Closing) -> None:
    from multiprocessing.util import Finalize

    Finalize(None, closing.close, exitpriority=_LAST)
