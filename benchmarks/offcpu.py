"""Measure what the collector `offcpu` costs a switch, at 10^4 and 10^5 switches a second.

python benchmarks/offcpu.py    (as root)

Two threads of a compiled program on one CPU hand a byte to and fro through pipes: two switches a round.
A round begins at set times, and the program says how long it took; what lies between is not counted. It
runs with real-time priority, so that no other program comes in between. The slowest hundredth of the rounds is
left out. Runs take the variants in turn; medians are told, and the processor time of bpftrace and pasta
beside the program, their start included.
"""

from __future__ import annotations

import os
import platform
import resource
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from pasta.collect.recording import record_command
from pasta.collect.selection import Selection
from pasta.trace import Trace

ROUNDS = 7
RATES = (10_000, 100_000)
SECONDS = 1
LEVELS = ("", "user", "kernel")
SOURCE = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static int there[2], back[2];
static long rounds;

static long now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1000000000L + at.tv_nsec;
}

static void *echo(void *unused) {
  char byte;
  for (long round = 0; round < rounds; round++)
    if (read(there[0], &byte, 1) != 1 || write(back[1], &byte, 1) != 1) exit(1);
  return unused;
}

static int by_size(const void *one, const void *other) {
  return (*(long *)one > *(long *)other) - (*(long *)one < *(long *)other);
}

int main(int count, char **arguments) {
  long rate = atol(arguments[1]), switches = atol(arguments[2]);
  struct sched_param priority = {1};
  cpu_set_t first;
  CPU_ZERO(&first);
  CPU_SET(0, &first);
  sched_setaffinity(0, sizeof first, &first);
  sched_setscheduler(0, SCHED_FIFO, &priority);
  rounds = switches / 2;
  pthread_t thread;
  if (pipe(there) || pipe(back) || pthread_create(&thread, 0, echo, 0)) return 1;
  long *took = malloc(rounds * sizeof *took), every = 2000000000L / rate, next = now();
  char byte = 0;
  for (long round = 0; round < rounds; round++) {
    long began = now();
    if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1) return 1;
    took[round] = now() - began;
    for (next += every; now() < next;) {}
  }
  qsort(took, rounds, sizeof *took, by_size);
  long kept = rounds * 99 / 100;
  double sum = 0;
  for (long round = 0; round < kept; round++) sum += took[round];
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  FILE *told = fopen(arguments[3], "w");
  fprintf(told, "%.1f %.6f", sum / kept / 2, used.ru_utime.tv_sec + used.ru_stime.tv_sec +
          (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
  return fclose(told);
}
"""


class Cost(NamedTuple):
    """Of one run: ns a switch in the program; seconds of bpftrace and pasta; switches missed."""

    inside: float
    beside: float
    missed: int


def processor_seconds() -> float:
    """Return what this process and its children that ended took of processors."""
    of = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(used.ru_utime + used.ru_stime for used in of)


def measured(program: Path, folder: Path, rate: int, level: str) -> Cost:
    """Run the program once, under the collector unless `level` is empty."""
    told, trace = folder / "told", folder / "trace"
    switches = rate * SECONDS
    command = [str(program), str(rate), str(switches), str(told)]
    before = processor_seconds()
    seen = switches
    if level:
        record_command(command, trace, {"offcpu": level}, Selection())
        seen = Trace.open(trace).scan("sample").collect().height
        shutil.rmtree(trace)
    else:
        subprocess.run(command, check=True)
    inside, own = map(float, told.read_text().split())
    beside = processor_seconds() - before - own
    return Cost(inside, beside, max(0, switches - seen))


def main() -> None:
    """Print a line for each rate and level."""
    variants = [(rate, level) for rate in RATES for level in LEVELS]
    costs: dict[tuple[int, str], list[Cost]] = {variant: [] for variant in variants}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        source, program = folder / "switches.c", folder / "switches"
        source.write_text(SOURCE)
        subprocess.run(
            ["cc", "-O2", "-fno-omit-frame-pointer", source, "-o", program, "-pthread"], check=True
        )
        for _ in range(ROUNDS):
            for variant in variants:
                costs[variant].append(measured(program, folder, *variant))
    print(f"{platform.release()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    for (rate, level), values in costs.items():
        plain = statistics.median(cost.inside for cost in costs[rate, ""])
        inside = [cost.inside for cost in values]
        line = f"{rate} switches a second, {level or 'nobody collects'}: "
        line += (
            f"{statistics.median(inside):.0f} ns a switch ({min(inside):.0f} to {max(inside):.0f})"
        )
        if level:
            beside = statistics.median(cost.beside for cost in values)
            line += f", {statistics.median(inside) - plain:+.0f}; beside it {beside:.2f} s"
            line += f"; missed {sum(cost.missed for cost in values)}"
        print(line)


if __name__ == "__main__":
    main()
