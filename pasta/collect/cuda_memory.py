"""The collector `cuda.memory` on the launcher's side: its options, and what loads its library."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pasta.collect.native_library import memory_library, memory_patches
from pasta.collect.toolkits import find_sanitizer
from pasta.errors import CollectError

_TENSOR_LOADS = ("mapped", "watched", "none")
_LARGEST_GRANULE = 2 << 20


@dataclass(frozen=True)
class MemoryOptions:
    """What of each launch is watched.

    Attributes:
        granularity: unit of unique bytes, a power of two from 32 to 2 MiB.
        block: unit of rows of blocks, at least `granularity`.
        launches: `FIRST:LAST:EVERY`, launches whose memory is watched, counted from 0 among those
            whose names match; empty: all.
        blocks: `FIRST:LAST`, blocks of the grid whose accesses are recorded; empty: all.
        records: what becomes of accesses that are recorded: `written` as rows, or `counted`.
        every_space: shared, local and remote shared memory too.
        tensor_loads: what is told of copies of tensors (TMA): `watched`, what each reads, with which
            kernels take some 20 times their time; `mapped`, what the tensor maps that a kernel is
            given span, an upper bound that costs nothing on the device; `none`; empty: `watched` where
            accesses are counted (levels `counts` and `access`, `instructions`), else `mapped`.
        switched: kernels bear patches only while launches are watched, and take their own time otherwise;
            not for programs with CUDA graphs.
        instructions: count accesses by instruction.
        events: count events on the device by instruction: barriers, calls, pipelines, ...
        within: regular expression of names of NVTX ranges: only launches made while such a range is
            open on the thread are watched; empty: all.
        serial: wait for each launch to end, so that launches do not overlap.
        device_bytes: device memory that the collector may use, for each context.

    Raises:
        CollectError: one says what cannot be; with the option that sets it.
    """

    granularity: int | None = None
    block: int | None = None
    launches: str = ""
    blocks: str = ""
    records: str = "written"
    every_space: bool = False
    tensor_loads: str = ""
    switched: bool = False
    instructions: bool = False
    events: bool = False
    within: str = ""
    serial: bool = False
    device_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.tensor_loads not in ("", *_TENSOR_LOADS):
            told = f"--tensor-loads {self.tensor_loads}"
            raise CollectError(f"{told}: expected one of {', '.join(_TENSOR_LOADS)}")
        _check_power("--granularity", self.granularity)
        _check_power("--block", self.block)
        if self.block is not None and self.block < (self.granularity or 512):
            raise CollectError(f"--block {self.block}: may not be smaller than --granularity")
        try:
            re.compile(self.within)
        except re.error as error:
            raise CollectError(
                f"--in-range {self.within}: no regular expression ({error})"
            ) from error
        _check_range("--launches", self.launches, r"\d*:\d*(:[1-9]\d*)?", "FIRST:LAST:EVERY")
        _check_range("--blocks", self.blocks, r"\d*:\d*", "FIRST:LAST")
        if self.device_bytes is not None and self.device_bytes < 8 << 20:
            raise CollectError(f"--device-memory {self.device_bytes}: at least 8M is needed")

    def in_program(self) -> dict[str, str]:
        """Return what the library in the program is told, all as text."""
        told = {
            "granularity": _text(self.granularity),
            "block": _text(self.block),
            "launches": self.launches,
            "blocks": self.blocks,
            "records": self.records if self.records != "written" else "",
            "spaces": "all" if self.every_space else "",
            "tensor_loads": self.tensor_loads,
            "patches": "switched" if self.switched else "",
            "instructions": "yes" if self.instructions else "",
            "events": "yes" if self.events else "",
            "range": self.within,
            "serial": "yes" if self.serial else "",
            "device_bytes": _text(self.device_bytes),
        }
        return {name: value for name, value in told.items() if value}


def environment() -> dict[str, str]:
    """Return the variables by which CUDA loads the collector into every program that uses CUDA.

    Raises:
        CollectError: a part is missing and cannot be compiled, or there is no Compute Sanitizer.
    """
    sanitizer = find_sanitizer()
    if sanitizer is None:
        raise CollectError(
            "--with cuda.memory: no library of Compute Sanitizer was found; install"
            " nvidia-cuda-sanitizer-api, or the CUDA toolkit"
        )
    library = memory_library()
    return {
        "CUDA_INJECTION64_PATH": library,
        "NVTX_INJECTION64_PATH": library,
        "PASTA_PATCHES": memory_patches(),
        "PASTA_SANITIZER": str(sanitizer),
    }


def _text(value: int | None) -> str:
    return "" if value is None else str(value)


def _check_power(option: str, value: int | None) -> None:
    if value is not None and not (32 <= value <= _LARGEST_GRANULE and value & (value - 1) == 0):
        raise CollectError(f"{option} {value}: expected a power of two from 32 to 2M")


def _check_range(option: str, text: str, pattern: str, form: str) -> None:
    if text and re.fullmatch(pattern, text, re.ASCII) is None:
        raise CollectError(f"{option} {text}: expected {form}, counted from 0")
    first, _, last = text.partition(":")
    last = last.partition(":")[0]
    if first and last and int(last) < int(first):
        raise CollectError(f"{option} {text}: selects nothing; FIRST may not be beyond LAST")
