"""What a probe on an instruction costs: whether the kernel emulates it, or runs it in single steps.

Linux puts a breakpoint where a uprobe is. On x86-64 it emulates what that replaces if it is a push of a
register, a nop, or a relative jump or call (`arch/x86/kernel/uprobes.c`); anything else it runs elsewhere, by a
second trap, which is ten to twenty times as dear on a virtual machine.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path

from pasta.collect.ebpf.elf_file import X86_64, ElfFile

LONGEST = 15
"""Bytes of the longest instruction of x86-64."""
_PROLOGUE = 48
_LISTED = re.compile(r"\s*(?P<address>[0-9a-f]+):\t(?P<bytes>(?:[0-9a-f]{2} )+)\s*(?P<text>.*)")
_LEAVES = ("j", "call", "ret", "loop", "hlt", "ud2", "syscall", "bnd")
_LONG_NOPS = (b"\x0f\x1f", b"\x66\x0f\x1f")
_EMULATES_LONG_NOPS = (6, 18)
"""Linux's version from which on nops of three bytes and more are emulated, as measured."""
_ONE_BYTE = frozenset({*range(0x50, 0x58), *range(0x70, 0x80), 0x90, 0xE8, 0xE9, 0xEB})
"""Push of a register, jump on a condition, nop, call, jump."""


def emulated(code: bytes, kernel: tuple[int, int] | None = None) -> bool:
    """Tell whether the kernel emulates the instruction of x86-64 that some code begins with.

    Args:
        code: at least the first two bytes.
        kernel: its version; the one that runs, if not given.
    """
    if code.startswith(_LONG_NOPS):
        return (kernel or _version()) >= _EMULATES_LONG_NOPS
    first, second = bytes(code[:2]).ljust(2, b"\0")
    if first == 0x41:  # push of r8 to r15
        return bool(0x50 <= second <= 0x57)
    if first == 0x0F:  # jump on a condition
        return bool(0x80 <= second <= 0x8F)
    if first == 0xF3:  # pause
        return bool(second == 0x90)
    return first in _ONE_BYTE


def judged(elf: ElfFile, address: int) -> bool | None:
    """Tell whether a probe at an address is emulated; `None`: not judged, on other architectures."""
    return emulated(elf.code(address, LONGEST)) if elf.machine == X86_64 else None


def better_place(path: Path, elf: ElfFile, address: int) -> int | None:
    """Return how far into a function the first instruction is that is emulated.

    Only what runs in every call is looked at: up to the first branch, as `objdump` (binutils) shows it.

    Returns:
        Bytes from the function's start; `None`: there is none, or no `objdump`.
    """
    objdump = shutil.which("objdump")
    if objdump is None:
        return None
    span = [f"--start-address={address}", f"--stop-address={address + _PROLOGUE}"]
    done = subprocess.run(  # noqa: S603 - of binutils, on a file that the user names
        [objdump, "-d", "-w", *span, str(path)], capture_output=True, text=True, check=False
    )
    for found in filter(None, map(_LISTED.fullmatch, done.stdout.splitlines())):
        at = int(found["address"], 16)
        if at > address and judged(elf, at):
            return at - address
        if found["text"].startswith(_LEAVES):
            return None
    return None


def _version() -> tuple[int, int]:
    major, minor, *_ = [*re.findall(r"\d+", platform.release()), "0", "0"]
    return int(major), int(minor)
