from __future__ import annotations

import os
import threading
import time

import polars as pl
import pytest

from pasta.collect import access_files, receive
from pasta.collect.channel import Channel
from pasta.collect.channel_ring import Batch
from pasta.collect.parquet_runs import RunsFile
from pasta.collect.receive import Receiver
from pasta.collect.target.channel_writer import RingWriter
from pasta.collect.wire import WIRE_TABLES
from pasta.trace import Trace
from pasta.trace_writer import TraceWriter
from tests.collect.warp_help import items, records, rows
from tests.collect.wire_help import Writer

SLOTS = 8


class Recording:
    def __init__(self, folder) -> None:
        self.writer = TraceWriter(folder / "trace", {})
        self.channel = Channel.create(
            "accesses", slots=SLOTS, slot_bytes=1 << 14, tables=WIRE_TABLES, block_seconds=0
        )
        self.receiver = Receiver(self.channel, self.writer.path, lambda: 1000)

    def receive(self) -> None:
        while self.receiver.receive(0):
            pass

    def finish(self) -> Trace:
        self.receive()
        self.writer.finish(ranks=self.receiver.finish({}))
        return Trace.open(self.writer.path)


@pytest.fixture
def recording(tmp_path, monkeypatch):
    monkeypatch.setattr(access_files, "FILE_WARPS", 50)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})  # one writes
    made = Recording(tmp_path)
    yield made
    made.channel.close()


def write(ring: RingWriter, made) -> None:
    ring.write("warp_access", {"record": items(made)})


def accesses_of(sent) -> int:
    return sum(rows(made, 0, 1).height for made in sent)


def test_files_are_sorted_and_follow_each_other(recording):
    rings = [RingWriter(str(recording.channel.folder), rank=rank) for rank in (0, 4)]
    sent = [
        [records(10 * rank + part, 40, split=part == 2) for part in range(6)] for rank in (0, 1)
    ]
    for part in range(6):
        for rank, ring in enumerate(rings):
            write(ring, sent[rank][part])
        recording.receive()
    trace = recording.finish()
    pid = os.getpid()
    want = [rows(made, rank, pid) for rank, of in zip((0, 4), sent, strict=True) for made in of]
    got = trace.scan("access").collect()
    order = ["rank", "launch_id", "request", "lane", "address"]
    assert got.sort(order).equals(pl.concat(want).sort(order))
    assert recording.receiver.rows["access"] == got.height
    files = sorted((trace.path / "rank-00004" / "access").iterdir())
    assert [file.name for file in files] == [f"warps-00000{n}.parquet" for n in range(len(files))]
    assert len(files) >= 5
    for file in files:
        frame = pl.read_parquet(file)
        assert frame.equals(frame.sort("launch_id", "request", "lane"))
    on_disk = sum(file.stat().st_size for file in trace.path.rglob("access/*.parquet"))
    assert recording.receiver.bytes >= on_disk


@pytest.mark.parametrize("seconds", [0.0, 0.05])
def test_what_waits_long_enough_is_in_a_file(recording, monkeypatch, seconds):
    monkeypatch.setattr(receive, "FILE_SECONDS", seconds)
    recording.receiver = Receiver(recording.channel, recording.writer.path, lambda: 1000)
    made = records(3, 20)
    write(RingWriter(str(recording.channel.folder), rank=0), made)
    recording.receive()
    assert recording.receiver.rows["access"] == rows(made, 0, 1).height
    path = recording.writer.path / "rank-00000" / "access" / "warps-000000.parquet"
    while not path.exists():
        recording.receiver.receive(0.01)
    assert pl.read_parquet(path).equals(rows(made, 0, os.getpid()))


