"""The live view draws on a terminal only, follows as far as it can, and fails alone."""

from __future__ import annotations

import io
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from pasta import api
from pasta.pipeline.engines.cpu import CpuEngine
from pasta.pipeline.live import LiveGraph
from pasta.tools import live_view
from pasta.tools.live_report import Status
from pasta.tools.live_view import LiveView
from tests.tools.screen import Terminal

STATUS = Status(3.0, {"kernel": 5}, 0, {}, 0.0, 1)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(live_view, "REFRESH_SECONDS", 0.01)
    monkeypatch.setattr(live_view, "_END_SECONDS", 60)
    made = Terminal(120, 24)
    yield made
    made.close()


def live_graph() -> LiveGraph:
    return LiveGraph(*api.check("kernel_frequency"), CpuEngine())


def kernels(*names: str) -> pa.Table:
    return pa.table({"name": list(names), "dur": pa.array([1] * len(names), pa.int64())})


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def stream_of(terminal: Terminal) -> io.TextIOWrapper:
    return os.fdopen(os.dup(terminal.programs), "w")


def test_the_view_shows_what_arrived_and_leaves_no_trace(terminal):
    terminal.program_prints("before\n")
    with stream_of(terminal) as stream, LiveView(live_graph(), "r", stream) as shown:
        shown.offer("kernel", kernels("gemm", "relu", "gemm"))
        shown.watch(lambda: STATUS)
        until(lambda: any("gemm" in line for line in terminal.shown()))
        terminal.program_prints("meanwhile\n")
        assert terminal.shown()[:3] == ["before", "meanwhile", ""]
        until(lambda: terminal.shown()[12].startswith("pasta 3 s  1 process"))
    assert terminal.shown() == ["before", "meanwhile", *[""] * 22]
    assert shown.failure == ""


def test_open_spans_do_not_count_until_they_end(terminal, tmp_path):
    tool = tmp_path / "spans.yaml"
    tool.write_text(
        "version: 1\ntool: spans\nabout: Spans.\ninputs: {spans: {table: span}}\n"
        "stages: {all: {use: aggregate, from: spans, measures: {spans: count(*)}}}\n"
        "report: [{facts: all}]\n"
    )
    live = LiveGraph(*api.check(str(tool)), CpuEngine())
    with stream_of(terminal) as stream, LiveView(live, "r", stream) as shown:
        shown.offer("span", pa.table({"dur": pa.array([None, 4, None], pa.int64())}))
        shown.watch(lambda: STATUS)
        until(lambda: any(line == "spans 1" for line in terminal.shown()))


def test_without_a_terminal_nothing_is_written_or_kept():
    stream = io.StringIO()
    with LiveView(live_graph(), "r", stream) as shown:
        shown.offer("kernel", kernels("a"))
        shown.watch(lambda: pytest.fail("nobody looks"))
    assert not shown.on
    assert shown._waiting == []
    assert stream.getvalue() == ""


def test_a_dumb_terminal_is_left_alone(terminal, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    with stream_of(terminal) as stream, LiveView(None, "r", stream) as shown:
        shown.watch(lambda: pytest.fail("nobody looks"))
    assert terminal.shown() == [""] * 24


def test_a_failure_ends_the_view_with_one_line(terminal):
    broken = pa.table({"name": pa.array([1, 2], pa.int64())})
    with stream_of(terminal) as stream, LiveView(live_graph(), "r", stream) as shown:
        shown.watch(lambda: STATUS)
        shown.offer("kernel", broken)
        until(lambda: any("live view off" in line for line in terminal.shown()))
        shown.offer("kernel", kernels("a"))
        shown.watch(lambda: pytest.fail("nobody looks"))
    text = "".join(terminal.shown())
    assert text.startswith("pasta: live view off: ")
    assert text.endswith("; the recording goes on")
    assert shown.failure
    assert shown._waiting == []


def test_rows_that_come_too_fast_are_left_out_and_counted(terminal, monkeypatch):
    monkeypatch.setattr(live_view, "MOST_WAITING_ROWS", 3)
    monkeypatch.setattr(live_view, "REFRESH_SECONDS", 60)
    with stream_of(terminal) as stream, LiveView(live_graph(), "r", stream) as shown:
        for _ in range(4):
            shown.offer("kernel", kernels("a", "b"))
    assert sum(rows.num_rows for _, rows in shown._waiting) == 4
    assert shown.left_out == 4


def test_signals_are_left_to_the_other_threads(terminal):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with stream_of(terminal) as stream, LiveView(None, "r", stream):
        thread = next(t for t in threading.enumerate() if t.name == "pasta view")
        status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
        blocked = int(status.partition("SigBlk:")[2].split()[0], 16)
        assert blocked & 1 << (signal.SIGTERM - 1)
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
