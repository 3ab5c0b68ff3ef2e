"""Lets the memory collector (`cuda.memory`), a library that CUDA loads, record when the session does."""

from __future__ import annotations

import ctypes
import os

RECORD = "PASTA_MEMORY_RECORD"
"""Environment variable that tells the library, when CUDA loads it, whether to record: `1` or `0`."""


class DeviceMemory:
    """Starts and stops the watching of kernels; launches in between are recorded without memory."""

    def __init__(self) -> None:
        self._set("0")

    def start(self) -> None:
        """Watch launches from here on."""
        self._set("1")

    def stop(self) -> None:
        """Watch no launch until started again."""
        self._set("0")

    def close(self) -> None:
        """Leave the library alone: it writes what is left when the process ends."""

    def forked(self) -> None:
        """Leave it alone: it does nothing in children."""

    def _set(self, value: str) -> None:
        os.environ[RECORD] = value
        library = _loaded()
        if library is not None:
            library.pasta_memory_record(int(value))


def _loaded() -> ctypes.CDLL | None:
    """Return the library if CUDA has loaded it."""
    path = os.environ.get("CUDA_INJECTION64_PATH")
    if not path:
        return None
    try:
        return ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    except OSError:
        return None
