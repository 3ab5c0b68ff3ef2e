from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time

import polars as pl
import pytest

import pasta
from pasta.errors import CollectError, TraceError
from pasta.trace import Trace

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

from pasta.collect.torch import record  # noqa: E402

pytestmark = pytest.mark.torch


def wait_for_trace(path) -> Trace:
    """The trace, once its writer has completed it."""
    for _ in range(3000):
        trace = Trace.open(path)
        if trace.info["state"] == "complete":
            return trace
        time.sleep(0.01)
    raise AssertionError("the trace was not completed")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trace"


def test_a_block_becomes_a_trace_of_operators_and_steps(path):
    with record("run1", path) as recorder:
        for number in range(2):
            recorder.step()
            torch.ones(number + 1)
    trace = recorder.trace()
    spans = trace.scan("span").collect().sort("span_id")
    assert spans.select("level", "name").rows() == [
        ("run", "run1"),
        ("step", "step 0"),
        ("operator", "aten::ones"),
        ("step", "step 1"),
        ("operator", "aten::ones"),
    ]
    assert trace.scan("touch").collect().sort("span_id")["bytes_written"].to_list() == [4, 8]
    assert (trace.info["state"], trace.info["ended"]) == ("complete", "exit 0")
    assert trace.info["collectors"][0]["name"] == "torch:touch"


def test_an_exception_ends_the_trace_and_passes_on(path):
    @pasta.annotate("open")
    def fail() -> None:
        torch.ones(3)
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"), record("run1", path):
        fail()
    trace = Trace.open(path)
    assert (trace.info["state"], trace.info["ended"]) == ("complete", "ValueError")
    table = trace.scan("span").collect()
    assert set(table["name"]) == {"run1", "step 0", "open", "aten::ones"}
    assert table["dur"].null_count() == 0


def test_a_trace_that_cannot_be_written_is_a_warning(path):
    def run() -> None:
        with record("run1", path):
            shutil.rmtree(path)
            path.touch()
            torch.ones(1)

    with pytest.warns(UserWarning, match="incomplete, as it could not be written"):
        run()


def test_a_writer_that_is_killed_is_a_warning_and_the_program_goes_on(path):
    def run() -> None:
        with record("run1", path) as recorder:
            os.kill(recorder._attendant.pid, signal.SIGKILL)
            assert (torch.ones(2) + 1).tolist() == [2, 2]

    with pytest.warns(UserWarning, match="trace is incomplete: its writer ended with -9"):
        run()
    assert Trace.open(path).info["state"] == "recording"


def test_the_writer_does_not_wait_for_children_that_go_on(path):
    with record("run1", path):
        descriptors = os.pipe()
        forked = os.fork()
        if forked == 0:  # it holds the writer's input open
            os.read(descriptors[0], 1)
            os._exit(0)
        torch.ones(1)
    assert Trace.open(path).info["ended"] == "exit 0"
    os.write(descriptors[1], b"x")
    os.waitpid(forked, 0)


def test_one_recording_at_a_time(path, tmp_path):
    second = record("run2", tmp_path / "other")
    with record("run1", path), pytest.raises(CollectError, match="recorded already"):
        second.__enter__()
    with record("run2", tmp_path / "other"):
        pass


def test_a_folder_that_holds_something_is_refused(path):
    path.mkdir()
    (path / "mine").touch()
    with pytest.raises(TraceError, match="already exists"), record("run1", path):
        pass
    assert [file.name for file in path.iterdir()] == ["mine"]


def test_an_unknown_level_is_refused(path):
    with pytest.raises(CollectError, match="Did you mean 'touch'"), record("x", path, level="tuch"):
        pass
    assert not path.exists()


def test_the_folder_is_named_after_the_run_and_shared_by_its_ranks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with record("run1") as recorder:
        torch.ones(1)
    assert recorder.path == tmp_path / "pasta-run1"
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("1", "0"):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("RANK", rank)
        with record("run2") as recorder:
            torch.ones(1)
            monkeypatch.chdir("/")
        assert recorder.path == tmp_path / "pasta-run2"
        state = "recording" if rank == "1" else "complete"
        assert recorder.trace().info["state"] == state
    trace = recorder.trace()
    assert trace.info["ranks"] == [0, 1]
    for table in trace.tables():
        assert trace.scan(table).collect()["rank"].unique().sort().to_list() == [0, 1]
    assert trace.scan("process").collect()["world_size"].to_list() == [2, 2]
    with pytest.raises(TraceError, match="rank 0 is there already"), record("run2", recorder.path):
        pass


def test_what_is_known_of_process_thread_and_clock(path):
    with record("run1", path) as recorder:
        torch.ones(1)
    process = recorder.trace().scan("process").collect().row(0, named=True)
    assert process["pid"] == os.getpid()
    assert f"torch {torch.__version__}" in process["framework"]
    run = (
        recorder.trace().scan("span").filter(pl.col("level") == "run").collect().row(0, named=True)
    )
    assert process["started"] <= run["ts"] < run["ts"] + run["dur"] <= process["ended"]
    thread = recorder.trace().scan("thread").collect().row(0, named=True)
    assert (thread["tid"], thread["name"]) == (threading.get_native_id(), "MainThread")
    assert recorder.trace().info["clock"]["name"] == "CLOCK_MONOTONIC"


def test_a_killed_program_leaves_what_had_been_written(tmp_path):
    program = textwrap.dedent(
        """
        import os, sys, signal, time, torch
        from pasta.collect.torch import record
        with record("run1", sys.argv[1]) as recorder:
            torch.ones(1)
            torch.zeros(1)
            while any(map(len, recorder.session._tables)):
                time.sleep(0.01)
            recorder.session._flushing.acquire()
            torch.full((1,), 2.0)
            os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    arguments = ["-c", program, str(tmp_path / "trace")]
    ended = subprocess.run([sys.executable, *arguments], check=False)
    assert ended.returncode == -9
    trace = wait_for_trace(tmp_path / "trace")
    assert trace.info["ended"] == "the program ended without leaving the recorded block"
    operators = trace.scan("span").filter(pl.col("level") == "operator").collect()
    assert operators["name"].to_list() == ["aten::ones", "aten::zeros"]
    assert trace.rows("touch") == 2


def test_a_forked_child_leaves_the_trace_alone(tmp_path):
    program = textwrap.dedent(
        """
        import os, sys, torch
        from pasta.collect.torch import record
        with record("run1", sys.argv[1]):
            torch.ones(1)
            child = os.fork()
            torch.zeros(1)
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        """
    )
    arguments = ["-W", "ignore", "-c", program, str(tmp_path / "trace")]
    subprocess.run([sys.executable, *arguments], check=True)
    trace = Trace.open(tmp_path / "trace")
    table = trace.scan("span").filter(pl.col("level") == "operator").collect()
    assert table["name"].to_list() == ["aten::ones", "aten::zeros"]
    assert trace.info["ended"] == "exit 0"
