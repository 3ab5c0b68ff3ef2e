"""The lines that NVBit's `mem_trace` prints: launches, and one for each memory instruction."""

from __future__ import annotations

import re
from typing import NamedTuple

from pasta.collect.importers.nvbit_text.opcodes import Opcode, opcode_of

_SIZE = r"(\d{1,10}),(\d{1,10}),(\d{1,10})"
_LAUNCH = re.compile(
    r"(?:MEMTRACE: )?(?:CTX 0x(?P<context>[0-9a-f]{1,16}) - )?(?:LAUNCH - )?"
    r"Kernel (?:pc )?0x[0-9a-f]+ - Kernel name (?P<name>.*?) - grid launch id (?P<id>\d{1,20})(?!\d)"
    rf"(?: - grid size {_SIZE} - block size {_SIZE}"
    r"(?: - nregs (?P<registers>\d{1,9}))?(?: - shmem (?P<shared>\d{1,9}))?"
    r"(?: - cuda stream id (?P<stream>-?\d{1,18}))?)?.*"
)
_ACCESS = re.compile(
    r"(?:MEMTRACE: )?(?:CTX 0x(?P<context>[0-9a-f]{1,16}) - )?"
    r"(?:(?:grid_launch_id|grid launch id|kernel) (?P<id>\d{1,20}) - )?"
    r"CTA (?P<x>\d{1,10}),(?P<y>\d{1,10}),(?P<z>\d{1,10}) - warp (?P<warp>\d{1,9})"
    r"(?: - (?:pc|PC|offset) (?:0x)?(?P<pc>[0-9a-f]{1,8}))? - (?P<opcode>[A-Z][\w.]*)"
)
_LARGEST = (1 << 32) - 1
_LARGEST_LAUNCH = (1 << 64) - 2
"""A launch's number is one less than its id."""


class Launch(NamedTuple):
    """A launch; `None` where the line does not say."""

    number: int
    context: int
    name: str
    grid: tuple[int | None, int | None, int | None] = (None, None, None)
    block: tuple[int | None, int | None, int | None] = (None, None, None)
    registers: int | None = None
    shared: int | None = None
    stream: int | None = None


class Instruction(NamedTuple):
    """What stands before the addresses: which warp of which launch runs which instruction."""

    number: int | None
    context: int
    cta: tuple[int, int, int]
    warp: int
    pc: int | None
    opcode: Opcode | None


def launch_of(line: str) -> Launch | None:
    """Return the launch that a line tells of; `None`: none."""
    found = _LAUNCH.fullmatch(line)
    if found is None or int(found["id"]) > _LARGEST_LAUNCH:
        return None
    sizes = [_fits(found[group]) for group in range(4, 10)]
    return Launch(
        int(found["id"]),
        _context(found["context"]),
        found["name"],
        (sizes[0], sizes[1], sizes[2]),
        (sizes[3], sizes[4], sizes[5]),
        _fits(found["registers"]),
        _fits(found["shared"]),
        None if found["stream"] is None else int(found["stream"]),
    )


def instruction_of(prefix: str) -> Instruction | None:
    """Return what stands before the addresses of a line; `None`: it is no access."""
    found = _ACCESS.fullmatch(prefix)
    if found is None or int(found["id"] or 0) > _LARGEST_LAUNCH:
        return None
    return Instruction(
        None if found["id"] is None else int(found["id"]),
        _context(found["context"]),
        (int(found["x"]), int(found["y"]), int(found["z"])),
        int(found["warp"]),
        None if found["pc"] is None else int(found["pc"], 16),
        opcode_of(found["opcode"]),
    )


def _fits(text: str | None) -> int | None:
    return int(text) if text is not None and int(text) <= _LARGEST else None


def _context(text: str | None) -> int:
    """Return a context's address as the signed number of the same bits; 0: unknown."""
    number = int(text or "0", 16)
    return number - (1 << 64) if number >> 63 else number
