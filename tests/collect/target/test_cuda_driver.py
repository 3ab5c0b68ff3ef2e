"""Calls of CUDA's driver, made to a library that stands in for it."""

from __future__ import annotations

import ctypes

import pytest

from pasta.collect.target.cuda_driver import CudaDriver, CudaError


class Library:
    """A driver of one device, the second, with 1000 free bytes."""

    def __init__(self, *, newer=True, failing=""):
        self.calls = []
        self._failing = failing
        if newer:
            self.cuMemPrefetchAsync_v2 = lambda *given: self._made("v2", *given)

    def __getattr__(self, name):
        if not name.startswith("cu") or name == "cuMemPrefetchAsync_v2":
            raise AttributeError(name)
        return lambda *given: self._made(name, *given)

    def _made(self, name, *given):
        if name == "cuDeviceGet":
            given[0]._obj.value = 40 + given[1].value
        elif name == "cuMemGetInfo_v2":
            given[0]._obj.value = 1000
        self.calls.append((name, given))
        return 999 if name == self._failing else 0

    def made(self):
        return [name for name, _ in self.calls]


def test_prefetches_name_the_device_by_location_or_as_older_drivers_do():
    library = Library()
    CudaDriver(lambda device: 7 + device, library).prefetch(1 << 40, 4096, 1)
    name, (address, size, location, flags, stream) = library.calls[-1]
    assert (name, address.value, size.value, flags.value, stream.value) == (
        "v2",
        1 << 40,
        4096,
        0,
        8,
    )
    assert (location.type, location.id) == (1, 41)
    library = Library(newer=False)
    CudaDriver(lambda _device: 0, library).prefetch(64, 8, 0)
    name, (address, size, device, stream) = library.calls[-1]
    assert (name, address.value, size.value, device.value) == ("cuMemPrefetchAsync", 64, 8, 40)
    assert isinstance(stream, ctypes.c_void_p)


def test_free_bytes_are_asked_for_in_the_devices_own_context_which_is_given_back():
    library = Library()
    assert CudaDriver(lambda _device: 0, library).free_bytes(1) == 1000
    assert library.made() == [
        *("cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2"),
        *("cuMemGetInfo_v2", "cuCtxPopCurrent_v2", "cuDevicePrimaryCtxRelease_v2"),
    ]


def test_a_call_that_fails_is_named():
    with pytest.raises(CudaError, match="cuMemPrefetchAsync_v2 failed with status 999"):
        CudaDriver(lambda _device: 0, Library(failing="v2")).prefetch(64, 8, 0)
