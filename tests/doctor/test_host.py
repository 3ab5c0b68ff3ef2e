"""What watches programs from beside them, and what is said where it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from pasta.collect.companions.cpu.rungs import Rung
from pasta.doctor import host, recording
from pasta.doctor.check import Status


def test_a_program_works_is_limited_or_missing():
    works = host.program("perf", Rung("/no/perf"), "samples")
    limited = host.program("perf", Rung("/no/perf", "may not", "sysctl x"), "samples")
    missing = host.program("perf", Rung("", "no perf on PATH", "install it"), "samples")
    assert [check.status for check in (works, limited, missing)] == [
        Status.OK,
        Status.LIMITED,
        Status.MISSING,
    ]
    assert limited.advice == "gives samples: sysctl x"


@pytest.mark.parametrize(
    ("check", "status", "advice"),
    [
        (host.kernel_samples(allowed=True), Status.OK, ""),
        (host.kernel_samples(allowed=False), Status.LIMITED, "CAP_PERFMON"),
        (host.hardware_counters(there=True), Status.OK, ""),
        (host.hardware_counters(there=False), Status.MISSING, "bare metal"),
        (host.bpftrace(None, root=True), Status.MISSING, "install bpftrace"),
        (host.bpftrace("/no/bpftrace", root=False), Status.LIMITED, "sudo"),
        (host.bpftrace("/no/bpftrace", root=True), Status.OK, ""),
        (host.tracefs((Path("/sys/kernel/tracing"),)), Status.OK, ""),
        (host.tracefs(()), Status.MISSING, "mount -t tracefs"),
        (host.btf(there=True), Status.OK, ""),
        (host.btf(there=False), Status.MISSING, "headers"),
    ],
)
def test_what_the_kernel_allows(check, status, advice):
    assert check.status is status
    assert advice in check.advice


def test_all_are_looked_at_here():
    names = [check.name for check in host.checks()]
    assert names[:2] == ["perf", "py-spy"]
    assert names[-3:] == ["bpftrace", "tracefs", "BTF"]


WORKS, LACKS = Rung("/bin/x"), Rung("", "no x", "install x")


@pytest.mark.parametrize(
    ("rungs", "status", "levels"),
    [
        ((WORKS, WORKS, WORKS), Status.OK, ["python (", "pyspy (", "fp (", "dwarf ("]),
        ((WORKS, LACKS, WORKS), Status.LIMITED, ["python (", "fp (", "dwarf ("]),
        ((LACKS, WORKS, LACKS), Status.LIMITED, ["pyspy ("]),
        ((LACKS, LACKS, LACKS), Status.MISSING, []),
    ],
)
def test_the_levels_of_cpu_and_what_they_lose(monkeypatch, rungs, status, levels):
    own, pyspy, perf = rungs
    monkeypatch.setattr(recording, "sampler_rung", lambda: own)
    monkeypatch.setattr(recording, "pyspy_rung", lambda: pyspy)
    monkeypatch.setattr(recording, "perf_rung", lambda: perf)
    check = recording._cpu()
    assert check.status is status
    every = ["python (", "pyspy (", "fp (", "dwarf ("]
    assert [level for level in every if level in check.found] == levels
    assert ("no x; install x" in check.advice) is (status is Status.LIMITED)
