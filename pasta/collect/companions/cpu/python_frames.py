"""Functions of Python in samples of perf: what CPython (3.12 and newer) writes for it, where, and until when.

With PYTHONPERFSUPPORT it keeps `/tmp/perf-PID.map`, which tells the name of each code address, and from 3.13 on,
with PYTHON_PERF_JIT_SUPPORT, `/tmp/jit-PID.dump`, which has what DWARF unwinding needs too. perf makes
libraries of the latter (`perf inject --jit`). Nobody removes any of these but us; what other run-time compilers
wrote in the same places is theirs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from pasta.collect.companions.cpu.rungs import DWARF
from pasta.collect.plain_file import read_plain_file

_BY_CPYTHON = ("perf-{}.map", "jit-{}.dump")
_BY_PERF = "jitted-{}-*.so"
_PYTHON = b"py::"
"""Begins the names of functions of Python in these files."""
_LOOKED_AT = 1 << 20
_FOLDER = Path("/tmp")  # noqa: S108 - CPython's own choice


def environment(level: str) -> Mapping[str, str]:
    """Return what has CPython tell perf of its functions; older ones and other programs ignore it."""
    told = {"PYTHONPERFSUPPORT": "1"}
    return {**told, "PYTHON_PERF_JIT_SUPPORT": "1"} if level == DWARF else told


def remove_files(pids: Iterable[int], folder: Path = _FOLDER) -> None:
    """Remove what CPython, and perf after it, wrote of processes."""
    for pid in pids:
        written = [folder / name.format(pid) for name in _BY_CPYTHON]
        made = folder.glob(_BY_PERF.format(pid))
        for file in [*filter(_of_python, written), *made]:
            with contextlib.suppress(OSError):
                file.unlink()


def _of_python(file: Path) -> bool:
    """Tell whether a file has functions of Python; CPython writes its own before all others."""
    try:
        return _PYTHON in read_plain_file(file, _LOOKED_AT)
    except OSError:
        return False
