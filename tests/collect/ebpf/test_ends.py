"""Collectors by bpftrace end with the program or with pasta, whatever ends these, and leave nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pasta.collect.companions.options import HostOptions
from pasta.collect.ebpf.bpftrace import TRACING, remove_probes_of, tracefs_command
from pasta.collect.recording import record_command
from pasta.collect.selection import Selection
from pasta.errors import CollectError
from pasta.trace import Trace
from tests.collect.ebpf.machine import children, needs_bpftrace, of_bpftrace

pytestmark = needs_bpftrace

WITH = {
    "offcpu": [],
    "processes": [],
    "probes": ["--slow-probes", "--probe", "uretprobe:libc.so.6:getpid"],
}
PROGRAM = """
import time
print("runs", flush=True)
time.sleep(600)
"""


@pytest.fixture(params=WITH)
def recording(request, tmp_path):
    """A recording of a program that sleeps, as (pasta, the program's id, ids of bpftrace)."""
    command = [sys.executable, "-m", "pasta", "collect", "--with", request.param]
    command += [*WITH[request.param], "-o", "t", "--"]
    with subprocess.Popen(
        [*command, sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as pasta:
        assert pasta.stdout is not None
        assert pasta.stdout.readline() == "runs\n"
        (program,) = children(pasta.pid, "python")
        yield pasta, program, children(pasta.pid, "bpftrace")
        if Path(f"/proc/{program}").exists():
            os.kill(program, signal.SIGKILL)


def gone(pids: set[int]) -> bool:
    until = time.monotonic() + 300
    while of_bpftrace() & pids and time.monotonic() < until:
        time.sleep(0.05)
    return not of_bpftrace() & pids


def mounts() -> list[str]:
    """What is mounted here, but for network namespaces, which other tests make meanwhile."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [line for line in lines if "/netns" not in line]


def test_when_the_program_is_killed(recording, tmp_path):
    pasta, program, pids = recording
    mounted = mounts()
    assert pids
    os.kill(program, signal.SIGKILL)
    assert pasta.wait(300) == 128 + signal.SIGKILL
    assert gone(pids)
    assert mounts() == mounted
    trace = Trace.open(tmp_path / "t")
    assert trace.info["state"] == "complete"
    assert trace.info["ended"] == "signal 9 (SIGKILL)"


def test_when_pasta_is_killed(recording):
    pasta, program, pids = recording
    assert pids
    os.kill(pasta.pid, signal.SIGKILL)
    pasta.wait(300)
    assert gone(pids)
    assert Path(f"/proc/{program}").exists()


@pytest.fixture
def own_probes():
    """What reads and writes the kernel's list of probes: a shell's command on its file."""

    def run(command: str) -> str:
        shell = [*tracefs_command(), "sh", "-c", command, str(TRACING / "uprobe_events")]
        return subprocess.run(shell, check=True, capture_output=True, text=True).stdout

    return run


def test_what_bpftrace_leaves_of_a_probe_that_the_kernel_refuses_is_removed(own_probes):
    kept, left = "pasta_test_bcc_11", "pasta_test_bcc_1"
    for name in (kept, left):
        own_probes(f'echo "p:uprobes/{name} /bin/true:0x1000" >> "$0"')
    try:
        remove_probes_of(1)
        listed = own_probes('cat "$0"')
        assert kept in listed
        assert f"{left} " not in listed
    finally:
        remove_probes_of(11)
    assert "pasta_test" not in own_probes('cat "$0"')


def test_where_a_probe_cannot_be_set_nothing_is_left(own_probes, tmp_path):
    """A return probe on a function of which the kernel refuses the first instruction, as some do."""
    before = own_probes('cat "$0"')
    options = HostOptions(probes=("uretprobe:libc.so.6:pthread_spin_lock",), slow_probes=True)
    with contextlib.suppress(CollectError):  # other kernels set it
        chosen = {"probes": "counts"}
        record_command(["true"], tmp_path / "t", chosen, Selection(host=options))
    assert own_probes('cat "$0"') == before


def test_when_bpftrace_is_killed(recording, tmp_path):
    pasta, program, pids = recording
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    os.kill(program, signal.SIGTERM)
    assert pasta.wait(300) == 128 + signal.SIGTERM
    losses = Trace.open(tmp_path / "t").scan("loss").collect()
    assert any("bpftrace" in reason for reason in losses["reason"])
