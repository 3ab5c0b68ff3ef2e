"""Lets PyTorch allocate managed memory, up to a limit: RMM's allocator, else a small one of our own."""

from __future__ import annotations

import ctypes
import importlib.util
import re

from ..compiled import compiled

_SOURCE = "managed_allocator.cpp"
_RUNTIME = re.compile(r"\S*/libcudart[^/\s]*\.so\S*")


def use_managed_memory(limit: int) -> None:
    """Make PyTorch's allocator of CUDA memory one of managed memory, for the rest of the process.

    Args:
        limit: bytes that are held at most; an allocation beyond fails as an error of PyTorch.

    Raises:
        RuntimeError: PyTorch has CUDA memory already, or there is no allocator; the text says why.
    """
    import torch

    allocator = _of_rmm(limit) if importlib.util.find_spec("rmm") else _own(limit)
    torch.cuda.memory.change_current_allocator(allocator)


def _of_rmm(limit: int) -> object:
    import rmm
    from rmm.allocators.torch import rmm_torch_allocator

    managed = rmm.mr.LimitingResourceAdaptor(rmm.mr.ManagedMemoryResource(), allocation_limit=limit)
    rmm.mr.set_current_device_resource(managed)
    return rmm_torch_allocator


def _own(limit: int) -> object:
    import torch

    path, reason = compiled(_SOURCE, ["-ldl"], [], "an allocator of managed memory")
    if path is None:
        raise RuntimeError(reason)
    runtime = loaded_runtime()
    library = ctypes.CDLL(path)
    library.pasta_managed_begin.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
    if runtime is None or library.pasta_managed_begin(runtime.encode(), limit):
        raise RuntimeError("PyTorch has loaded no CUDA runtime as a library; install rmm")
    return torch.cuda.memory.CUDAPluggableAllocator(
        path, "pasta_managed_allocate", "pasta_managed_free"
    )


def loaded_runtime(maps: str = "/proc/self/maps") -> str | None:
    """Return the path of the CUDA runtime that this process has loaded; `None`: there is none."""
    with open(maps, encoding="utf-8", errors="replace") as file:
        found = _RUNTIME.search(file.read())
    return found[0] if found else None
