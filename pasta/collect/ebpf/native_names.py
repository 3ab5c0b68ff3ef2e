"""Names of native frames: from addresses in a process to functions and libraries."""

from __future__ import annotations

import bisect
import re
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from pasta.collect.demangle import demangled
from pasta.collect.ebpf.elf_file import ElfFile
from pasta.collect.plain_file import read_plain_file
from pasta.collect.shaping.stacks import Frame

_MAPPING = re.compile(
    r"(?P<start>[0-9a-f]+)-(?P<end>[0-9a-f]+) ..(?P<execute>.). (?P<offset>[0-9a-f]+) \S+ \d+\s*(?P<file>.*)"
)
_COMPILED = re.compile(r"([0-9a-f]+) ([0-9a-f]+) (.*)")
_OWN_ID = re.compile(r"^NSpid:.*?(\d+)$", re.MULTILINE)
_PYTHON = "py::"
_NO_FILES = ("[anon", "//anon", "/memfd:", "/dev/zero")
_FILES_MAX = 512
_PROCESSES_MAX = 4096


class Mapping(NamedTuple):
    """Memory of a process that holds code; `file` is empty for code made at run time."""

    start: int
    end: int
    offset: int
    file: str


class NativeNames:
    """Names the frames of processes while they live.

    A process that is gone is known by what was read of it before, else by what its parent had mapped:
    a fork that ran no other program has the same.
    """

    def __init__(self) -> None:
        self._mappings: dict[int, list[Mapping]] = {}
        self._parents: dict[int, int] = {}
        self._compiled: dict[int, _Compiled] = {}

    @property
    def pids(self) -> Collection[int]:
        """The processes of which something was read."""
        return self._mappings.keys()

    def forked(self, parent: int, pid: int) -> None:
        """Take it that a process was forked by another."""
        self._parents[pid] = parent
        self._mappings.pop(pid, None)
        self._compiled.pop(pid, None)

    def replaced(self, pid: int) -> None:
        """Take it that a process runs another program now."""
        self._parents.pop(pid, None)
        self._mappings.pop(pid, None)
        self._compiled.pop(pid, None)

    def frames(self, pid: int, addresses: list[int]) -> list[Frame]:
        """Return the frames of a stack; addresses where no code is are left out.

        Of a process of which nothing is known, only the innermost one is sure to be one.

        Args:
            pid: the process.
            addresses: where each frame goes on, outermost first.
        """
        *callers, here = addresses or [0]
        calls = [address - 1 for address in callers]  # a call may be the last of its function
        found = [self._frame(pid, address) for address in (*calls, here)]
        if not self._known(pid):
            return [frame for frame in found[-1:] if frame]
        return [frame for frame in found if frame is not None]

    def _known(self, pid: int) -> bool:
        return pid in self._mappings or self._parents.get(pid) in self._mappings

    def _frame(self, pid: int, address: int) -> Frame | None:
        mapping = self._mapping(pid, address)
        if mapping is None:
            return None if self._known(pid) else Frame(f"0x{address:x}")
        if not mapping.file or mapping.file.startswith(_NO_FILES):
            return self._compiled_frame(pid, address)
        offset = address - mapping.start + mapping.offset
        return _frame_in_file(mapping.file, _readable(pid, mapping.file), offset)

    def _mapping(self, pid: int, address: int) -> Mapping | None:
        """Return what holds an address, looked up again where the process has more than was known."""
        mapping = _holder(self._mappings.get(pid, []), address)
        if mapping is None and (now := _mappings(pid)):
            if len(self._mappings) >= _PROCESSES_MAX:
                self._mappings.pop(next(iter(self._mappings)))
            self._mappings[pid] = now
            mapping = _holder(now, address)
        if mapping is None and pid not in self._mappings and pid in self._parents:
            return self._mapping(self._parents[pid], address)
        return mapping

    def _compiled_frame(self, pid: int, address: int) -> Frame:
        compiled = self._compiled.get(pid)
        name = compiled.name(address) if compiled else ""
        if not name and (now := _Compiled.of(pid)):
            self._compiled[pid] = now
            name = now.name(address)
        if name.startswith(_PYTHON):
            function, _, file = name.removeprefix(_PYTHON).partition(":")
            return Frame(function, file, 0, "python")
        return Frame(name or f"0x{address:x}")


class _Compiled:
    """Functions that a process compiled and told of in `/tmp/perf-PID.map`."""

    def __init__(self, functions: list[tuple[int, int, str]]) -> None:
        self._functions = sorted(functions)

    @staticmethod
    def of(pid: int) -> _Compiled | None:
        """Return those of a process, by the id that it knows itself; `None`: it tells of none."""
        try:
            status = Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
            own = _OWN_ID.search(status)
            told = Path(f"/proc/{pid}/root/tmp/perf-{own[1] if own else pid}.map")
            text = read_plain_file(told).decode("utf-8", "replace")
        except OSError:
            return None
        found = map(_COMPILED.fullmatch, text.splitlines())
        return _Compiled([(int(f[1], 16), int(f[2], 16), f[3]) for f in found if f])

    def name(self, address: int) -> str:
        """Return the function that an address is in; empty: unknown."""
        place = bisect.bisect_right(self._functions, (address, 1 << 64, "")) - 1
        if place < 0:
            return ""
        start, size, name = self._functions[place]
        return name if address < start + size else ""


def _holder(mappings: list[Mapping], address: int) -> Mapping | None:
    place = bisect.bisect_right(mappings, (address, 1 << 64, 0, "")) - 1
    return mappings[place] if place >= 0 and address < mappings[place].end else None


def _mappings(pid: int) -> list[Mapping]:
    """Return where a process has code, in order; empty: it is gone."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    found = [found for found in map(_MAPPING.fullmatch, lines) if found and found["execute"] == "x"]
    return [
        Mapping(int(f["start"], 16), int(f["end"], 16), int(f["offset"], 16), f["file"])
        for f in found
    ]


def _readable(pid: int, file: str) -> str:
    """Return the path by which a file of a process is read, which may have another root."""
    own = f"/proc/{pid}/root{file}"
    return own if Path(own).exists() else file


def _frame_in_file(file: str, path: str, offset: int) -> Frame:
    try:
        status = Path(path).stat()
        elf = _elf(path if path == file else file, path, status.st_ino, status.st_mtime_ns)
    except OSError:
        elf = None
    library = file.removesuffix(" (deleted)")
    address = elf.address_of_offset(offset) if elf else -1
    name = elf.function_at(address) if elf and address >= 0 else ""
    at = f"{Path(library).name}+0x{address if address >= 0 else offset:x}"
    return Frame(demangled(name) if name else at, library=library)


@lru_cache(_FILES_MAX)
def _elf(_file: str, path: str, _inode: int, _changed: int) -> ElfFile | None:
    try:
        return ElfFile(Path(path))
    except (OSError, ValueError):
        return None
