"""Where probes are to be set: what `--probe` asks for, as functions in files."""

from __future__ import annotations

import fnmatch
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pasta.collect.ebpf.elf_file import ElfFile
from pasta.collect.ebpf.instructions import better_place, judged
from pasta.errors import CollectError, did_you_mean

FUNCTIONS_MAX = 200
"""How many functions one `--probe` may mean."""
SETS = {
    "cuda.driver": "uretprobe:libcuda.so.1:cu[A-Z]*",
    "cuda.runtime": "uretprobe:libcudart.so*:cuda[A-Z]*",
    "nccl": "uretprobe:libnccl.so.2:nccl[A-Z]*",
    "mpi": "uretprobe:libmpi.so*:MPI_*",
}
"""Names of sets that `--probe` knows, and what each stands for."""
_KINDS = ("uprobe", "uretprobe", "usdt")
_FORM = re.compile(r"(?P<kind>[a-z]+):(?P<file>[^:]+):(?P<name>[^:\"]+(?::[^:\"]+)?)")
_OFFSET = re.compile(r"(?P<function>.+?)\+(?P<offset>\d+)")
_SAFE = re.compile(r"[\w.$@*?\[\]!-]+")
_SLOW = (
    "the kernel cannot emulate its first instruction, so that each hit takes 10 to 20 us and not 1"
)


class Place(NamedTuple):
    """One probe.

    Attributes:
        kind: `uprobe`, `uretprobe` or `usdt`.
        path: the file.
        name: function, or `provider:name`.
        offset: bytes from the function's start.
        slow: whether the kernel runs what it replaces in single steps; `None`: not judged.
    """

    kind: str
    path: Path
    name: str
    offset: int = 0
    slow: bool | None = False


def places(asked: Iterable[str], *, slow: bool) -> tuple[list[Place], list[str]]:
    """Return the probes that are asked for, and those left out as they would be slow.

    Args:
        asked: `KIND:FILE:NAME`, or the name of a set.
        slow: whether slow ones are set all the same.

    Raises:
        CollectError: one makes no sense, or means nothing or too much, or a function asked for by
            its own name would be slow.
    """
    kept: list[Place] = []
    left_out: list[str] = []
    for text in asked:
        many = any(sign in SETS.get(text, text).rpartition(":")[2] for sign in "*?[")
        for place in _of(text):
            if not place.slow or slow:
                kept.append(place)
            elif many:
                left_out.append(place.name)
            else:
                raise CollectError(f"--probe {text}: {_SLOW}{_offer(place)}")
    if not kept:
        every = ", ".join(left_out[:5])
        raise CollectError(
            f"--probe: nothing to set; all are slow ({every}); --slow-probes sets them"
        )
    return list(dict.fromkeys(kept)), left_out


def _offer(place: Place) -> str:
    better = better_place(place.path, ElfFile(place.path), _address(place))
    if better is None:
        return "; --slow-probes sets it all the same"
    at = f"uprobe:{place.path}:{place.name}+{place.offset + better}"
    return (
        f"; --probe {at} can be emulated (for a bpftrace with offsets), --slow-probes sets this one"
    )


def _of(text: str) -> Iterator[Place]:
    form = _FORM.fullmatch(SETS.get(text, text))
    if form is None or form["kind"] not in _KINDS:
        raise CollectError(
            f"--probe {text}: give KIND:FILE:NAME with a kind of {', '.join(_KINDS)}, or a set:"
            f" {', '.join(SETS)}.{did_you_mean(text, SETS)}"
        )
    path = _file(text, form["file"])
    try:
        elf = ElfFile(path)
    except (OSError, ValueError) as error:
        raise CollectError(f"--probe {text}: {error}") from error
    if form["kind"] == "usdt":
        yield from _usdt(text, elf, form["name"])
    else:
        yield from _functions(text, elf, form["kind"], form["name"])


def _functions(text: str, elf: ElfFile, kind: str, name: str) -> Iterator[Place]:
    found = _OFFSET.fullmatch(name)
    pattern, offset = (found["function"], int(found["offset"])) if found else (name, 0)
    functions = elf.functions()
    names = sorted(fnmatch.filter(functions, pattern))
    if not names:
        raise CollectError(
            f"--probe {text}: {elf.path} has no function '{pattern}'."
            f"{did_you_mean(pattern, functions)}"
        )
    if len(names) > FUNCTIONS_MAX:
        raise CollectError(
            f"--probe {text}: means {len(names)} functions; at most {FUNCTIONS_MAX} can be watched"
        )
    for one in filter(_SAFE.fullmatch, names):
        quick = judged(elf, functions[one] + offset)
        yield Place(kind, elf.path, one, offset, None if quick is None else not quick)


def _usdt(text: str, elf: ElfFile, name: str) -> Iterator[Place]:
    provider, _, probe = name.rpartition(":")
    known = {":".join(_words(note)[:2]) for _, note in elf.notes(".note.stapsdt")}
    names = sorted(fnmatch.filter(known, f"{provider or '*'}:{probe}"))
    if not names:
        raise CollectError(
            f"--probe {text}: {elf.path} has no USDT probe '{name}'; it has"
            f" {', '.join(sorted(known)[:10]) or 'none'}"
        )
    for one in names:
        yield Place("usdt", elf.path, one)  # a nop, which is emulated


def _words(note: bytes) -> list[str]:
    """Return provider, name and arguments of a probe, which follow three addresses."""
    return [part.decode("utf-8", "replace") for part in note[24:].split(b"\0")]


def _address(place: Place) -> int:
    return ElfFile(place.path).functions()[place.name] + place.offset


def _file(text: str, name: str) -> Path:
    """Return the file that is meant: a path, a program on `PATH`, or a library of the system."""
    path = Path(name if "/" in name else shutil.which(name) or _library(name))
    if not path.is_file() or '"' in str(path):
        raise CollectError(f"--probe {text}: no file '{name}'; give its path")
    return path.resolve()


def _library(name: str) -> str:
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    try:
        listed = subprocess.run(  # noqa: S603 - of the C library
            [ldconfig, "-p"], capture_output=True, text=True, check=False
        ).stdout
    except OSError:
        return ""
    for line in listed.splitlines():
        library, _, path = line.partition(" => ")
        if path and fnmatch.fnmatch(library.split()[0], name):
            return path
    return ""


def not_judged(chosen: Iterable[Place]) -> list[str]:
    """Return the functions of which it is not known what a probe costs."""
    return [place.name for place in chosen if place.slow is None]