def test_where_writing_is_slow_rings_fill_and_others_go_on(recording, monkeypatch):
    go_on = threading.Event()
    real = access_files._write

    def slowly(*arguments):
        assert go_on.wait(300)
        return real(*arguments)

    monkeypatch.setattr(access_files, "_write", slowly)
    ring = RingWriter(str(recording.channel.folder), rank=0)
    spans = Writer(recording.channel, 0)
    sent = []
    while recording.channel.fill < 1:
        sent.append(records(len(sent), 50))
        write(ring, sent[-1])
        spans.write("thread", ("tid", "name"), [(len(sent), "thread")])
        waits = recording.receiver.receive(0)
        while recording.receiver.rows.get("access", 0) < accesses_of(sent[:3]):
            waits = recording.receiver.receive(0)
        assert recording.receiver.rows["thread"] == len(sent)
    assert len(sent) == 3 + SLOTS  # what is being written, what waits for it, and a full ring
    assert waits
    assert recording.channel.losses() == []
    go_on.set()
    trace = recording.finish()
    assert trace.scan("access").collect().height == accesses_of(sent)
    assert trace.scan("thread").collect().height == len(sent)


def test_receiving_does_not_wait_for_copying(recording, monkeypatch):
    go_on = threading.Event()
    real = access_files.warps_of

    def slowly(batch):
        assert go_on.wait(300)
        return real(batch)

    monkeypatch.setattr(access_files, "warps_of", slowly)
    ring = RingWriter(str(recording.channel.folder), rank=0)
    spans = Writer(recording.channel, 0)
    sent = [records(part, 50) for part in range(3)]
    for part, made in enumerate(sent):
        write(ring, made)
        spans.write("thread", ("tid", "name"), [(part, "thread")])
        assert recording.receiver.receive(0)
    assert recording.receiver.rows == {"thread": 3}
    go_on.set()
    trace = recording.finish()
    assert trace.scan("access").collect().height == accesses_of(sent)
    assert recording.channel.losses() == []


def test_a_full_disk_is_told_and_nobody_waits_for_it(recording, monkeypatch):
    def refuse(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RunsFile, "write", refuse)
    ring = RingWriter(str(recording.channel.folder), rank=0)
    for part in range(5 * SLOTS):
        write(ring, records(part, 50))
        recording.receive()
    assert recording.channel.fill == 0
    recording.receive()
    recording.receiver.finish({})
    assert "No space left on device" in recording.receiver.failure
    assert list(recording.writer.path.rglob("*warps*")) == []
    assert recording.channel.losses() == []


def test_records_that_make_no_sense_are_counted(recording):
    ring = RingWriter(str(recording.channel.folder), rank=0)
    made = records(8, 30)
    write(ring, made)
    ring.write("warp_access", {"record": [[1, 2, 3]] * 7})
    trace = recording.finish()
    assert trace.scan("access").collect().equals(rows(made, 0, os.getpid()))
    losses = trace.scan("loss").collect()
    (count,) = losses.filter(pl.col("reason").str.contains("make no sense"))["count"]
    assert count == 7


def test_a_batch_that_cannot_be_given_back_is_told_and_nobody_waits_for_it(recording, monkeypatch):
    ring = RingWriter(str(recording.channel.folder), rank=0)
    write(ring, records(0, 20))
    broken = []

    def release(batch: Batch) -> None:
        broken.append(batch)
        raise MemoryError("no room")

    monkeypatch.setattr(Batch, "release", release)
    recording.receive()
    give_up = time.monotonic() + 300
    while recording.receiver._accesses.busy:
        assert time.monotonic() < give_up, "the thread that copies has ended"
        time.sleep(0.01)
    monkeypatch.undo()
    recording.receiver.receive(0)
    recording.receiver.finish({})
    assert "accesses: MemoryError('no room')" in recording.receiver.failure
    assert len(broken) == 1


def test_a_batch_has_one_owner_when_other_tables_fail_meanwhile(recording, monkeypatch):
    ring = RingWriter(str(recording.channel.folder), rank=0)
    released, take = [], access_files.AccessFiles.take

    def release(batch: Batch) -> None:
        released.append(batch)

    monkeypatch.setattr(Batch, "release", release)

    def take_and_fail(files, batch: Batch) -> None:
        take(files, batch)
        recording.receiver.failure = "the disk is full"

    monkeypatch.setattr(access_files.AccessFiles, "take", take_and_fail)
    write(ring, records(0, 20))
    recording.receiver.receive(0)
    recording.receiver.finish({})
    assert len(released) == len({id(batch) for batch in released}) == 1
