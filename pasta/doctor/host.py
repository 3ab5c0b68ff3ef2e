"""What watches programs from beside them: perf, py-spy, bpftrace, and what each needs of the kernel."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from pasta.collect.companions.cpu.rungs import Rung, may_see_kernel, perf_rung, pyspy_rung
from pasta.doctor import versions
from pasta.doctor.check import Check, Status
from pasta.doctor.facts import text_of

PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
TRACEFS = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
BTF = Path("/sys/kernel/btf/vmlinux")
_COUNTERS = (
    Path("/sys/bus/event_source/devices/cpu"),
    Path("/sys/bus/event_source/devices/cpu_core"),
)


def checks() -> Iterator[Check]:
    """Yield how each stands."""
    perf = perf_rung()
    yield program("perf", perf, "samples of cpu:fp and cpu:dwarf, of any program")
    yield program("py-spy", pyspy_rung(), "samples of cpu:pyspy, of Python's functions")
    if not perf.lacks:
        yield kernel_samples(allowed=may_see_kernel())
        yield hardware_counters(there=any(folder.exists() for folder in _COUNTERS))
    yield bpftrace(shutil.which("bpftrace"), root=os.geteuid() == 0)
    yield tracefs(tuple(folder for folder in TRACEFS if (folder / "events").is_dir()))
    yield btf(there=BTF.exists())


def program(name: str, rung: Rung, gives: str) -> Check:
    """Check a program that samples.

    Args:
        name: the program.
        rung: what was found of it.
        gives: what it is good for.
    """
    if rung.lacks:
        status = Status.LIMITED if rung.path else Status.MISSING
        return Check(status, name, rung.lacks, f"gives {gives}: {rung.advice}")
    return Check(Status.OK, name, f"{rung.path} {versions.of_program(rung.path)}".strip())


def kernel_samples(*, allowed: bool) -> Check:
    """Check whether perf may look into the kernel."""
    if allowed:
        return Check(Status.OK, "perf in the kernel", "kernel stacks and tracepoints are allowed")
    return Check(
        Status.LIMITED,
        "perf in the kernel",
        f"user code only (perf_event_paranoid {text_of(PARANOID).strip() or 'unknown'})",
        "for kernel stacks: root, CAP_PERFMON, or sysctl kernel.perf_event_paranoid=1"
        " (-1 for tracepoints)",
    )


def hardware_counters(*, there: bool) -> Check:
    """Check whether the CPU's counters reach this machine."""
    if there:
        return Check(Status.OK, "counters of the CPU", "perf can count cycles, instructions, ...")
    return Check(
        Status.MISSING,
        "counters of the CPU",
        "no PMU of the CPU, as in many virtual machines",
        "cpu samples by the clock; --event cycles and the like need bare metal, or a virtual PMU",
    )


def bpftrace(path: str | None, *, root: bool) -> Check:
    """Check whether BPF programs can be attached."""
    name, gives = "bpftrace", "gives off-CPU time, the process tree, probes"
    if path is None:
        return Check(
            Status.MISSING, name, "no bpftrace on PATH", f"{gives}: apt-get install bpftrace"
        )
    found = f"{path} {versions.of_program(path)}".strip()
    if not root:
        return Check(Status.LIMITED, name, f"{found}, but this user is not root", f"{gives}: sudo")
    return Check(Status.OK, name, found)


def tracefs(mounted: tuple[Path, ...]) -> Check:
    """Check whether the kernel's tracepoints can be looked up."""
    if mounted:
        return Check(Status.OK, "tracefs", f"mounted at {mounted[0]}")
    return Check(
        Status.MISSING,
        "tracefs",
        f"not mounted at {TRACEFS[0]}, or not readable",
        "tracepoints are looked up there: mount -t tracefs none /sys/kernel/tracing, as root",
    )


def btf(*, there: bool) -> Check:
    """Check whether the kernel tells the types of its structures."""
    if there:
        return Check(Status.OK, "BTF", str(BTF))
    return Check(
        Status.MISSING,
        "BTF",
        f"no {BTF}",
        "bpftrace then needs the kernel's headers for scripts that read its structures",
    )
