"""The few calls of CUDA's driver that managed memory needs, without a binding."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

_LIBRARY = "libcuda.so.1"
_ON_DEVICE = 1


class CudaError(OSError):
    """The driver is not there, or declined a call; the text says which."""


class _Location(ctypes.Structure):
    """`CUmemLocation`."""

    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class CudaDriver:
    """The driver of this process.

    Args:
        stream: gives the stream of a device on which prefetches are ordered, as CUDA knows it.
        library: the driver's library; `None`: it is loaded.

    Raises:
        CudaError: there is no driver.
    """

    def __init__(self, stream: Callable[[int], int], library: Any = None) -> None:
        self._stream = stream
        try:
            self._cuda = ctypes.CDLL(_LIBRARY) if library is None else library
        except OSError as error:
            raise CudaError(f"there is no CUDA driver ({error})") from error
        self._call("cuInit", ctypes.c_uint(0))
        self._newer = hasattr(self._cuda, "cuMemPrefetchAsync_v2")

    def free_bytes(self, device: int) -> int:
        """Return how much memory of a device is free."""
        context, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
        number = self._device(device)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), number)
        try:
            self._call("cuCtxPushCurrent_v2", context)
            self._call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
            self._call("cuCtxPopCurrent_v2", ctypes.byref(context))
        finally:
            self._call("cuDevicePrimaryCtxRelease_v2", number)
        return free.value

    def prefetch(self, address: int, size: int, device: int) -> None:
        """Begin to move managed memory to a device, on its stream."""
        number = self._device(device)
        where = ctypes.c_uint64(address), ctypes.c_size_t(size)
        stream = ctypes.c_void_p(self._stream(device))
        if self._newer:
            location = _Location(_ON_DEVICE, number.value)
            self._call("cuMemPrefetchAsync_v2", *where, location, ctypes.c_uint(0), stream)
        else:
            self._call("cuMemPrefetchAsync", *where, number, stream)

    def _device(self, device: int) -> ctypes.c_int:
        number = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(number), ctypes.c_int(device))
        return number

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._cuda, name)(*arguments)
        if status:
            raise CudaError(f"{name} failed with status {status}")
