"""perf sees where a program's time goes, of all its processes, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from pasta.collect.companions.cpu.rungs import may_see_kernel, perf_rung
from pasta.collect.recording import record_command
from pasta.collect.selection import Selection
from pasta.errors import CollectError
from pasta.trace import Trace
from tests.collect.companions.cpu.sampled_programs import (
    assert_split,
    await_end,
    child_of,
    processor_ticks,
    sampled,
    split_program,
    weight_of,
)
from tests.collect.recorded_programs import ROOT, losses, python, table

FREQUENCY = 997
PERIOD = 1e9 / FREQUENCY


@pytest.fixture(scope="module", autouse=True)
def _perf():
    if lacks := perf_rung().lacks:
        pytest.skip(lacks)


@pytest.fixture(scope="module")
def split(tmp_path_factory):
    return split_program(tmp_path_factory.mktemp("split"))


@pytest.fixture(scope="module")
def split_trace(split, tmp_path_factory):
    """The split program, sampled once for several tests."""
    out = tmp_path_factory.mktemp("traces") / "t"
    return sampled([split, "1.2"], out, "fp", frequency=FREQUENCY)


def test_time_is_where_the_program_spends_it(split_trace):
    assert_split(split_trace[1], PERIOD)


def test_the_samples_add_up_to_the_time_on_the_cpu(split_trace):
    weight = weight_of(split_trace[1], "main")
    assert 1.1e9 < weight < 1.35e9


def test_times_are_on_the_trace_s_clock(split_trace):
    process = table(split_trace[1], "process").row(0, named=True)
    samples = table(split_trace[1], "sample")
    assert process["started"] <= samples["ts"].min()
    assert samples["ts"].max() <= process["ended"]
    assert set(samples["pid"]) == {process["pid"]}
    assert process["exit_code"] == 0


def test_the_outermost_frame_comes_first(split_trace):
    frames = table(split_trace[1], "frame")
    main, heavy = (frames.filter(pl.col("function") == name) for name in ("main", "heavy"))
    depths = main.join(heavy, on=["pid", "stack_id"], suffix="_of_heavy")
    assert depths.height > 0
    assert (depths["depth_of_heavy"] == depths["depth"] + 1).all()


def test_the_trace_says_what_it_misses(split_trace):
    manifest = json.loads((split_trace[0].path / "trace.json").read_text())
    (collector,) = manifest["collectors"]
    assert collector["name"] == "cpu:fp"
    assert collector["frequency"] == FREQUENCY
    assert collector["kernel"] is may_see_kernel()
    assert any("frame pointers" in line for line in collector["misses"])


def test_children_are_sampled_from_their_beginning(split, tmp_path):
    command = ["sh", "-c", f"{split} 0.3 & {split} 0.3; wait"]
    _, trace = sampled(command, tmp_path / "t", "fp", frequency=FREQUENCY)
    by_process = table(trace, "sample").group_by("pid").agg(pl.col("weight").sum())
    assert by_process.filter(pl.col("weight") > 0.2e9).height == 2
    parents = dict(table(trace, "process").select("pid", "parent_pid").rows())
    shell = table(trace, "process").filter(pl.col("parent_pid") == os.getpid())["pid"][0]
    assert list(parents.values()).count(shell) == 2


def test_samples_stand_beside_what_other_collectors_record(tmp_path):
    source = """
    import time, pasta
    with pasta.annotate("region"):
        end = time.process_time() + 0.3
        while time.process_time() < end: pass
    """
    chosen = {"torch": "operators", "cpu": "fp"}
    done = record_command(python(source), tmp_path / "t", chosen, Selection())
    trace = Trace.open(done.path)
    region = table(trace, "span").filter(pl.col("name") == "region").row(0, named=True)
    inside = table(trace, "sample").filter(
        pl.col("ts").is_between(region["ts"], region["ts"] + region["dur"])
    )
    assert set(inside["pid"]) == {region["pid"]}
    assert inside["weight"].sum() > 0.2e9
    assert table(trace, "process").height == 1
    assert table(trace, "process")["framework"][0].startswith("python 3.")


def test_dwarf_unwinds_without_frame_pointers(tmp_path):
    without = split_program(tmp_path)
    source = Path(without).with_suffix(".c")
    options = ["-O1", "-g", "-fomit-frame-pointer", "-fno-inline-functions"]
    subprocess.run(["cc", *options, source, "-o", without], check=True)
    _, trace = sampled([without, "0.5"], tmp_path / "t", "dwarf", frequency=499)
    told = table(trace, "sample")["weight"].sum()
    assert weight_of(trace, "main") > 0.7 * told
    # perf copies whole stacks, and says what it had no time for.
    assert told > 0.35e9 or losses(trace)
    assert_split(trace, 1e9 / 499)


def test_events_are_kinds_of_their_own(split, tmp_path):
    _, trace = sampled([split, "0.05"], tmp_path / "t", "fp", events=("page-faults@1:faults",))
    faults = table(trace, "sample").filter(pl.col("kind") == "page-faults")
    assert faults.height > 20
    assert set(faults["weight"]) == {1.0}
    manifest = json.loads((tmp_path / "t" / "trace.json").read_text())
    assert manifest["collectors"][0]["events"] == {"page-faults": "faults"}


def test_tracepoints_are_sampled_where_that_is_allowed(split, tmp_path):
    if not may_see_kernel() or not Path("/sys/kernel/tracing/events").exists():
        pytest.skip("tracepoints are not allowed here, or tracefs is not mounted")
    event = "syscalls:sys_enter_exit_group"
    _, trace = sampled([split, "0.05"], tmp_path / "t", "fp", events=(event,))
    hits = table(trace, "sample").filter(pl.col("kind") == event)
    assert hits["weight"].to_list() == [1.0]


def test_an_unknown_event_is_refused_by_perf_before_the_program_begins(tmp_path):
    with pytest.raises(CollectError, match=r"--with cpu.*no-such-event"):
        sampled(["touch", f"{tmp_path}/begun"], tmp_path / "t", "fp", events=("no-such-event",))
    assert not (tmp_path / "begun").exists()


@pytest.mark.parametrize("ending", ["kill -KILL $$", "exit 3"])
def test_what_was_sampled_before_the_end_is_kept(split, tmp_path, ending):
    command = ["sh", "-c", f"{split} 0.3; {ending}"]
    done, trace = sampled(command, tmp_path / "t", "fp", frequency=FREQUENCY)
    assert done.end.code in (3, -signal.SIGKILL)
    assert weight_of(trace, "main") > 0.2e9
    assert not any("can lose" in reason for reason in losses(trace))  # perf loses nothing of it


def test_a_program_that_never_runs_on_the_cpu_has_no_samples(tmp_path):
    done, trace = sampled(["sleep", "0.1"], tmp_path / "t", "fp", frequency=1)
    assert str(done.end) == "exit 0"
    assert table(trace, "sample").height == 0
    assert losses(trace) == {}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_perf_ends_with_pasta(split, tmp_path, number):
    """Interrupted, pasta keeps the trace; killed, it cannot, but perf does not outlive it."""
    pasta = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "pasta",
            "collect",
            "--with",
            "cpu:fp",
            "-o",
            "t",
            "--",
            split,
            "60",
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.DEVNULL,
    )
    program = child_of(pasta.pid, "split")
    perf = child_of(pasta.pid, "perf")
    while processor_ticks(program) < 20:  # of a hundredth of a second: time for samples
        time.sleep(0.01)
    pasta.send_signal(number)
    pasta.wait(timeout=120)
    if number == signal.SIGINT:
        assert '"state": "complete"' in (tmp_path / "t" / "trace.json").read_text()
        assert list((tmp_path / "t" / "sample").glob("*.parquet"))
    else:
        os.kill(program, signal.SIGKILL)  # it goes on, as without pasta
    await_end(perf)
    assert not list(Path("/tmp").glob(f"perf-{program}.map"))
