"""Programs whose time on the CPU is known, and what the tests of sampling share."""

from __future__ import annotations

import math
import shutil
import subprocess
import time
from pathlib import Path

import polars as pl
import pytest

from pasta.collect.companions.options import HostOptions
from pasta.collect.recording import Recorded, record_command
from pasta.collect.selection import Selection
from pasta.trace import Trace

HEAVY_SHARE = 0.75
SPLIT_C = r"""
#include <stdlib.h>
#include <time.h>
static volatile unsigned long total;
static double spent(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}
static inline void spend(double seconds) {
    for (double end = spent() + seconds; spent() < end;)
        for (int i = 0; i < 50000; i++) total += i;
}
__attribute__((noinline)) void heavy(double seconds) { spend(seconds); total++; }
__attribute__((noinline)) void light(double seconds) { spend(seconds); total++; }
int main(int count, char **words) {
    double seconds = atof(words[1]) / 50;
    for (int i = 0; i < 50; i++) { heavy(0.75 * seconds); light(0.25 * seconds); }
    return 0;
}
"""
SPLIT_PY = """
import sys, time

def spend(seconds):
    end = time.process_time() + seconds
    total = 0
    while time.process_time() < end:
        for i in range(2000):
            total += i

def heavy(seconds):
    spend(seconds)

def light(seconds):
    spend(seconds)

def work(seconds):
    for _ in range(20):
        heavy(0.75 * seconds / 20)
        light(0.25 * seconds / 20)
"""


def split_program(folder: Path) -> str:
    """Compile the program that spends three quarters of its time in `heavy`."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    source, program = folder / "split.c", folder / "split"
    source.write_text(SPLIT_C)
    options = ["-O1", "-g", "-fno-omit-frame-pointer", "-fno-inline-functions"]
    subprocess.run([compiler, *options, source, "-o", program], check=True)
    program.chmod(0o755)
    return str(program)


def sampled(command: list[str], out: Path, level: str, **options: object) -> tuple[Recorded, Trace]:
    """Sample a command; return what came of it, and the trace."""
    selection = Selection(host=HostOptions(**options))
    done = record_command(command, out, {"cpu": level}, selection)
    assert not list(out.glob(".*"))
    return done, Trace.open(out)


def weight_of(trace: Trace, function: str, kind: str = "on_cpu") -> float:
    """Weight of the samples of a kind with a function on their stack."""
    frames = trace.scan("frame").filter(pl.col("function") == function)
    stacks = frames.select("pid", "stack_id").unique()
    samples = trace.scan("sample").filter(pl.col("kind") == kind)
    return samples.join(stacks, on=["pid", "stack_id"]).select("weight").collect().sum().item()


def assert_split(trace: Trace, period_ns: float, slack: float = 0.01) -> None:
    """Assert that `heavy` has its share, as far as so many samples can tell it."""
    heavy, light = (weight_of(trace, function) for function in ("heavy", "light"))
    samples = (heavy + light) / period_ns
    assert samples > 100
    deviation = math.sqrt(HEAVY_SHARE * (1 - HEAVY_SHARE) / samples)
    assert abs(heavy / (heavy + light) - HEAVY_SHARE) < 4 * deviation + slack


def child_of(parent: int, name: str) -> int:
    """The process id of a child that has become the program of a name."""
    for _ in range(30_000):
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                status = (folder / "status").read_text()
            except OSError:
                continue
            if f"PPid:\t{parent}\n" in status and status.startswith(f"Name:\t{name}\n"):
                return int(folder.name)
        time.sleep(0.01)
    raise AssertionError(f"there is no {name}")


def await_end(pid: int) -> None:
    """Return when a process has ended."""
    for _ in range(30_000):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        time.sleep(0.01)
    raise AssertionError(f"{pid} still runs")


def children_of(parent: int) -> list[int]:
    """The process ids of the children of a process."""
    text = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(word) for word in text.split()]


def command_line(pid: int) -> bytes:
    """The command line of a process."""
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def processor_ticks(pid: int) -> int:
    """Ticks of processor time that a process has taken in user code."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])
