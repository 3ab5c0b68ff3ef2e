"""The level `python` of the collector `cpu`: Python processes that sample themselves.

A library that each of them loads takes the samples (`pasta/collect/target/sampling.py`), so that no companion is needed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pasta.collect.companions.cpu.events import CLOCK
from pasta.collect.companions.cpu.rungs import PYSPY, PYTHON, Rung, misses
from pasta.collect.companions.options import HostOptions
from pasta.collect.native_library import SAMPLES, samples_library, state
from pasta.collect.target.sampling import LIBRARY
from pasta.errors import CollectError

KNOWN = frozenset({"cpython 3.11", "cpython 3.12", "cpython 3.13"})
"""Pythons whose frames the library knows, of builds that are neither for debugging nor without the lock."""
SILENT = "no Python process was found: nothing was sampled; there was none, or it ran under python -I, -E or -S"
_TELL = (
    "import sys; print(sys.implementation.name, '%d.%d%s' % (*sys.version_info[:2], sys.abiflags))"
)
_TELL_SECONDS = 10
_FIRST_LINE_BYTES = 256


_UNSAMPLED = (
    "s on the CPU of {:.1f} s that the system counted were not sampled: other programs, threads that live for"
    " less than 0.02 s, Pythons that cannot be sampled so"
)
_TOO_LITTLE, _TOO_LITTLE_SECONDS = 0.1, 0.2
_NANOSECONDS = 1_000_000_000


class SampledTime:
    """What all samples stand for, beside what the system counted; listens to a receiver."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def __call__(self, table: str, rows: pa.Table) -> None:
        """Take rows of a table."""
        if table == "sample":
            weights = rows.filter(pc.field("kind") == CLOCK)["weight"]
            self._seconds += (pc.sum(weights).as_py() or 0.0) / _NANOSECONDS

    def lacks(self, processor_seconds: float) -> str:
        """Return what to say of time that was not sampled; empty: it is not much."""
        lacking = processor_seconds - self._seconds
        if lacking <= processor_seconds * _TOO_LITTLE + _TOO_LITTLE_SECONDS:
            return ""
        return f"{lacking:.1f} {_UNSAMPLED.format(processor_seconds)}"


def sampler_rung() -> Rung:
    """Look whether the library is there, or can be compiled."""
    try:
        kind, detail = state(SAMPLES)
    except CollectError as error:
        return Rung(lacks=str(error).partition(": ")[2], advice="install g++ or clang++")
    if kind == "failed":
        return Rung(lacks=detail, advice="pip install py-spy")
    if kind == "possible" and not _may_write(Path(detail).parent):
        lacks = f"the sampler cannot be compiled, as {Path(detail).parent} cannot be written to"
        return Rung(lacks=lacks, advice="set PASTA_CACHE to a folder of yours")
    return Rung(detail)


def environment() -> dict[str, str]:
    """Return the variable by which Python processes load the library; compile it where that was not done yet.

    Raises:
        CollectError: it was not built with pasta and cannot be compiled.
    """
    return {LIBRARY: samples_library()}


def settings(options: HostOptions) -> Mapping[str, Any]:
    """Return what the trace keeps of this level.

    Raises:
        CollectError: an option goes with other levels.
    """
    if options.native or options.idle:
        raise CollectError(f"--native and --idle-threads go with py-spy: --with cpu:{PYSPY}")
    if options.events:
        raise CollectError("--event goes with perf: --with cpu:fp or cpu:dwarf")
    return {"misses": misses(PYTHON, kernel=False)}


def samples_itself(command: Sequence[str]) -> bool:
    """Tell whether a command is a Python whose frames the library knows, and which will load it."""
    python = python_of(command)
    if not python or _ignores_environment(python[1:]):
        return False
    try:
        told = subprocess.run(  # noqa: S603 - the user's own Python
            [python[0], "-I", "-S", "-c", _TELL],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TELL_SECONDS,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return False
    return told.strip() in KNOWN


def is_loadable() -> bool:
    """Tell whether the library is there; compile it where that was not done yet."""
    try:
        return bool(samples_library())
    except CollectError:
        return False


def _may_write(folder: Path) -> bool:
    """Tell whether files can be made in a folder, which may be absent yet."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return there.is_dir() and os.access(there, os.W_OK)


def python_of(command: Sequence[str]) -> list[str]:
    """Return the Python that runs a command, and the options that it is given; empty: it is no Python.

    As far as the command's name, or its first line, say.
    """
    path = shutil.which(command[0])
    if path is None:
        return []
    if _is_python(path):
        return [path, *command[1:]]
    try:
        with Path(path).open("rb") as file:
            first = file.readline(_FIRST_LINE_BYTES)
    except OSError:
        return []
    words = first[2:].decode(errors="replace").split() if first.startswith(b"#!") else []
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if word != "-S"]
    found = shutil.which(words[0]) if words else None
    return [found, *words[1:]] if found and _is_python(found) else []


def _is_python(path: str) -> bool:
    return re.match(r"(python|pypy)[\d.]*t?\Z", Path(path).name) is not None


def _ignores_environment(options: Iterable[str]) -> bool:
    """Tell whether a Python's options keep it from what the environment would have it load."""
    for option in options:
        if re.fullmatch(r"-[^-].*", option) is None:
            return False
        letters = re.match(r"[^cmWX]*", option[1:])
        if letters and set(letters[0]) & set("IES"):
            return True
        if letters and option[1 + letters.end() :][:1] in ("c", "m"):
            return False
    return False
