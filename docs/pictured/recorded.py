"""Traces that pictures show of programs which really run: on this machine's CPU, and on workers of Dask."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pasta
from benchmarks.generate import Generator, Size, Template
from pasta.system.assemble import node_rows
from pasta.system.text import read_system
from pasta.testing import write_trace
from pasta.tools.shipped import SHIPPED_TRACE

HERE = Path(__file__).parent
PLACE = Path(tempfile.gettempdir()) / "count_words"
PYTHON = "/usr/bin/python3"
"""The system's, whose path tells nothing of who takes the pictures."""

PASTA = (sys.executable, "-m", "pasta")
FIRST = ("chrt", "--rr", "1")
"""Before other programs that use the machine meanwhile."""


def threads_that_count(folder: Path, *, off: str) -> dict[str, Path]:
    """Record what the threads of `count_words.c` do on the CPU and `off` it (a level of offcpu); both want root."""
    source = HERE / "count_words.c"
    PLACE.mkdir(exist_ok=True)
    program = PLACE / "count_words"
    _call("gcc", "-O1", "-g", "-fno-omit-frame-pointer", "-pthread", "-o", program, source)
    watched = ("--with", f"cpu:fp,offcpu:{off},processes", "--frequency", "999")
    _call(*PASTA, "collect", *watched, "-o", folder / "threads", "--", *FIRST, program)
    shutil.rmtree(PLACE)
    return {"count_words": folder / "threads"}


def python_that_counts(folder: Path) -> dict[str, Path]:
    """Record `count_words.py`, which samples itself, and pack its lines."""
    PLACE.mkdir(exist_ok=True)
    program = shutil.copy(HERE / "count_words.py", PLACE)
    watched = ("--with", "cpu:python", "--frequency", "249")
    _call(*PASTA, "collect", *watched, "-o", folder / "lines", "--", PYTHON, program)
    _call(*PASTA, "trace", "sources", folder / "lines")
    shutil.rmtree(PLACE)
    return {"count_words": folder / "lines"}


def runs_on_workers(folder: Path) -> dict[str, Path]:
    """Record the tool `device_time` on one worker of Dask and on two, over eight ranks like the shipped trace."""
    generator = Generator(Template(pasta.open(SHIPPED_TRACE)), Size(ranks=8, kernels=800_000))
    generator.write(folder / "ranks", ["kernel", "copy", "process"])
    runs = {"one": 1, "two": 2}
    for name, workers in runs.items():
        timed = ("--engine", "dask", "--workers", str(workers), "--timings", folder / name)
        _call(*PASTA, "run", "device_time", "--trace", folder / "ranks", *timed)
    return {name: folder / name for name in runs}


def two_hosts(folder: Path) -> dict[str, Path]:
    """Write the table `node` that a run on the hosts of `two_hosts.yaml` has."""
    system = read_system(HERE / "two_hosts.yaml")
    rows = [row for each in system.entities for row in node_rows(system, each.name, 0).to_pylist()]
    return {"two_hosts": write_trace(folder / "system", node=rows).path}


def _call(*command: str | Path) -> None:
    subprocess.run([str(part) for part in command], check=True, capture_output=True, timeout=300)  # noqa: S603 - our own
