"""The reader of raw records, on a ring that a program fills as kernels would."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pasta.collect.channel import Channel
from pasta.collect.receive import Receiver
from pasta.collect.wire import WIRE_TABLES
from pasta.trace import Trace
from pasta.trace_writer import TraceWriter

SOURCE = Path(__file__).with_name("memory_records.cpp")
LAP = 1 << 17


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    made = tmp_path_factory.mktemp("native") / "memory_records"
    flags = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]
    subprocess.run([compiler, *flags, str(SOURCE), "-o", str(made), "-pthread"], check=True)
    return made


def expected(records: int) -> pl.DataFrame:
    """Return the rows of `access` that the program's records stand for."""
    n = np.arange(records, dtype=np.int64)
    lanes = (n * 2654435761) & 0xFFFFFFFF | 1 << n % 32
    record, lane = np.nonzero(lanes[:, None] >> np.arange(32) & 1)
    n = n[record]
    columns = {
        "device": np.ones_like(n),
        "launch_id": 1 + n // 1000,
        "request": n,
        "lane": lane,
        "pc": n % 64 * 16,
        "address": 0x7F0000000000 + 128 * n + 4 * lane - 1000 * (n % 3),
        "bytes": 1 << n % 5,
        "op": n % 4,
        "space": n % 5,
        "warp": n % 32,
        "block": n % 5000 + (n % 3 << 33),
    }
    return pl.DataFrame(columns)


@pytest.mark.parametrize("records", [1, 5000, LAP + 3001])
def test_every_record_becomes_its_rows(program, tmp_path, records):
    writer = TraceWriter(tmp_path / "trace", {})
    with Channel.create("records", slots=16, slot_bytes=1 << 17, tables=WIRE_TABLES) as channel:
        receiver = Receiver(channel, writer.path, lambda: 1000)
        command = [program, str(channel.folder), str(records), "rows"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            while process.poll() is None or channel.producers:
                receiver.receive(0.01)
            told = process.stdout.read().split()
        ranks = receiver.finish({})
        assert channel.losses() == []
    writer.finish(ranks=ranks)
    accesses = Trace.open(writer.path).scan("access").collect()
    want = expected(records)
    assert told[:2] == [str(want.height), "0"]
    assert receiver.rows["access"] == want.height
    assert set(accesses["rank"]) == {3}
    got = accesses.drop("rank", "pid")
    assert got.equals(want.cast(dict(got.schema)))


def test_what_a_killed_program_had_sent_is_kept(program, tmp_path):
    writer = TraceWriter(tmp_path / "trace", {})
    with Channel.create("killed", slots=16, slot_bytes=1 << 17, tables=WIRE_TABLES) as channel:
        receiver = Receiver(channel, writer.path, lambda: 1000)
        with subprocess.Popen([program, str(channel.folder), str(1 << 30), "rows"]) as process:
            while receiver.rows.get("access", 0) < 200_000:
                receiver.receive(0.01)
            process.kill()
        while channel.producers:
            receiver.receive(0.01)
        ranks = receiver.finish({})
        assert sum(loss.batches for loss in channel.losses()) <= 1
    writer.finish(ranks=ranks)
    accesses = Trace.open(writer.path).scan("access").collect()
    assert accesses.height == receiver.rows["access"] >= 200_000
    got = accesses.drop("rank", "pid")
    want = expected(accesses["request"].max() + 1)
    assert got.equals(want.cast(dict(got.schema)))


def test_records_can_be_counted_only(program):
    with Channel.create("counted", slots=2, slot_bytes=1 << 17, tables=WIRE_TABLES) as channel:
        command = [program, str(channel.folder), str(LAP + 77), "count"]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        assert channel.poll() is None
    assert told[:2] == [str(expected(LAP + 77).height), "0"]
