"""What communication kernels do: from the arguments of their launch, else from their name."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Annotated, Any

import msgspec

_Rank = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]

_KERNEL = re.compile(
    r"(?:nccl|rccl)(?:Dev)?Kernel_?([A-Za-z]+)|"
    r"nccl(AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|SendRecv)\w*Kernel|"
    r"(?:oneccl|ccl)\w*?_?(allreduce|allgatherv?|reduce_scatter|broadcast|alltoallv?|reduce)",
    re.IGNORECASE,
)
_OPERATIONS = (
    "allreduce",
    "allgather",
    "reducescatter",
    "alltoall",
    "broadcast",
    "sendrecv",
    "send",
    "recv",
    "reduce",
    "gather",
    "scatter",
    "barrier",
)
_NO_COMMUNICATION = frozenset({"", "wait", "init", "endcoalescing", "startcoalescing"})

_NAMES_HELD = 1 << 12
"""Kernels, whose names are long, few, and met again in every batch."""

_ELEMENT_BYTES = {
    "byte": 1,
    "char": 1,
    "bool": 1,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "short": 2,
    "half": 2,
    "bfloat16": 2,
    "int": 4,
    "float": 4,
    "long": 8,
    "double": 8,
    "complexfloat": 8,
    "complexdouble": 16,
}


@lru_cache(_NAMES_HELD)
def is_communication(kernel: str) -> bool:
    """Tell from its name whether a kernel is one of NCCL, RCCL or oneCCL."""
    return "ccl" in kernel and _KERNEL.search(kernel) is not None


@lru_cache(_NAMES_HELD)
def operation_of_kernel(kernel: str) -> str:
    """Return the operation that a kernel's name tells, empty where it tells none (`Generic`)."""
    match = _KERNEL.search(kernel)
    return _operation(next(filter(None, match.groups()), "")) if match else ""


def operation_of_arguments(collective: Any) -> str:
    """Return the operation behind a recorded collective name, as `allgather` of `_allgather_base`.

    The result is empty for what communicates nothing, such as `wait`; unknown names stay.
    """
    text = str(collective or "").lower()
    plain = text.replace("_", "")
    return "" if plain in _NO_COMMUNICATION else _operation(plain) or text


def _operation(name: str) -> str:
    plain = name.lower().replace("_", "")
    return next((operation for operation in _OPERATIONS if plain.startswith(operation)), "")


def message_bytes(elements: Any, dtype: Any) -> int | None:
    """Return the size of a message in bytes; `None` where count or element type is unknown."""
    size = _ELEMENT_BYTES.get(str(dtype).lower())
    if size is None or isinstance(elements, bool) or not isinstance(elements, int):
        return None
    return elements * size if 0 <= elements < 1 << 58 else None


def parse_members(text: bytes) -> list[int] | None:
    """Return the ranks in `[0, 1, 2]`; `None` for an empty list.

    Raises:
        ValueError: it is abbreviated, or no list of ranks.
    """
    members: list[int] = msgspec.json.decode(text, type=list[_Rank])
    return members or None
