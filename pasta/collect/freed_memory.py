"""Giving memory that was freed back to the system, before something else needs as much again.

Allocators keep what they free for later; those of Arrow, Polars and Python do not share it, so what one
keeps another allocates anew.
"""

from __future__ import annotations

import ctypes

import pyarrow as pa


def give_back() -> None:
    """Give back what Arrow and the C library keep; elsewhere than with glibc, only the former."""
    pa.default_memory_pool().release_unused()
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):
        return
    trim(ctypes.c_size_t(0))
