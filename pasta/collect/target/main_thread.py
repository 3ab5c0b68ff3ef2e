"""Running something on the main thread, between two of its bytecodes."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_waiting: list[Callable[[], None]] = []
_MAIN = threading.main_thread()


def call_soon(function: Callable[[], None]) -> None:
    """Call `function` on the main thread as soon as that runs Python code; it must not raise.

    A thread that waits inside an operator or a system call comes to it only afterwards. Called
    on the main thread itself, it runs at once.
    """
    if threading.current_thread() is _MAIN:
        function()
        return
    _waiting.append(function)
    if ctypes.pythonapi.Py_AddPendingCall(_run_waiting, None) != 0:
        _waiting.remove(function)  # too many calls wait already: whoever asks does so again


@_Callback  # type: ignore[untyped-decorator]
def _run_waiting(_nothing: int | None) -> int:
    while _waiting:
        _waiting.pop(0)()
    return 0
