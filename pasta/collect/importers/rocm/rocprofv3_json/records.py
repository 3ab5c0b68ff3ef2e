"""The records of rocprofv3's JSON, as far as they are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec


class Handle(msgspec.Struct, frozen=True, gc=False):
    """An opaque number that names an agent, a queue, a stream or a counter."""

    handle: int | None = None


class Correlation(msgspec.Struct, frozen=True, gc=False):
    """Links a call to what it caused."""

    internal: int = 0


class Extent(msgspec.Struct, frozen=True, gc=False):
    """A size in three dimensions, in work-items."""

    x: int | None = None
    y: int | None = None
    z: int | None = None


class Dispatch(msgspec.Struct, frozen=True, gc=False):
    """One launch of a kernel."""

    agent_id: Handle = Handle()
    queue_id: Handle = Handle()
    kernel_id: int | None = None
    dispatch_id: int = 0
    private_segment_size: int | None = None
    group_segment_size: int | None = None
    workgroup_size: Extent = Extent()
    grid_size: Extent = Extent()


class KernelRecord(msgspec.Struct, frozen=True, gc=False):
    """A kernel that ran."""

    dispatch_info: Dispatch
    start_timestamp: int | None = None
    end_timestamp: int | None = None
    correlation_id: Correlation = Correlation()
    stream_id: Handle = Handle()


class CountedDispatch(msgspec.Struct, frozen=True, gc=False):
    """What `KernelRecord` holds, of a kernel whose counters were read."""

    dispatch_info: Dispatch
    start_timestamp: int | None = None
    end_timestamp: int | None = None
    correlation_id: Correlation = Correlation()


class CounterValue(msgspec.Struct, frozen=True, gc=False):
    """The value of one counter in one part of the device."""

    counter_id: Handle = Handle()
    value: float = 0.0


class CounterRecord(msgspec.Struct, frozen=True, gc=False):
    """The counters of one kernel."""

    dispatch_data: CountedDispatch
    records: list[CounterValue] = []
    stream_id: Handle = Handle()


class ApiRecord(msgspec.Struct, frozen=True, gc=False):
    """A call of an API, a roctx range or mark, or work of the runtime."""

    kind: int = 0
    operation: int = 0
    start_timestamp: int | None = None
    end_timestamp: int | None = None
    correlation_id: Correlation = Correlation()
    thread_id: int | None = None
    retval: Any = None


class CopyRecord(msgspec.Struct, frozen=True, gc=False):
    """A copy of memory."""

    operation: int = 0
    start_timestamp: int | None = None
    end_timestamp: int | None = None
    correlation_id: Correlation = Correlation()
    src_agent_id: Handle = Handle()
    dst_agent_id: Handle = Handle()
    bytes: int | None = None
    src_address: Any = None
    dst_address: Any = None
    stream_id: Handle = Handle()


class AllocationRecord(msgspec.Struct, frozen=True, gc=False):
    """An allocation or a release of memory."""

    kind: int = 0
    operation: int = 0
    start_timestamp: int | None = None
    end_timestamp: int | None = None
    agent_id: Handle = Handle()
    thread_id: int | None = None
    address: Any = None
    allocation_size: int | None = None


class Symbol(msgspec.Struct, frozen=True, gc=False):
    """A kernel as it was compiled."""

    kernel_id: int
    kernel_name: str = ""
    formatted_kernel_name: str = ""
    group_segment_size: int | None = None
    arch_vgpr_count: int | None = None
    accum_vgpr_count: int | None = None


class MemoryBank(msgspec.Struct, frozen=True, gc=False):
    """Part of an agent's memory."""

    size_in_bytes: int = 0


class Cache(msgspec.Struct, frozen=True, gc=False):
    """A cache of an agent; `size` is in KiB."""

    level: int = 0
    size: int = 0


class Agent(msgspec.Struct, frozen=True, gc=False):
    """A processor of the machine."""

    id: Handle
    type: int = 0
    node_id: int = 0
    name: str = ""
    product_name: str = ""
    model_name: str = ""
    uuid: Any = None
    cu_count: int | None = None
    mem_banks: list[MemoryBank] = []
    caches: list[Cache] = []


class Counter(msgspec.Struct, frozen=True, gc=False):
    """What a counter is called."""

    id: Handle = Handle()
    name: str = ""


class LeftOut(msgspec.Struct, frozen=True, gc=False):
    """A record of which nothing is used."""


def decoder_of(kind: type[msgspec.Struct]) -> Callable[[bytes], list[Any]]:
    """Return what decodes a JSON array of `kind`."""
    decoder: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]
    return decoder.decode
