"""Names of C++ as people write them, from those that compilers make of them."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

_LIBRARY = "libstdc++.so.6"


@cache
def demangled(name: str) -> str:
    """Return a name as the C++ library writes it; as it is where that cannot be done."""
    demangle = _library_function()
    if demangle is None or not name.startswith("_Z"):
        return name
    plain = demangle(name.encode(), None, None, None)
    if not plain:
        return name
    try:
        return ctypes.string_at(plain).decode("utf-8", "replace")
    finally:
        ctypes.CDLL(None).free(ctypes.c_void_p(plain))


@cache
def _library_function() -> Any:
    """Return `abi::__cxa_demangle`; `None`: there is no C++ library."""
    try:
        function = getattr(ctypes.CDLL(_LIBRARY), "__cxa_demangle")
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_void_p
    return function
