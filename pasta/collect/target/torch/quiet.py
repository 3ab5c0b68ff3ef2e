"""Whether an operator of PyTorch may be open below the Python code that runs now.

An operator or range that ends writes its end where the profiler that saw its begin keeps it. If that
one is gone and another one runs, this memory belongs to something else: the program may crash. So a
profiler begins only where none is open that an earlier one saw. PyTorch does not tell which are
open; but operators are open below Python code only where they call it.
"""

# ruff: noqa: SLF001 - PyTorch has no public names for what is needed here

from __future__ import annotations

import functools
import os
import sys
from types import FrameType

_PURE_PYTHON = (
    "_tensor.py",
    "autograd/profiler.py",
    "distributed/elastic/",
    "distributed/launcher/",
    "distributed/run.py",
    "nn/",
    "optim/",
    "profiler/",
    "utils/_contextlib.py",
    "utils/data/",
)
"""Code of PyTorch that no operator calls; what is called by operators has other code below it."""
_CALLED_BY_OPERATORS = frozenset({"__torch_dispatch__", "__del__"})


def is_quiet() -> bool:
    """Tell whether no operator can be open below the calling code."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        code = frame.f_code
        if code.co_name in _CALLED_BY_OPERATORS or _may_be_called_by_operators(code.co_filename):
            return False
        frame = frame.f_back
    return not _saves_tensors_by_hooks()


@functools.lru_cache(maxsize=4096)
def _may_be_called_by_operators(file: str) -> bool:
    """Whether `file` is code of PyTorch that operators may call, or that calls them to be called."""
    import torch

    folder, path = os.path.dirname(torch.__file__), os.path.abspath(file)
    inside = os.path.relpath(path, folder).replace(os.sep, "/")
    return path.startswith(folder + os.sep) and not inside.startswith(_PURE_PYTHON)


def _saves_tensors_by_hooks() -> bool:
    """Whether operators may call functions of the program when they save tensors for backward."""
    import torch

    look = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
    return look is not None and look(True) is not None  # noqa: FBT003
