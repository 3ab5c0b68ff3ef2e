"""Memory of a GPU with a bound, and what was asked for when it did not suffice."""

from __future__ import annotations

from functools import cache, cached_property
from typing import Any

SHARE = 0.9
"""Part of the memory that is free at the start of a run which the run may take."""

_refused: list[int] = []
"""For each allocation that failed in this process: bytes held then, and asked for, together."""


class DeviceMemory:
    """The memory that a run may take from the current device.

    Attributes:
        total: bytes that the device has.
        limit: bytes that the run may hold at once.
    """

    def __init__(self) -> None:
        import rmm.mr

        free, self.total = rmm.mr.available_device_memory()
        self.limit = int(free * SHARE) // 256 * 256
        _refused.clear()

    @cached_property
    def resource(self) -> Any:
        """A memory resource of rmm within the limit."""
        return bounded(self.limit)

    def shortage(self) -> str:
        """Say how much was needed and how much there was."""
        needed = f"{_gib(_refused[-1])} were needed at once" if _refused else "more was needed"
        return f"{needed}, the run may hold {_gib(self.limit)} of the GPU's {_gib(self.total)}"


@cache
def of_worker() -> DeviceMemory:
    """Return the memory of this worker's device, of which all that the worker runs takes its part."""
    return DeviceMemory()


def forget_worker() -> None:
    """Have the memory of this worker looked up anew, for an engine that starts."""
    of_worker.cache_clear()


def bounded_share() -> Any:
    """Return a memory resource of rmm for this worker's device, with the usual limit.

    cudf-polars asks for one in the process that starts the cluster too, which allocates nothing: what
    it gets there makes no CUDA context.
    """
    import rmm.mr
    from distributed import get_worker

    try:
        get_worker()
    except ValueError:
        return rmm.mr.CudaMemoryResource()
    return of_worker().resource


def bounded(limit: int) -> Any:
    """Return a memory resource of rmm that holds `limit` bytes and notes what it refuses."""
    import rmm.mr

    pool = rmm.mr.LimitingResourceAdaptor(rmm.mr.CudaAsyncMemoryResource(), limit)

    def refuse(count: int) -> bool:
        """Note an allocation that failed; it is not tried again."""
        _refused.append(pool.get_allocated_bytes() + count)
        return False

    return rmm.mr.FailureCallbackResourceAdaptor(pool, refuse)


def _gib(count: int) -> str:
    return f"{count / (1 << 30):.2f} GiB"
