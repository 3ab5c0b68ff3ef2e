"""The native hook of level `operators`: built once against the program's PyTorch, and loaded.

It is a library of C++ (`pasta/collect/native/torch_operators.cpp`) without Python in it: it needs
a C++ compiler and PyTorch's own headers, no more, and is called through `ctypes`.
"""

# ruff: noqa: SLF001 - PyTorch has no public names for what is needed here

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from ..compiled import compiled

_SOURCE = "torch_operators.cpp"
_COUNTERS = ("events", "rows", "callback_ns", "dropped", "failures", "texts_refused")
StackId = Callable[[FrameType], int]
_BEGINNINGS = ("_enable_profiler", "_enable_profiler_legacy")


class NativeOperators:
    """Records operators and memory into a ring of the channel, on all threads.

    Not for several threads at once; the calls let go of Python's lock.

    Args:
        path: the library.

    Raises:
        OSError: it cannot be loaded.
    """

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self._library.pasta_operators_start.argtypes = [
            ctypes.c_char_p,
            ctypes.c_int32,
            ctypes.c_int64,
            ctypes.c_int,
        ]
        # Holds Python's lock, unlike the other.
        self._set_stacks = ctypes.PyDLL(path).pasta_operators_stacks
        self._set_stacks.argtypes = [ctypes.py_object]
        self._set_stacks.restype = None
        self._stack_id: StackId | None = None
        self._profilers = contextlib.ExitStack()

    def start(
        self, folder: str, rank: int, offset_ns: int, stack_id: StackId | None = None
    ) -> None:
        """Record from here on, until `stop`; in a forked child, anew.

        Args:
            folder: the channel's folder.
            rank: rank of this process.
            offset_ns: added to the monotonic clock to give the trace's.
            stack_id: gives the id of the stack that ends in a frame, which operators that begin in
                it shall have; `None`: they have none.

        Raises:
            OSError: there is no channel, or no room; or it records already (`EALREADY`).
        """
        devices = _has_devices()
        failed = self._library.pasta_operators_start(
            os.fsencode(folder), rank, offset_ns, int(devices)
        )
        if failed:
            raise OSError(failed, os.strerror(failed), folder)
        self._ask_for_stacks(stack_id if _has_lock() else None)
        self._profilers.close()
        if devices:
            leave = self._library.pasta_operators_leave_thread
            self._profilers.enter_context(_before_profilers(leave))

    def pause(self) -> None:
        """Record no more until `resume`, at no cost to operators, as a forked child may wish too.

        On the CPU, the release of memory whose allocation was recorded is recorded still.
        """
        self._library.pasta_operators_pause()

    def resume(self) -> None:
        """Record again after `pause`."""
        self._library.pasta_operators_resume()

    def flush(self) -> None:
        """Write what waits now; it happens every 100 ms anyway."""
        self._library.pasta_operators_flush()

    def stop(self) -> None:
        """Write what waits and end the recording."""
        self._ask_for_stacks(None)
        self._library.pasta_operators_stop()
        self._profilers.close()

    def _ask_for_stacks(self, stack_id: StackId | None) -> None:
        self._set_stacks(ctypes.py_object() if stack_id is None else stack_id)
        self._stack_id = stack_id  # kept for as long as it may be called

    def counters(self) -> dict[str, int]:
        """Return what was counted since `start`, empty where nothing records.

        Returns:
            `events`, operators that began; `rows` written; `callback_ns`, time spent on operators,
            from every 64th; `dropped`, rows for which the ring had no room; `failures`, events that
            could not be recorded; `texts_refused`, shapes left out as too many differ.
        """
        values = (ctypes.c_uint64 * len(_COUNTERS))()
        if self._library.pasta_operators_counters(values):
            return {}
        return dict(zip(_COUNTERS, values, strict=True))


def load() -> tuple[NativeOperators | None, str]:
    """Return the native hook, built if need be, or `None` and why there is none, in one line."""
    path, reason = build()
    if path is None:
        return None, reason
    try:
        return NativeOperators(path), ""
    except OSError as error:
        return None, f"the native hook does not load: {error}"


def build() -> tuple[str | None, str]:
    """Compile the library unless it is in the cache.

    Returns:
        Its path, or `None` and the reason in one line.
    """
    import torch

    if not os.path.isdir(_torch_folder("include")):
        return None, "the native hook was not compiled: this PyTorch has no headers"
    about = (torch.__version__, torch.__file__)
    what = "the native hook of the PyTorch collector"
    return compiled(_SOURCE, _arguments(), about, what)


def _arguments() -> list[str]:
    include = _torch_folder("include")
    headers = (include, os.path.join(include, "torch", "csrc", "api", "include"))
    return [
        *_as_torch_was_built(),
        *(part for folder in headers for part in ("-isystem", folder)),
        f"-L{_torch_folder('lib')}",
        "-ltorch_cpu",
        "-lc10",
        "-pthread",
    ]


def _as_torch_was_built() -> list[str]:
    """Return the macros on which the layout of PyTorch's and the library's classes depends."""
    import torch

    strings = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    return [strings] if torch.version.debug else [strings, "-DNDEBUG"]


def _torch_folder(name: str) -> str:
    import torch

    return os.path.join(os.path.dirname(torch.__file__), name)


def _has_lock() -> bool:
    """Whether one thread runs Python at a time, on which the native hook relies for stacks."""
    enabled: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)
    return enabled()


def _has_devices() -> bool:
    """Whether this PyTorch was built for any accelerator, present or not."""
    import torch

    return torch.accelerator.current_accelerator(check_available=False) is not None


@contextlib.contextmanager
def _before_profilers(leave: Callable[[], Any]) -> Iterator[None]:
    """Call `leave` on the thread on which a profiler of the program is about to begin."""
    import torch
    from torch.autograd import profiler

    replaced: list[tuple[Any, str, Any, Any]] = []
    for module in (torch._C._autograd, torch.autograd, profiler):
        for name in _BEGINNINGS:
            original = getattr(module, name, None)
            if original is not None:
                ours = _after(leave, original)
                setattr(module, name, ours)
                replaced.append((module, name, ours, original))
    try:
        yield
    finally:
        for module, name, ours, original in replaced:
            if getattr(module, name) is ours:
                setattr(module, name, original)


def _after(first: Callable[[], Any], function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def both(*args: Any, **kwargs: Any) -> Any:
        first()
        return function(*args, **kwargs)

    return both
