"""What allocators keep of freed memory: jemalloc, that of Polars, and the C library's, that of numpy.

They ask once: jemalloc when Polars is loaded, the C library when a process starts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

_VARIABLE = "_RJEM_MALLOC_CONF"

_FOR_PARTS = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),  # the most that the C library takes
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
}


def keep_little() -> None:
    """Have Polars keep less of the memory that it frees; where it is loaded already nothing changes.

    By default there are four arenas for each core, of which each keeps for half a second what it
    freed, and for another second what it offered back. With one for each core, and nothing kept that
    was offered, the peak of many plans one after another is lower and they take no longer. What the
    variable of the environment says beside this is kept, and comes later, so that it holds.
    """
    if "polars" in sys.modules:
        return
    settings = [f"narenas:{os.cpu_count() or 1},muzzy_decay_ms:0", os.environ.get(_VARIABLE, "")]
    os.environ[_VARIABLE] = ",".join(filter(None, settings))


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
