from __future__ import annotations

import os
import shutil
import time

import polars as pl
import pytest

from pasta.collect import receive
from pasta.collect.channel import Channel
from pasta.collect.channel_ring import FULL
from pasta.collect.receive import Receiver
from pasta.collect.wire import WIRE_TABLES
from pasta.trace import Trace
from pasta.trace_writer import TraceWriter
from tests.collect.wire_help import Writer

SPAN = ("tid", "ts", "dur", "span_id", "parent_id", "level", "name")
PID = os.getpid()


class Recording:
    """A channel, its receiver, and the trace that it fills."""

    def __init__(self, folder, *, slots: int = 64, block_seconds: float = 0.1) -> None:
        self.path = folder / "trace"
        self._trace = TraceWriter(self.path, {})
        self.channel = Channel.create(
            "receive",
            slots=slots,
            slot_bytes=1 << 14,
            tables=WIRE_TABLES,
            block_seconds=block_seconds,
        )
        self.now = 1000
        self.receiver = Receiver(self.channel, self.path, lambda: self.now)

    def receive(self) -> None:
        while self.receiver.receive(0):
            pass

    def finish(self, **exit_codes: int) -> Trace:
        """Complete the trace; exit codes by `pid_N`."""
        self.receive()
        codes = {int(name.removeprefix("pid_")): code for name, code in exit_codes.items()}
        ranks = self.receiver.finish(codes)
        self._trace.finish(ranks=ranks)
        return Trace.open(self.path)


@pytest.fixture
def recording(tmp_path):
    made = Recording(tmp_path)
    yield made
    made.channel.close()


def test_each_rank_has_a_folder_and_keeps_its_rows_apart(recording):
    for rank in (0, 3):
        writer = Writer(recording.channel, rank)
        rows = [(1, ts, 5, ts + 1, 0, "step", f"step {ts} of {rank}") for ts in range(4)]
        writer.write("span", SPAN, rows)
    trace = recording.finish()
    assert trace.info["ranks"] == [0, 3]
    spans = trace.scan("span").collect()
    assert spans.group_by("rank").len().sort("rank").rows() == [(0, 4), (3, 4)]
    assert set(spans["pid"]) == {PID}
    for row in spans.iter_rows(named=True):
        assert row["name"] == f"step {row['ts']} of {row['rank']}"
    for rank in (0, 3):
        one_rank = trace.path / f"rank-0000{rank}" / "span"
        assert pl.read_parquet(one_rank / "*.parquet")["rank"].unique().to_list() == [rank]


def test_rows_are_sorted_whatever_order_they_came_in(recording):
    writer = Writer(recording.channel, 0)
    for ts in (30, 10, 20):
        writer.write("span", SPAN, [(1, ts, 1, ts, 0, "step", str(ts))])
        recording.receive()
    assert recording.finish().scan("span").collect()["name"].to_list() == ["10", "20", "30"]


def test_rows_of_one_process_thread_or_device_become_one(recording):
    writer = Writer(recording.channel, 0)
    columns = ("parent_pid", "host", "command", "started", "ended", "framework")
    writer.write("process", columns, [(1, "h", "c", 10, None, "python")])
    writer.write("thread", ("tid", "name"), [(7, "first"), (8, "other")])
    recording.receive()
    writer.write("process", columns, [(1, "h", "c", 10, None, "torch; python")])
    writer.write("thread", ("tid", "name"), [(7, "renamed"), (7, None)])
    writer.write(
        "device", ("device", "name", "cache_bytes"), [(0, "a", 5), (0, None, 6), (1, "b", 7)]
    )
    recording.now = 99
    trace = recording.finish(**{f"pid_{PID}": -9})
    process = trace.scan("process").collect()
    assert process.select("pid", "framework", "started", "ended", "exit_code").rows() == [
        (PID, "torch; python", 10, 99, -9)
    ]
    threads = trace.scan("thread").collect().sort("tid")
    assert threads.select("tid", "name").rows() == [(7, "renamed"), (8, "other")]
    devices = trace.scan("device").collect().sort("device")
    assert devices.select("device", "name", "cache_bytes").rows() == [(0, "a", 6), (1, "b", 7)]


def test_a_process_that_says_when_it_ended_is_believed(recording):
    writer = Writer(recording.channel, 0)
    writer.write("process", ("started", "ended"), [(10, 50)])
    trace = recording.finish(pid_1=3)
    process = trace.scan("process").collect()
    assert process.select("ended", "exit_code").rows() == [(50, None)]


def test_unfinished_spans_stay_and_finished_ones_are_not_twice(recording):
    writer = Writer(recording.channel, 0)
    run, stuck = (1, 0, None, 1, 0, "run", "run"), (1, 5, None, 2, 1, "step", "stuck")
    writer.write("span", SPAN, [run, stuck])
    recording.receive()
    writer.write("span", SPAN, [(1, 0, 90, 1, 0, "run", "run"), stuck])
    spans = recording.finish().scan("span").collect()
    assert spans.select("name", "ts", "dur").rows() == [("run", 0, 90), ("stuck", 5, None)]


