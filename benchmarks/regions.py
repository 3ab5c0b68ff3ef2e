"""Measure what a region of `pasta.h` costs: not collected, and under `pasta collect`.

python benchmarks/regions.py

A compiled program marks regions one after another, by one name or by 200 in turn, and says how much
processor time each took, the loop itself included. Rounds take the variants in turn; medians are told.
"""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

from pasta.collect.recording import record_command
from pasta.collect.regions import INCLUDE
from pasta.collect.selection import Selection
from pasta.trace import Trace

ROUNDS = 11
REGIONS = {"nobody collects": 20_000_000, "collected": 400_000}
SOURCE = """
#include <pasta.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double processor_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

int main(int count, char **arguments) {
    static char names[200][32];
    long regions = atol(arguments[1]), different = atol(arguments[2]);
    for (int index = 0; index < 200; ++index) snprintf(names[index], 32, "a region's name %d", index);
    pasta_begin("first");
    pasta_end();
    double began = processor_ns();
    for (long region = 0, name = 0; region < regions; ++region, name = name + 1 < different ? name + 1 : 0) {
        pasta_begin(names[name]);
        pasta_end();
    }
    double took = processor_ns() - began;
    FILE *told = fopen(arguments[3], "w");
    fprintf(told, "%.2f", took / regions);
    return count != 4 || fclose(told);
}
"""


def measured(program: Path, folder: Path, *, collected: bool, names: int) -> tuple[float, int]:
    """Return ns of processor time a region, and how many regions were lost."""
    told, trace = folder / "told", folder / "trace"
    regions = REGIONS["collected" if collected else "nobody collects"]
    command = [str(program), str(regions), str(names), str(told)]
    if not collected:
        subprocess.run(command, check=True)
        return float(told.read_text()), 0
    record_command(command, trace, {"torch": "operators"}, Selection())
    kept = Trace.open(trace).scan("span").collect().height
    shutil.rmtree(trace)
    return float(told.read_text()), regions + 1 - kept


def main() -> None:
    """Print a line for each variant."""
    variants = [(collected, names) for collected in (False, True) for names in (1, 200)]
    took: dict[tuple[bool, int], list[float]] = {variant: [] for variant in variants}
    lost = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        source, program = folder / "regions.c", folder / "regions"
        source.write_text(SOURCE)
        subprocess.run(["cc", "-O2", f"-I{INCLUDE}", source, "-o", program, "-pthread"], check=True)
        for _ in range(ROUNDS):
            for collected, names in variants:
                each, missing = measured(program, folder, collected=collected, names=names)
                took[collected, names].append(each)
                lost += missing
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for (collected, names), values in took.items():
        who = "collected" if collected else "nobody collects"
        spread = f"{min(values):.1f} to {max(values):.1f}"
        print(f"{who}, {names} names: {statistics.median(values):.1f} ns a region ({spread})")
    print(f"lost: {lost} of {ROUNDS * 2 * REGIONS['collected']} regions")


if __name__ == "__main__":
    main()
