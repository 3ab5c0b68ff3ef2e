"""Programs that write into a channel, and what the tests of the channel share."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa

from pasta.collect.channel import Channel
from pasta.collect.channel_ring import UNFINISHED, ChannelLoss

TARGET = Path(__file__).parents[2] / "pasta" / "collect" / "target"

KILLS = int(os.environ.get("PASTA_CHANNEL_KILLS", "50"))

# Loads the writer as a program without pasta (and, with -I -S, without numpy) does: by its path.
LOAD_WRITER = f"""
import importlib.util, os, sys, time
spec = importlib.util.spec_from_file_location(
    "target", {str(TARGET / "__init__.py")!r}, submodule_search_locations=[{str(TARGET)!r}])
sys.modules["target"] = importlib.util.module_from_spec(spec)
from target.channel_writer import Nullable, RingWriter
"""
BARE_PYTHON = [sys.executable, "-I", "-S", "-c"]

COUNTED = {
    "counted": pa.schema([("batch", pa.uint64()), ("row", pa.int64()), ("text", pa.string())])
}
# Writes batches that tell by their content which they are, as long as it lives.
WRITE_COUNTED = """
from array import array
def rows_of(batch):
    return batch * 7919 % 40
def write_counted(writer, batch):
    rows = rows_of(batch)
    writer.write("counted", {"batch": array("Q", [batch]) * rows,
        "row": array("q", range(rows)), "text": [str(batch)] * rows})
"""

ALL_TYPES = pa.schema(
    [
        ("u8", pa.uint8()),
        ("u16", pa.uint16()),
        ("u32", pa.uint32()),
        ("u64", pa.uint64()),
        ("i8", pa.int8()),
        ("i16", pa.int16()),
        ("i32", pa.int32()),
        ("i64", pa.int64()),
        ("f32", pa.float32()),
        ("f64", pa.float64()),
        ("flag", pa.bool_()),
        ("text", pa.string()),
        ("texts", pa.list_(pa.string())),
        ("integers", pa.list_(pa.int64())),
    ]
)


def rows_of(batch: int) -> int:
    """How many rows `write_counted` gives a batch."""
    return batch * 7919 % 40


def check_counted(rows: pa.RecordBatch, batch: int) -> None:
    """Check that `rows` are those of `batch`, whole."""
    count = rows_of(batch)
    assert rows.to_pydict() == {
        "batch": [batch] * count,
        "row": list(range(count)),
        "text": [str(batch)] * count,
    }


def kill_writers(command: list[str | Path], slots: int, kills: int) -> list[ChannelLoss]:
    """Kill programs that write counted batches, at random moments while they are read.

    Checks that every batch is whole, in order and read once, that a killed writer lost nothing but
    the batch it was writing, and that its ring is let go of; returns those losses.
    """
    moments = random.Random(slots)
    with Channel.create(
        "kills", tables=COUNTED, slots=slots, slot_bytes=4096, block_seconds=60
    ) as channel:
        for _ in range(kills):
            with subprocess.Popen([*command, str(channel.folder)]) as program:
                expected = read_counted(channel, 0, time.monotonic() + 300, most=1)
                kill_at = time.monotonic() + moments.random() * 0.003
                expected = read_counted(channel, expected, kill_at)
                program.send_signal(signal.SIGKILL)
            read_counted(channel, expected, time.monotonic() + 300)
        give_up = time.monotonic() + 300
        while list(channel.folder.glob("ring-*")) and time.monotonic() < give_up:
            assert channel.wait(0.01) is None
        assert not list(channel.folder.glob("ring-*"))
        losses = channel.losses()
    assert {loss.reason for loss in losses} <= {UNFINISHED}
    assert len({loss.producer for loss in losses}) == len(losses)
    assert all(loss.batches == 1 and loss.rows < 40 for loss in losses)
    return losses


def read_counted(channel: Channel, expected: int, give_up: float, most: int = 1 << 30) -> int:
    """Read and check batches until there is none, or a time; return the number of the next one.

    With `most`, waits for that many.
    """
    read = 0
    while read < most and time.monotonic() < give_up:
        batch = channel.wait(give_up - time.monotonic()) if most == 1 else channel.poll()
        if batch is None:
            break
        with batch:
            assert batch.sequence == expected
            check_counted(batch.rows, expected)
        expected, read = expected + 1, read + 1
    return expected
