"""Running something on the main thread, between two of its bytecodes."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

_waiting: list[Callable[[], None]] = []
_MAIN = threading.main_thread()


class _Calls:
    """The functions that wait: whoever asks whether this is true runs them."""

    def __bool__(self) -> bool:
        while _waiting:
            _waiting.pop(0)()
        return False


# The interpreter itself asks. A callback of ctypes would swallow what a signal's handler raises
# inside of it, as KeyboardInterrupt; so it goes on to the program.
_CALLS = _Calls()
_RUN = ctypes.cast(ctypes.pythonapi.PyObject_IsTrue, ctypes.c_void_p)
_ON = ctypes.c_void_p(id(_CALLS))


def call_soon(function: Callable[[], None]) -> None:
    """Call `function` on the main thread as soon as that runs Python code; it must not raise.

    A thread that waits inside an operator or a system call comes to it only afterwards. Called
    on the main thread itself, it runs at once.
    """
    if threading.current_thread() is _MAIN:
        function()
        return
    _waiting.append(function)
    if ctypes.pythonapi.Py_AddPendingCall(_RUN, _ON) != 0:
        _waiting.remove(function)  # too many calls wait already: whoever asks does so again
