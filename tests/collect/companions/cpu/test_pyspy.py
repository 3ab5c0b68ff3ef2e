"""py-spy sees the functions of every Python of a command."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time

import polars as pl
import pytest

from pasta.collect.companions.cpu.rungs import pyspy_rung
from pasta.errors import CollectError
from tests.collect.companions.cpu.sampled_programs import (
    SPLIT_PY,
    assert_split,
    await_end,
    children_of,
    command_line,
    processor_ticks,
    sampled,
    weight_of,
)
from tests.collect.recorded_programs import ROOT, losses, table

FREQUENCY = 200


@pytest.fixture(autouse=True)
def _pyspy():
    if lacks := pyspy_rung().lacks:
        pytest.skip(lacks)


def python(source: str) -> list[str]:
    return [sys.executable, "-c", SPLIT_PY + source]


def test_time_is_where_the_program_spends_it(tmp_path):
    done, trace = sampled(python("work(2)"), tmp_path / "t", "pyspy", frequency=FREQUENCY)
    assert done.exit_code == 0
    assert_split(trace, 1e9 / FREQUENCY, slack=0.03)
    assert set(table(trace, "frame")["language"]) == {"python"}
    process = table(trace, "process").row(0, named=True)
    assert set(table(trace, "sample")["pid"]) == {process["pid"]}


def test_children_of_a_program_that_is_no_python_are_seen(tmp_path):
    command = [
        "sh",
        "-c",
        f"{shlex.join(python('work(2)'))}; {shlex.join(python('heavy(2)'))}; true",
    ]
    _, trace = sampled(command, tmp_path / "t", "pyspy", frequency=FREQUENCY)
    assert table(trace, "sample")["pid"].n_unique() == 2
    shell = table(trace, "process").filter(pl.col("exit_code") == 0)["pid"][0]
    assert set(table(trace, "process")["parent_pid"]) > {shell}
    assert weight_of(trace, "heavy") > weight_of(trace, "light") > 0


def test_native_frames_are_joined_with_those_of_python(tmp_path):
    source = "import zlib; data = bytes(10_000_000)\nfor _ in range(100): zlib.compress(data, 9)"
    _, trace = sampled(python(source), tmp_path / "t", "pyspy", frequency=50, native=True)
    frames = table(trace, "frame")
    python_ones = frames.filter(pl.col("language") == "python")
    native = frames.filter(pl.col("library") != "")
    both = python_ones.join(native, on=["pid", "stack_id"])
    assert (both["depth_right"] > both["depth"]).any()


def test_threads_that_wait_for_a_cpu_make_sums_too_large_and_that_is_told(tmp_path):
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("a program cannot be bound to one CPU here")
    source = """
import os, subprocess
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
busy = "while True: pass"
others = [subprocess.Popen([sys.executable, "-c", busy]) for _ in range(4)]
heavy(1)
for other in others: other.kill(); other.wait()
"""
    _, trace = sampled(python(source), tmp_path / "t", "pyspy", frequency=50)
    assert any("waited for a CPU" in reason for reason in losses(trace))


def test_waiting_threads_are_seen_only_when_asked_for(tmp_path):
    source = """
import threading
def waits():
    time.sleep(3)
thread = threading.Thread(target=waits, name="waiter"); thread.start()
work(2); thread.join()
"""
    _, without = sampled(python(source), tmp_path / "a", "pyspy", frequency=50)
    _, trace = sampled(python(source), tmp_path / "b", "pyspy", frequency=50, idle=True)
    assert weight_of(trace, "waits") > weight_of(without, "waits")
    assert "waiter" in table(trace, "thread")["name"].to_list()


def test_a_command_without_a_python_is_told(tmp_path):
    done, trace = sampled(["sleep", "0.1"], tmp_path / "t", "pyspy")
    assert str(done.end) == "exit 0"
    reason = "no Python process was found: nothing was sampled"
    assert list(losses(trace)) == [reason]
    assert list(done.notes) == [f"cpu: {reason}"]


def test_events_are_for_perf(tmp_path):
    with pytest.raises(CollectError, match="goes with perf"):
        sampled(["true"], tmp_path / "t", "pyspy", events=("cycles",))


def test_py_spy_ends_with_pasta_and_the_program_goes_on(tmp_path):
    begun = tmp_path / "begun"
    source = "import pathlib; heavy(1); pathlib.Path('begun').touch(); heavy(60)"
    collect = [sys.executable, "-m", "pasta", "collect", "--with", "cpu:pyspy", "-o", "t", "--"]
    pasta = subprocess.Popen(
        [*collect, *python(source)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.DEVNULL,
    )
    while not begun.exists():
        assert pasta.poll() is None
        time.sleep(0.05)
    children = children_of(pasta.pid)
    (program,) = (pid for pid in children if b"heavy" in command_line(pid))
    (watch,) = (pid for pid in children if b"pyspy_watch" in command_line(pid))
    (pyspy,) = children_of(watch)
    pasta.kill()
    pasta.wait()
    await_end(watch)
    await_end(pyspy)
    spent = processor_ticks(program)
    while processor_ticks(program) == spent:  # hangs where it was left stopped
        time.sleep(0.05)
    os.kill(program, signal.SIGKILL)
