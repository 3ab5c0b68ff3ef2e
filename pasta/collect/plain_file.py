"""Reading files in places where anybody may have put something else."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def read_plain_file(file: Path, most: int = -1) -> bytes:
    """Return what a file holds: no link is followed, and a pipe, which might never end, not waited for.

    Args:
        file: the file.
        most: how many bytes to read; -1: all.

    Raises:
        OSError: it cannot be read, or is no plain file.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{file}: is no plain file")
        return opened.read(most)
