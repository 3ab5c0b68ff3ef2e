"""Measure what a probe costs a hit, by its kind and by the instruction that it is set on.

    python benchmarks/probes.py [PYTHON ...]    (as root; PYTHONs of 3.12 or newer for sys.monitoring)

A compiled program calls a function that begins with each kind of instruction, or passes a USDT probe, with
bpftrace counting (`@ = count()`) or without. A Python program calls an empty function under `sys.setprofile`,
`sys.monitoring` or in a range of `pasta.annotate`. Each says how much processor time a call took, and how much of
that was the system's. Runs take the variants in turn; medians are told, smallest to largest in brackets.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pasta.collect.ebpf.bpftrace import tracefs_command
from pasta.collect.ebpf.elf_file import ElfFile
from pasta.collect.ebpf.instructions import judged
from pasta.collect.recording import record_command
from pasta.collect.selection import Selection

ROUNDS = 7
HITS = 100_000
_END_SECONDS = 20
BEGINNINGS = {
    "push": "push %rbp; pop %rbp; ret",
    "push_r12": "push %r12; pop %r12; ret",
    "nop": "nop; ret",
    "nop_of_4": ".byte 0x0f,0x1f,0x40,0x00; ret",
    "nop_of_5": ".byte 0x0f,0x1f,0x44,0x00,0x00; ret",
    "nop_of_6": ".byte 0x66,0x0f,0x1f,0x44,0x00,0x00; ret",
    "jump": "jmp 1f; 1: ret",
    "call": "call 1f; ret; 1: ret",
    "endbr64": "endbr64; ret",
    "lea": "lea 8(%rdi),%rax; ret",
    "mov": "mov %rsp,%rax; ret",
    "sub_rsp": "sub $8,%rsp; add $8,%rsp; ret",
    "ret": "ret",
}
MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
static void usdt(void) {
  __asm__ volatile("990: nop\n.pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n"
                   ".4byte 992f-991f, 994f-993f, 3\n991: .asciz \"stapsdt\"\n992: .balign 4\n"
                   "993: .8byte 990b, 0, 0\n.asciz \"pasta\"\n.asciz \"hit\"\n.asciz \"\"\n994: .balign 4\n"
                   ".popsection\n");
}
static double of(struct timeval time) { return time.tv_sec * 1e9 + time.tv_usec * 1e3; }
int main(int count, char **arguments) {
  struct rusage before, after;
  long hits = atol(arguments[2]);
  void (*function)(void) = 0;
  for (unsigned index = 0; index < sizeof names / sizeof *names; index++)
    if (!strcmp(names[index], arguments[1])) function = functions[index];
  getrusage(RUSAGE_SELF, &before);
  for (long hit = 0; hit < hits; hit++) function();
  getrusage(RUSAGE_SELF, &after);
  double system = of(after.ru_stime) - of(before.ru_stime);
  double all = system + of(after.ru_utime) - of(before.ru_utime);
  printf("%.2f %.2f\n", all / hits, system / hits);
  return 0;
}
"""
IN_PYTHON = """
import resource, sys, time
kind, hits, told = sys.argv[1], int(sys.argv[2]), sys.argv[3]
def called():
    pass
seen = [0]
def watch(*_):
    seen[0] += 1
if kind == "pasta.annotate":
    import pasta
    def called():
        with pasta.annotate("called"):
            pass
    called()
elif kind == "sys.setprofile":
    sys.setprofile(watch)
elif kind == "sys.monitoring":
    of = sys.monitoring
    of.use_tool_id(of.PROFILER_ID, "benchmark")
    for event in (of.events.PY_START, of.events.PY_RETURN):
        of.register_callback(of.PROFILER_ID, event, watch)
    of.set_events(of.PROFILER_ID, of.events.PY_START | of.events.PY_RETURN)
before = resource.getrusage(resource.RUSAGE_SELF)
for _ in range(hits):
    called()
after = resource.getrusage(resource.RUSAGE_SELF)
sys.setprofile(None)
system = (after.ru_stime - before.ru_stime) * 1e9
spent = system + (after.ru_utime - before.ru_utime) * 1e9
with open(told, "w") as file:
    file.write(f"{spent / hits} {system / hits}")
"""


class Cost(NamedTuple):
    """ns of processor time a hit, and how much of it is the system's."""

    spent: float
    system: float


