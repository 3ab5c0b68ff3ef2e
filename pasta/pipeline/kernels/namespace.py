"""The array library that given arrays belong to."""

from __future__ import annotations

import sys
from typing import Any


def array_namespace(array: Any) -> Any:
    """Return numpy or cupy, whichever made `array`; kernels call it `xp`."""
    return sys.modules[type(array).__module__.partition(".")[0]]
