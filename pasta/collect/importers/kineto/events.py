"""The events of PyTorch's Chrome-JSON traces, as they stand in the file.

Times, durations and arguments stay raw text at first: which arguments matter depends on the
category, and most events (flows) need none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, cast

import msgspec
from msgspec import Raw, Struct, field


class Category(Enum):
    """The category of an event; unknown ones become members as they are met.

    Made of members, not of texts, so that sorting events by category compares identities.
    """

    CPU_OP = "cpu_op"
    OPERATOR_2021 = "Operator"
    USER_ANNOTATION = "user_annotation"
    PYTHON_FUNCTION = "python_function"
    CUDA_RUNTIME = "cuda_runtime"
    CUDA_DRIVER = "cuda_driver"
    XPU_RUNTIME = "xpu_runtime"
    XPU_DRIVER = "xpu_driver"
    MTIA_RUNTIME = "mtia_runtime"
    RUNTIME_2021 = "Runtime"
    KERNEL = "kernel"
    KERNEL_2021 = "Kernel"
    GPU_MEMCPY = "gpu_memcpy"
    MEMCPY_2021 = "Memcpy"
    GPU_MEMSET = "gpu_memset"
    MEMSET_2021 = "Memset"
    CUDA_SYNC = "cuda_sync"
    MTIA_CCP_EVENTS = "mtia_ccp_events"
    CPU_INSTANT_EVENT = "cpu_instant_event"
    GPU_USER_ANNOTATION = "gpu_user_annotation"
    OVERHEAD = "overhead"
    TRACE = "Trace"
    OTHER = ""

    __hash__ = object.__hash__

    @classmethod
    def _missing_(cls, value: object) -> Category:
        if value in cls._value2member_map_:
            return cast("Category", cls._value2member_map_[value])
        if len(cls._value2member_map_) > _CATEGORIES_MAX:
            return cls.OTHER
        member = object.__new__(cls)
        member._name_ = member._value_ = str(value)
        cls._value2member_map_[value] = member
        return member


_CATEGORIES_MAX = 1000


Identifier = int | float | str | bool | None


class Event(Struct, gc=False, tag_field="ph", tag="X"):
    """A complete event; `ts` and `dur` are decimal microseconds."""

    cat: Category | None = None
    name: str = ""
    pid: Identifier = None
    tid: Identifier = None
    ts: Raw = Raw(b"null")
    dur: Raw = Raw(b"null")
    args: Raw = Raw(b"{}")


class Begin(Event, gc=False, tag="B"):
    """The begin of an event that another one ends."""


class End(Event, gc=False, tag="E"):
    """The end of the event that began last on its thread."""


class Instant(Event, gc=False, tag="i"):
    """Something that has no duration."""


class OldInstant(Instant, gc=False, tag="I"):
    """As `Instant`; how older writers spell it."""


class Naming(Event, gc=False, tag="M"):
    """A name of a process or a thread."""


class Other(Struct, gc=False, tag_field="ph", tag="C"):
    """An event of a phase that no table has room for."""

    cat: Category | None = None


class Flow(Struct, gc=False, tag_field="ph", tag="s"):
    """An arrow between events, which says nothing that ids do not say."""


def _variants(kind: type[Any], phases: str) -> tuple[type[Any], ...]:
    """Return classes that differ from `kind` in the phase that marks them."""
    return tuple(
        msgspec.defstruct(kind.__name__, [], bases=(kind,), tag=phase, gc=False) for phase in phases
    )


_ANY_EVENT: Any = Union[
    Event,
    Begin,
    End,
    Instant,
    OldInstant,
    Naming,
    Other,
    Flow,
    *_variants(Flow, "tf"),
    *_variants(Other, "bneSTpFNODPvVRca(),"),
]


def phase(event: Any) -> str:
    """Return the letter that marks the kind of an event."""
    return str(type(event).__struct_config__.tag)


ABSENT = Raw(b"")
"""Stands for an argument that an event lacks, where arguments stay raw."""


class SpanArguments(Struct, gc=False):
    """Arguments of operators, annotations and Python functions."""

    external: Any = field(default=None, name="External id")
    sequence: Any = field(default=None, name="Sequence number")
    forward_tid: Any = field(default=None, name="Fwd thread id")
    shapes: Raw = field(default=ABSENT, name="Input Dims")
    types: Raw = field(default=ABSENT, name="Input type")
    stack: Any = field(default=None, name="Call stack")


class CallArguments(Struct, gc=False):
    """Arguments of runtime and driver calls."""

    external: Any = field(default=None, name="External id")
    external_2021: Any = field(default=None, name="external id")
    correlation: Any = None
    bytes: Any = None
    memory_size: Any = field(default=None, name="mem size")


class DeviceArguments(Struct, gc=False):
    """Arguments that kernels, copies and synchronisations share."""

    external: Any = field(default=None, name="External id")
    external_2021: Any = field(default=None, name="external id")
    correlation: Any = None
    device: Any = None
    context: Any = None
    stream: Any = None


class CopyArguments(DeviceArguments, gc=False):
    """Arguments of copies and memsets."""

    kind: Any = None
    bytes: Any = None
    size: Any = None
    direction: Any = None


class SyncArguments(DeviceArguments, gc=False):
    """Arguments of synchronisations."""

    kind: Any = field(default=None, name="cuda_sync_kind")
    event_id: Any = field(default=None, name="wait_on_cuda_event_id")
    waited_correlation: Any = field(default=None, name="wait_on_cuda_event_record_corr_id")
    waited_stream: Any = field(default=None, name="wait_on_stream")


class CommunicationArguments(Struct, gc=False):
    """Arguments of `record_param_comms`, which newer traces repeat on the kernel."""

    collective: Any = field(default=None, name="Collective name")
    elements_in: Any = field(default=None, name="In msg nelems")
    elements_out: Any = field(default=None, name="Out msg nelems")
    dtype: Any = None
    group: Any = field(default=None, name="Process Group Name")
    group_id: Any = field(default=None, name="Process Group ID")
    members: Any = field(default=None, name="Process Group Ranks")
    sequence: Any = field(default=None, name="Seq")
    sent_to: Any = field(default=None, name="Dst Rank")
    received_from: Any = field(default=None, name="Src Rank")


class KernelArguments(DeviceArguments, gc=False):
    """Arguments of kernels."""

    grid: Any = None
    block: Any = None
    registers: Any = field(default=None, name="registers per thread")
    shared: Any = field(default=None, name="shared memory")
    graph_id: Any = field(default=None, name="graph id")
    graph_node_id: Any = field(default=None, name="graph node id")
    collective: Any = field(default=None, name="Collective name")


class MemoryArguments(Struct, gc=False):
    """Arguments of the allocator's instant events."""

    device_type: Any = field(default=None, name="Device Type")
    device: Any = field(default=None, name="Device Id")
    address: Any = field(default=None, name="Addr")
    bytes: Any = field(default=None, name="Bytes")
    total_allocated: Any = field(default=None, name="Total Allocated")
    total_reserved: Any = field(default=None, name="Total Reserved")


decode_events: Callable[[bytes], list[Any]] = msgspec.json.Decoder(list[_ANY_EVENT]).decode
"""Decodes an array of events of any kind."""

A = TypeVar("A")


def decode_arguments(events: Sequence[Event], kind: type[A]) -> list[A]:
    """Return the arguments of each event as `kind`; arguments that are no object count as none."""
    decode: Callable[[bytes], list[A]] = _decoder(cast("Hashable", kind))
    try:
        return decode(b"[" + b",".join([event.args for event in events]) + b"]")
    except msgspec.DecodeError:
        pass
    arguments: list[A] = []
    for event in events:
        try:
            arguments += decode(b"[" + bytes(event.args) + b"]")
        except msgspec.DecodeError:
            arguments.append(kind())
    return arguments


@cache
def _decoder(kind: Hashable) -> Any:
    return msgspec.json.Decoder(list[kind]).decode  # type: ignore[valid-type]
