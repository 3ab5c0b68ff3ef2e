"""Measure what `--with cpu` costs a program that is busy all the time, at each level.

python benchmarks/host_sampling.py [SECONDS] [ROUNDS]

A program in C and one in Python do a fixed amount of work, which takes about SECONDS, and say how much
processor time it took them and how long they ran (what they did before, their start included, left out). Rounds take the variants in turn; the medians of what a
round took more than its run without a collector are told, beside the processor time of the companion.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pasta.collect.companions.options import HostOptions
from pasta.collect.recording import record_command
from pasta.collect.selection import Selection

FREQUENCIES = (99, 999)
TRIAL = 20_000_000
PROGRAM_C = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static double now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}
static volatile unsigned long total;
__attribute__((noinline)) void work(long count) { for (long i = 0; i < count; ++i) total += i; }
int main(int count, char **words) {
    double began = now(CLOCK_MONOTONIC), spent = now(CLOCK_PROCESS_CPUTIME_ID);
    for (int part = 0; part < 100; ++part) work(atol(words[1]) / 100);
    FILE *told = fopen(words[2], "w");
    fprintf(told, "[%.6f, %.6f]", now(CLOCK_PROCESS_CPUTIME_ID) - spent, now(CLOCK_MONOTONIC) - began);
    return count != 3 || fclose(told);
}
"""
PROGRAM_PYTHON = """
import json, pathlib, sys, time
def work(count):
    total = 0
    for i in range(count):
        total += i
began, spent = time.monotonic(), time.process_time()
for part in range(100):
    work(int(sys.argv[1]) // 100)
pathlib.Path(sys.argv[2]).write_text(json.dumps([time.process_time() - spent, time.monotonic() - began]))
"""


class Took(NamedTuple):
    """What one run took, in seconds: processor time, elapsed time, the companion's processor time."""

    processor: float
    elapsed: float
    beside: float


def run(command: Sequence[str], told: Path, variant: tuple[str, int] | None, trace: Path) -> Took:
    """Run a program, under a level of `cpu` at a frequency or under nothing."""
    before = _children()
    if variant is None:
        subprocess.run(command, check=True)
    else:
        level, frequency = variant
        selection = Selection(host=HostOptions(frequency=frequency))
        record_command(command, trace, {"cpu": level}, selection)
        shutil.rmtree(trace)
    processor, elapsed = json.loads(told.read_text())
    return Took(processor, elapsed, max(0.0, _children() - before - processor))


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def commands(folder: Path, seconds: float) -> dict[str, list[str]]:
    """Return both programs with their arguments."""
    source, program, script = folder / "work.c", folder / "work", folder / "work.py"
    source.write_text(PROGRAM_C)
    script.write_text(PROGRAM_PYTHON)
    options = ["-O1", "-fno-omit-frame-pointer"]
    subprocess.run(["cc", *options, source, "-o", program], check=True)
    programs = {"c": [str(program)], "python": [sys.executable, str(script)]}
    return {name: _lasting(command, folder / "told", seconds) for name, command in programs.items()}


def _lasting(command: list[str], told: Path, seconds: float) -> list[str]:
    """Return a program with arguments by which it takes `seconds`, as a trial tells."""
    subprocess.run([*command, str(TRIAL), str(told)], check=True)
    processor, _ = json.loads(told.read_text())
    return [*command, str(int(TRIAL * seconds / processor)), str(told)]


def main(seconds: float, rounds: int) -> None:
    """Print a line for each program and variant."""
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    levels = {"c": ("fp", "dwarf"), "python": ("python", "fp")}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name, command in commands(folder, seconds).items():
            variants = [None, *((level, rate) for level in levels[name] for rate in FREQUENCIES)]
            took: dict[tuple[str, int] | None, list[Took]] = {each: [] for each in variants}
            for _ in range(rounds):
                for variant in variants:
                    took[variant].append(run(command, folder / "told", variant, folder / "t"))
                    time.sleep(0.1)
            for variant in variants[1:]:
                assert variant is not None  # noqa: S101
                print(_line(name, variant, took[None], took[variant]))


def _line(
    name: str, variant: tuple[str, int], without: Sequence[Took], under: Sequence[Took]
) -> str:
    pairs = list(zip(without, under, strict=True))
    processor = [b.processor / a.processor - 1 for a, b in pairs]
    elapsed = [b.elapsed / a.elapsed - 1 for a, b in pairs]
    beside = [b.beside / b.processor for b in under]
    return (
        f"{name}, cpu:{variant[0]} at {variant[1]} Hz: {statistics.median(processor):+.1%} processor time"
        f" ({min(processor):+.1%} to {max(processor):+.1%}), {statistics.median(elapsed):+.1%} elapsed,"
        f" {statistics.median(beside):.1%} beside it"
    )


if __name__ == "__main__":
    main(
        float(sys.argv[1]) if len(sys.argv) > 1 else 5.0,
        int(sys.argv[2]) if len(sys.argv) > 2 else 7,
    )
