from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pasta.collect.channel import SHARED_MEMORY, Channel
from pasta.collect.channel_ring import FULL, TOO_LARGE
from pasta.collect.target import channel_layout as layout
from pasta.collect.target.channel_writer import RingWriter
from tests.collect.channel_help import ALL_TYPES, COUNTED, KILLS, kill_writers

HEADER = Path(__file__).parents[3] / "pasta" / "collect" / "native" / "pasta_channel.h"
SOURCE = Path(__file__).with_name("channel_writer.c")
TABLES = {"all": ALL_TYPES, **COUNTED}


@pytest.fixture(scope="module")
def c_writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test program, compiled without a warning."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc) on this machine")
    program = tmp_path_factory.mktemp("native") / "channel_writer"
    strict = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
    subprocess.run([compiler, *strict, f"-I{HEADER.parent}", SOURCE, "-o", program], check=True)
    return program


def copied_slots(channel: Channel) -> dict[int, list[bytes]]:
    """The committed batches of each ring, by rank, as the bytes that describe and hold them."""
    slots: dict[int, list[bytes]] = {}
    for path in sorted(channel.folder.glob("ring-*")):
        memory = memoryview(path.read_bytes())
        head, _ = layout.read_layout(memory)
        for at in range(head.header_bytes, len(memory), head.slot_bytes):
            *_, used = layout.BATCH.unpack_from(memory, at + layout.BATCH_AT)
            if used:
                slots.setdefault(head.rank, []).append(bytes(memory[at : at + used]))
    return slots


def same_from_python(writer: RingWriter, what: str) -> None:
    if what == "all":
        values = {
            **{name: [1, None, 2 ** int(name[1:]) - 1] for name in ("u8", "u16", "u32", "u64")},
            **{
                name: [1, None, -(2 ** (int(name[1:]) - 1))] for name in ("i8", "i16", "i32", "i64")
            },
            "f32": [0.5, None, -2.0],
            "f64": [0.25, None, -3.0],
            "flag": [True, None, True],
            "text": ["ü", None, "abc"],
            "texts": [["1x2", ""], None, ["ab"]],
            "integers": [[7, -8], None, [9]],
        }
        writer.write("all", values)
        return
    rows = range(2000)
    text = [chr(ord("a") + row % 26) * (9000 if row == 1000 else row % 8) for row in rows]
    writer.write("all", {"i64": [row if row % 3 else None for row in rows], "text": text})


@pytest.mark.parametrize("what", ["all", "many"])
def test_c_and_python_write_the_same(c_writer, what):
    with Channel.create("native", tables=TABLES, slots=64, slot_bytes=8192) as channel:
        subprocess.run([c_writer, what, channel.folder], check=True)
        writer = RingWriter(str(channel.folder), rank=6)
        same_from_python(writer, what)
        rows: dict[int, list[dict[str, object]]] = {5: [], 6: []}
        counts: dict[int, list[int]] = {5: [], 6: []}
        for batch in list(iter(channel.poll, None)):
            rows[batch.producer.rank] += batch.rows.to_pylist()
            counts[batch.producer.rank].append(batch.rows.num_rows)
        assert rows[5] == rows[6]
        if what == "all":
            assert len(rows[5]) == 3
            assert counts == {5: [3, 0], 6: [3]}
            assert copied_slots(channel)[5][0] == copied_slots(channel)[6][0]
        else:
            assert [row["i64"] for row in rows[5]] == [
                row if row % 3 else None for row in range(2000) if row != 1000
            ]
            assert counts[5] == counts[6]
            lost = [(loss.reason, loss.batches, loss.rows) for loss in channel.losses()]
            assert lost == [(TOO_LARGE, 1, 1)] * 2


@pytest.mark.parametrize("slots", [4, 512])
def test_killed_c_producers_lose_at_most_the_batch_being_written(c_writer, slots):
    assert len(kill_writers([c_writer, "counted"], slots, KILLS // 2)) <= KILLS // 2


def test_a_c_writer_drops_and_counts_where_the_ring_is_full(c_writer):
    with Channel.create(
        "native-full", tables=TABLES, slots=2, slot_bytes=8192, block_seconds=0
    ) as channel:
        subprocess.run([c_writer, "many", channel.folder], check=True)
        received = sum(batch.rows.num_rows for batch in list(iter(channel.poll, None)))
        lost = {loss.reason: loss.rows for loss in channel.losses()}
        assert received > 0
        assert lost == {FULL: 1999 - received, TOO_LARGE: 1}


def test_a_forked_child_is_kept_off_its_parents_ring(c_writer):
    with Channel.create("native-fork", tables=TABLES, slot_bytes=8192) as channel:
        subprocess.run([c_writer, "fork", channel.folder], check=True)
        batches = list(iter(channel.poll, None))
        got = {batch.producer.rank: batch.rows["i64"].to_pylist() for batch in batches}
        assert got == {5: [1], 1: [2]}


def test_without_a_channel_rows_are_counted_and_nothing_fails(c_writer, tmp_path):
    assert subprocess.run([c_writer, "all", tmp_path / "absent"], check=False).returncode == 42
    assert not list(SHARED_MEMORY.glob(f"pasta-{os.getpid()}-*"))
