"""Whether bpftrace works here, small C programs for it to watch, and what it must not leave behind."""

from __future__ import annotations

import functools
import shutil
import subprocess
from pathlib import Path

import pytest

from pasta.collect.ebpf.bpftrace import check_bpftrace, tracefs_command
from pasta.errors import CollectError


@functools.cache
def why_not() -> str:
    """Return why scripts cannot run here; empty: they can."""
    try:
        check_bpftrace("test")
    except CollectError as error:
        return str(error)
    script = "tracepoint:sched:sched_switch { exit(); }"
    tried = [*tracefs_command(), "bpftrace", "-e", script]
    done = subprocess.run(tried, capture_output=True, text=True, timeout=60, check=False)
    return "" if done.returncode == 0 else f"bpftrace fails here: {done.stderr[-200:]}"


needs_bpftrace = pytest.mark.skipif(bool(why_not()), reason=why_not())


def compiled(source: str, folder: Path, *options: str) -> Path:
    """Return the program of a C source; the test is skipped where there is no compiler."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc here")
    program, file = folder / "program", folder / "program.c"
    file.write_text(source)
    subprocess.run(["gcc", "-O1", *options, "-o", program, file, "-pthread"], check=True)
    return program


def of_bpftrace() -> set[int]:
    """Return the process ids of bpftrace, where it runs."""
    return {pid for pid in _all() if _runs(pid) == "bpftrace"}


def children(parent: int, of: str) -> set[int]:
    """Return the children of a process that run a program whose name begins so."""
    listed = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return {int(pid) for pid in listed if _runs(int(pid)).startswith(of)}


def _all() -> list[int]:
    return [int(process.name) for process in Path("/proc").glob("[0-9]*")]


def _runs(pid: int) -> str:
    """Return the name of the program that a process runs; empty: it has ended."""
    try:
        return Path(f"/proc/{pid}/exe").readlink().name
    except OSError:
        return ""