def source() -> str:
    """Return the program's source."""
    functions = [
        f'__attribute__((naked, noinline)) static void {name}(void) {{ __asm__("{code}"); }}'
        for name, code in BEGINNINGS.items()
    ]
    main = MAIN.partition("static double of")
    every = [*BEGINNINGS, "usdt"]
    names = ", ".join(f'"{name}"' for name in every)
    tables = f"static const char *names[] = {{{names}}};\n"
    tables += f"static void (*functions[])(void) = {{{', '.join(every)}}};\n"
    return "\n".join([*functions, main[0], tables, main[1] + main[2]])


@contextmanager
def watched(probe: str) -> Iterator[None]:
    """Have bpftrace count the hits of a probe, or do nothing if there is none."""
    if not probe:
        yield
        return
    script = (  # bpftrace sees that it is asked to end when the next line comes
        'interval:ms:50 { printf("ready\\n"); } ' + probe + " { @hits = count(); }"
    )
    command = [*tracefs_command(), "bpftrace", "-B", "line", "-e", script]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as bpftrace:
        assert bpftrace.stdout is not None  # noqa: S101
        while bpftrace.stdout.readline() not in ("ready\n", ""):
            pass
        yield
        bpftrace.send_signal(signal.SIGINT)
        try:
            said, _ = bpftrace.communicate(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            bpftrace.kill()
            print(f"{probe}: bpftrace did not end; whether it saw all hits is not known")
            return
        if f"@hits: {HITS}" not in said:
            raise SystemExit(f"{probe}: hits are missing: {said.split()}")


def compiled_cost(program: Path, name: str, probe: str) -> Cost:
    """Run the program once."""
    with watched(probe):
        run = [str(program), name, str(HITS)]
        said = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    return Cost(*map(float, said.split()))


def python_cost(python: str, kind: str, folder: Path) -> Cost:
    """Run the Python program once, under `pasta collect` where ranges are recorded."""
    script, told = folder / "calls.py", folder / "told"
    script.write_text(IN_PYTHON)
    command = [python, str(script), kind, str(HITS), str(told)]
    if kind == "pasta.annotate":
        with tempfile.TemporaryDirectory() as trace:
            record_command(command, Path(trace) / "t", {"torch": "operators"}, Selection())
    else:
        subprocess.run(command, check=True)
    return Cost(*map(float, told.read_text().split()))


def variants(program: Path, folder: Path, pythons: list[str]) -> dict[str, tuple[object, ...]]:
    """Return what is measured: name -> function and its arguments."""
    found: dict[str, tuple[object, ...]] = {"no probe": (compiled_cost, program, "push", "")}
    found["USDT"] = (compiled_cost, program, "usdt", f"usdt:{program}:pasta:hit")
    for name in BEGINNINGS:
        found[f"uprobe on {name}"] = (compiled_cost, program, name, f"uprobe:{program}:{name}")
    for name in ("push", "lea"):
        probe = f"uretprobe:{program}:{name}"
        found[f"uretprobe, {name}"] = (compiled_cost, program, name, probe)
    for python in dict.fromkeys([sys.executable, *pythons]):
        version = subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout
        kinds = ["nothing", "sys.setprofile"]
        kinds += (
            ["sys.monitoring"] if python != sys.executable or sys.version_info >= (3, 12) else []
        )
        kinds += ["pasta.annotate"] if python == sys.executable else []
        for kind in kinds:
            found[f"{version.strip()}: {kind}"] = (python_cost, python, kind, folder)
    return found


def main() -> None:
    """Print a line for each variant."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pythons", metavar="PYTHON", nargs="*", help="of 3.12 or newer")
    pythons = parser.parse_args().pythons
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "calls.c").write_text(source())
        program = folder / "calls"
        subprocess.run(["cc", "-O1", folder / "calls.c", "-o", program], check=True)
        chosen = variants(program, folder, pythons)
        costs: dict[str, list[Cost]] = {name: [] for name in chosen}
        for _ in range(ROUNDS):
            for name, (measure, *arguments) in chosen.items():
                costs[name].append(measure(*arguments))  # type: ignore[operator]
        elf = ElfFile(program)
        emulated = {name: judged(elf, elf.functions()[name]) for name in BEGINNINGS}
    print(f"Linux {platform.release()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    for name, values in costs.items():
        spent = [cost.spent for cost in values]
        share = sum(cost.system for cost in values) / max(sum(spent), 1e-9)
        said = {True: ", said to be emulated", False: ", said to be slow"}
        judgement = said.get(emulated.get(name.removeprefix("uprobe on ")), "")  # type: ignore[arg-type]
        print(
            f"{name}: {statistics.median(spent):.0f} ns ({min(spent):.0f} to {max(spent):.0f}),"
            f" {share:.0%} system{judgement}"
        )


if __name__ == "__main__":
    main()