def test_what_the_channel_lost_is_counted_by_process(tmp_path):
    recording = Recording(tmp_path, slots=2, block_seconds=0)
    writer = Writer(recording.channel, 2)
    for number in range(5):
        writer.ring.write("span", {"ts": [number] * 3})
    writer.ring.write("span", {"ts": list(range(1 << 14))})
    trace = recording.finish()
    recording.channel.close()
    assert trace.scan("span").collect()["ts"].to_list() == [0, 0, 0, 1, 1, 1]
    loss = trace.scan("loss").collect().row(0, named=True)
    assert (loss["rank"], loss["pid"], loss["collector"]) == (2, PID, "channel")
    assert (loss["reason"], loss["count"]) == (FULL, 9 + (1 << 14))
    assert loss["first_ts"] is not None


def test_texts_that_are_lost_are_counted_for_their_process(recording):
    writer = Writer(recording.channel, 5)
    writer.ring.write("span", {"ts": [1, 2], "name_text": [7, 0]})
    trace = recording.finish()
    loss = trace.scan("loss").collect().row(0, named=True)
    assert (loss["rank"], loss["pid"], loss["count"]) == (5, PID, 1)
    assert "text did not arrive" in loss["reason"]
    assert trace.info["ranks"] == [5]


def test_the_losses_of_a_program_are_added_up_when_they_are_read(recording):
    writer = Writer(recording.channel, 0)
    columns = ("collector", "reason", "count", "first_ts")
    writer.write("loss", columns, [("session", "a", 2, 10)])
    writer.write("loss", columns, [("session", "a", 3, 20), ("session", "b", 1, 5)])
    losses = recording.finish().losses().sort("reason")
    assert losses.select("reason", "count", "first_ts").rows() == [("a", 5, 10), ("b", 1, 5)]


def test_a_disk_that_takes_no_more_does_not_stop_the_draining(tmp_path):
    recording = Recording(tmp_path, slots=4, block_seconds=0)
    writer = Writer(recording.channel, 0)
    writer.ring.write("span", {"ts": [0]})
    recording.receive()
    shutil.rmtree(recording.path)
    recording.path.write_text("no folder")
    recording.receiver._roll = recording.receiver._parts[0].flush
    recording.receiver._rolled = float("-inf")
    recording.receive()
    assert "incomplete, as it could not be written on" in recording.receiver.failure
    first = recording.receiver.failure
    for number in range(20):  # five times around the ring
        writer.ring.write("span", {"ts": [number]})
        recording.receive()
    assert recording.receiver.rows["span"] == 21
    assert recording.channel.losses() == []
    recording.receiver.finish({})
    assert recording.receiver.failure == first
    recording.channel.close()


def test_listeners_are_told_of_rows_as_they_come(recording):
    told = []
    recording.receiver.listeners.append(lambda table, rows: told.append((table, rows.to_pylist())))
    writer = Writer(recording.channel, 1)
    writer.write("thread", ("tid", "name"), [(7, "a")])
    recording.receive()
    writer.write("thread", ("tid", "name"), [(8, None)])
    recording.receive()
    row = {"rank": 1, "pid": PID}
    assert told == [
        ("thread", [{**row, "tid": 7, "name": "a"}]),
        ("thread", [{**row, "tid": 8, "name": None}]),
    ]
    assert recording.receiver.rows == {"thread": 2}


def test_a_reader_of_the_unfinished_trace_sees_rows_soon(recording, monkeypatch):
    monkeypatch.setattr(receive, "FILE_SECONDS", 0.0)
    writer = Writer(recording.channel, 0)
    writer.write("span", SPAN, [(1, 0, 9, 1, 0, "run", "run")])
    for _ in range(500):
        recording.receive()
        if "span" in Trace.open(recording.path).tables():
            break
        time.sleep(0.01)
    spans = Trace.open(recording.path).scan("span").collect()
    assert spans["name"].to_list() == ["run"]
    assert Trace.open(recording.path).info["state"] == "recording"
    assert recording.receiver.bytes > 0


def test_every_process_that_was_heard_of_is_known(recording):
    for rank in (0, 1):
        Writer(recording.channel, rank).write("thread", ("tid",), [(1,)])
    recording.now = 77
    recording.receive()
    assert recording.receiver.processes == {(0, PID): 77, (1, PID): 77}


def test_what_receiving_cost_is_a_metric_of_this_process(recording):
    writer = Writer(recording.channel, 2)
    writer.write("span", SPAN, [(1, 5, 1, 1, 0, "step", "s")])
    recording.receive()
    recording.now = 1500
    trace = recording.finish()
    rows = trace.scan("metric").sort("name").collect()
    assert rows["name"].to_list() == ["pasta.complete", "pasta.receive"]
    assert rows.select("rank", "pid", "ts", "dur", "unit").unique().rows() == [(2, PID, 1000, 500, "s")]  # fmt: skip
    assert rows["value"].sum() * 1e9 == pytest.approx(recording.receiver.spent_ns, rel=1e-6)
    assert recording.receiver.rows["metric"] == 2
