"""What allocators keep of freed memory: jemalloc, that of Polars, and the C library's, that of numpy.

They ask the environment once: jemalloc when Polars is loaded, the C library when a process starts.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager

_VARIABLE = "_RJEM_MALLOC_CONF"

_LARGEST_KEPT = 32 << 20
"""The largest piece that the C library can be told to keep when it is freed."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""Options of `mallopt`, as <malloc.h> numbers them."""

_ANY_FIT = 10
"""A request is served from a free piece that is up to 2^10 times as large."""

_C_LIBRARY = ctypes.CDLL(None)
_kept = threading.Event()

_FOR_PARTS = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(_LARGEST_KEPT),
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
}


def keep_freed() -> None:
    """Have Polars keep in one place what it frees, and the C library what array code frees, until `give_back`.

    Polars by default has four arenas for each core, of which each keeps for half a second what it freed
    and for another second what it offered back; what is larger than 8 MiB goes back at once, and a freed
    piece serves no request of less than a 64th of it. With an arena for four cores, in which what is free
    serves whatever is asked for, little more is held if it is kept for six seconds, and a third as many
    pages have to be cleared anew (docs/performance.md). What the variable of the environment says beside
    this is kept, and comes later, so that it holds. Where Polars is loaded already it does as before.
    """
    _keep_of_arrays()
    if "polars" in sys.modules:
        return
    settings = [
        f"narenas:{max((os.cpu_count() or 1) // 4, 1)},oversize_threshold:0",
        f"lg_extent_max_active_fit:{_ANY_FIT},dirty_decay_ms:6000,muzzy_decay_ms:0",
        os.environ.get(_VARIABLE, ""),
    ]
    os.environ[_VARIABLE] = ",".join(filter(None, settings))


def _keep_of_arrays() -> None:
    """Have the C library keep what is freed until `give_back`, where it is glibc and the user set nothing."""
    tuned = (
        "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "")
        or _FOR_PARTS.keys() & os.environ.keys()
    )
    if tuned or not hasattr(_C_LIBRARY, "malloc_trim"):
        return
    for option, value in (
        (_M_ARENA_MAX, 1),
        (_M_MMAP_THRESHOLD, _LARGEST_KEPT),
        (_M_TRIM_THRESHOLD, 1 << 30),
    ):
        _C_LIBRARY.mallopt(option, value)
    _kept.set()


def give_back() -> None:
    """Give back to the system what the C library has kept since `keep_freed`, but the last 32 MiB."""
    if _kept.is_set():
        _C_LIBRARY.malloc_trim(ctypes.c_size_t(_LARGEST_KEPT))


@contextmanager
def kept_for_parts() -> Generator[None]:
    """Have processes that start meanwhile, of one thread each, keep what they free.

    One that works on part after part of a trace needs as much for the next part as for the last. Pages that
    went back to the system come anew and are cleared when they are touched, which takes a third of the time.
    What the user set of the C library stays; of jemalloc it can't be told from what Polars set.
    """
    before = dict(os.environ)
    kept = "narenas:1,dirty_decay_ms:10000,muzzy_decay_ms:0"
    settings = ",".join(filter(None, [before.get(_VARIABLE), kept]))
    os.environ.update({**_FOR_PARTS, **before, _VARIABLE: settings})
    try:
        yield
    finally:
        for name in (*_FOR_PARTS, _VARIABLE):
            if name in before:
                os.environ[name] = before[name]
            else:
                del os.environ[name]
