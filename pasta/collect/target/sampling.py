"""Begins the sampling of this process's Python stacks (`--with cpu:python`), where they are read rightly.

The samples are taken by a library (`pasta/collect/native/python_samples.cpp`), which reads frames where
CPython keeps them. So each process compares once what the library reads with what Python itself says.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import platform
import sys
from types import FrameType

from .process_end import close_in_children

LIBRARY = "PASTA_SAMPLER"
"""Environment variable: the library."""
_TOLD_BYTES = 1 << 20
_UNKNOWN = "this Python's stacks are not known ({}): not sampled; take --with cpu:pyspy, or cpu:fp"
_FAILED = "sampling could not begin: {}"

_sampling: Sampling | None = None


class Sampling:
    """The library in this process.

    Args:
        path: the library.

    Raises:
        OSError: it cannot be loaded, or does not know this Python.
    """

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)  # its calls let go of Python's lock
        self._library.pasta_sampling_name.argtypes = [ctypes.c_int64, ctypes.c_char_p]
        self._library.pasta_sampling_name.restype = None
        self._library.pasta_sampling_end.restype = None
        self._name_threads = ctypes.CFUNCTYPE(None)(self._tell_names)
        version = 100 * sys.version_info.major + sys.version_info.minor
        if self._library.pasta_sampling_load(version) or not _reads_rightly(path):
            raise OSError(_UNKNOWN.format(f"{sys.implementation.name} {platform.python_version()}"))

    def begin(self) -> None:
        """Sample from here on; in a forked child, anew.

        Raises:
            OSError: the channel has no room, or the program uses the signal.
        """
        framework = f"python {platform.python_version()}".encode()
        failed = self._library.pasta_sampling_begin(framework, self._name_threads)
        if failed:
            raise OSError(_FAILED.format(os.strerror(failed)))
        close_in_children(self)

    def close(self) -> None:
        """Sample no more, and hand over what is left; a second call does nothing."""
        self._library.pasta_sampling_end()

    def _tell_names(self) -> None:
        """Tell the library what threads are called; it asks for that on a thread of its own."""
        threading = sys.modules.get("threading")
        if threading is None:
            return
        for thread in threading.enumerate():
            is_main = thread is threading.main_thread()
            tid = (
                os.getpid() if is_main else thread.native_id
            )  # after a fork, it may be the parent's
            if tid is not None:
                self._library.pasta_sampling_name(tid, thread.name.encode("utf-8", "replace"))


def begin() -> None:
    """Sample this process if that is asked for; what keeps it from that is counted as a loss."""
    global _sampling  # noqa: PLW0603 - one for each process
    path = os.environ.get(LIBRARY)
    if path is None or _sampling is not None:
        return
    try:
        sampling = Sampling(path)
        sampling.begin()
    except Exception as error:  # noqa: BLE001 - whatever it is, the program must go on
        _count_loss(str(error))
        return
    _sampling = sampling
    atexit.register(sampling.close)
    os.register_at_fork(after_in_child=_forked)


def _forked() -> None:
    if _sampling is not None:
        try:
            _sampling.begin()
        except Exception as error:  # noqa: BLE001 - whatever it is, the program must go on
            _count_loss(str(error))


def _count_loss(reason: str) -> None:
    from .session import current

    session = current()
    if session is not None:
        session.losses.count(reason, session.clock())


def _reads_rightly(path: str) -> bool:
    """Tell whether the library reads this thread's stack as Python tells it."""
    here = ctypes.PyDLL(path).pasta_sampling_here  # keeps Python's lock
    text = ctypes.create_string_buffer(_TOLD_BYTES)
    size, frames = here(text, _TOLD_BYTES), _stack(sys._getframe())  # noqa: SLF001
    return size > 0 and text.raw[:size] == "".join(frames).encode("utf-8", "surrogatepass")


def _stack(innermost: FrameType) -> list[str]:
    frames: list[str] = []
    frame: FrameType | None = innermost
    while frame is not None:
        code = frame.f_code
        frames.append(f"{code.co_qualname}\x1f{code.co_filename}\x1f{frame.f_lineno or 0}\n")
        frame = frame.f_back
    return frames
