"""Times of bpftrace are right where the machine was suspended: its clock then is ahead of others."""

from __future__ import annotations

import subprocess
import sys

import polars as pl
import pytest

from pasta.trace import Trace
from tests.collect.ebpf.machine import needs_bpftrace
from tests.collect.recorded_programs import table

pytestmark = needs_bpftrace

SUSPENDED = ["unshare", "--time", "--fork", "--monotonic=-7", "--boottime=0"]
"""Gives a program clocks as if the machine had been suspended for seven seconds."""

SLEEPS = """
import os, sys, time
os.getpid()
began = time.monotonic_ns()
time.sleep(0.3)
slept = time.monotonic_ns() - began
print(slept, file=open(sys.argv[1], "w"), flush=True)
"""


def test_all_times_lie_within_the_program_s_life(tmp_path):
    if subprocess.run([*SUSPENDED, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no time namespaces here")
    pasta = [sys.executable, "-m", "pasta", "collect", "--with", "offcpu,processes,probes:events"]
    pasta += ["--slow-probes", "--probe", "uretprobe:libc.so.6:getpid", "-o", str(tmp_path / "t")]
    program = [sys.executable, "-c", SLEEPS, str(tmp_path / "slept")]
    subprocess.run([*SUSPENDED, *pasta, "--", *program], check=True, capture_output=True)
    trace = Trace.open(tmp_path / "t")
    run = table(trace, "process").sort("started").row(0, named=True)
    samples, calls = table(trace, "sample"), table(trace, "span")
    slept = int((tmp_path / "slept").read_text())
    assert samples.select(pl.col("dur").is_between(300_000_000, slept).any()).item()
    assert calls["name"].to_list().count("getpid") >= 1
    for rows in (samples, calls):
        assert rows["ts"].min() >= run["started"]
        assert (rows["ts"] + rows["dur"].fill_null(0)).max() <= run["ended"]
