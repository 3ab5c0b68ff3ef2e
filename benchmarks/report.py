"""Time `pasta report`, as a whole and tool by tool, on a trace of 2.4 million events.

    python benchmarks/report.py [--trace TRACE] [--runs 3] [--tools]

Without TRACE it is made: half of it 100 times the trace that ships with pasta (kernels, calls, copies, spans,
memory events, touches, metrics), half raw accesses at scattered addresses:

    python benchmarks/generate.py TRACE --kernels 45600 --accesses 1.2e6

Every run is a process of its own, `pasta report TRACE -o PAGE`, on two threads of Polars. Of several, the medians are
printed: seconds, processor seconds, and the largest resident size. `--tools` also runs each tool by
itself, once, whose seconds do not add up to those of the report: there, what tools share runs once.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import pasta
from benchmarks.generate import Generator, Size, Template
from benchmarks.import_kineto import as_installed
from pasta.tools.shipped import SHIPPED_TRACE, shipped_tools

KERNELS, ACCESSES = 45_600, 1_200_000


class Cost(NamedTuple):
    """What a process took: seconds, processor seconds, and its peak in MB."""

    wall: float
    cpu: float
    peak: float


def run(*arguments: str) -> Cost | None:
    """Run `pasta` with arguments; return what it took, or nothing where it failed."""
    command = [sys.executable, "-m", "pasta", *arguments]
    began = time.perf_counter()
    with subprocess.Popen(
        command,
        env={**as_installed(), "POLARS_MAX_THREADS": "2"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - began
    if process.returncode:
        return None
    return Cost(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def made(folder: Path) -> Path:
    """Write the trace of 2.4 million events."""
    size = Size(kernels=KERNELS, accesses=ACCESSES)
    trace = folder / "events"
    Generator(Template(pasta.open(SHIPPED_TRACE)), size).write(trace)
    return trace


def shown(name: str, costs: list[Cost]) -> str:
    """Return a line of the table: medians of the runs."""
    wall, cpu, peak = (statistics.median(values) for values in zip(*costs, strict=True))
    return f"{name:<24} {wall:>8.2f} {cpu:>8.2f} {peak:>8.0f}"


def main() -> None:
    """Print a line for the report, and with `--tools` one for each tool."""
    parser = argparse.ArgumentParser(description="Time pasta report.")
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tools", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trace = given.trace or made(Path(folder))
        opened = pasta.open(trace)
        rows = {table: opened.rows(table) for table in opened.tables()}
        print(", ".join(f"{count:,} {table}" for table, count in rows.items()))
        print(f"{sum(rows.values()):,} rows; load {os.getloadavg()[0]:.1f}")
        print(f"{'':<24} {'s':>8} {'cpu s':>8} {'peak MB':>8}")
        page = Path(folder) / "report.html"
        command = ["report", str(trace), "-o", str(page), "--engine", "cpu"]
        costs = [cost for _ in range(given.runs) if (cost := run(*command)) is not None]
        print(shown("report", costs))
        for tool in shipped_tools() if given.tools else ():
            cost = run("run", tool, "--trace", str(trace), "--engine", "cpu")
            print(f"{tool:<24} cannot run on it" if cost is None else shown(tool, [cost]))
        print(f"load {os.getloadavg()[0]:.1f}; the page has {page.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
