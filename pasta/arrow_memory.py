"""Where Arrow takes its memory from, which is settled when it is first imported."""

from __future__ import annotations

import os
import sys

_NAME = "ARROW_DEFAULT_MEMORY_POOL"


def take_from_c_library() -> None:
    """Let Arrow take memory from the C library if it is not imported yet and nobody chose otherwise.

    Its own allocator keeps what each of many short-lived threads has freed: some 100 MB in an import.
    The choice is Arrow's alone; it is not left to processes that this one starts.
    """
    if "pyarrow" in sys.modules or _NAME in os.environ:
        return
    os.environ[_NAME] = "system"
    try:
        import pyarrow as pa

        pa.default_memory_pool()
    finally:
        del os.environ[_NAME]
