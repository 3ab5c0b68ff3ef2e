from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pasta.collect import channel as channel_module
from pasta.collect.channel import SHARED_MEMORY, Channel, remove_stale
from pasta.collect.channel_ring import DAMAGED, FULL, TOO_LARGE, UNREAD, Batch
from pasta.collect.target import channel_columns
from pasta.collect.target import channel_layout as layout
from pasta.collect.target.channel_writer import Nullable, RingWriter
from pasta.errors import CollectError
from pasta.schema import TABLES
from tests.collect.channel_help import (
    ALL_TYPES,
    BARE_PYTHON,
    COUNTED,
    KILLS,
    LOAD_WRITER,
    WRITE_COUNTED,
    check_counted,
    kill_writers,
)

NUMBERS = {"numbers": pa.schema([("value", pa.int64()), ("text", pa.string())])}


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """No test leaves a folder of this process in shared memory."""
    yield
    assert not list(SHARED_MEMORY.glob(f"pasta-{os.getpid()}-*"))


def take(channel: Channel) -> list[Batch]:
    """Every batch that is there, borrowed."""
    return list(iter(channel.poll, None))


def take_rows(channel: Channel) -> list[int]:
    """The column `value` of every batch that is there, copied and released."""
    values = []
    for batch in iter(channel.poll, None):
        with batch:
            values += batch.rows["value"].to_pylist()
    return values


def loss_of(channel: Channel, reason: str) -> tuple[int, int]:
    found = [loss for loss in channel.losses() if loss.reason == reason]
    return sum(loss.batches for loss in found), sum(loss.rows for loss in found)


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(30_000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")


VALUES = {
    **{f"u{bits}": st.integers(0, 2**bits - 1) for bits in (8, 16, 32, 64)},
    **{
        f"i{bits}": st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)
    },
    "f32": st.floats(width=32, allow_nan=False),
    "f64": st.floats(allow_nan=False),
    "flag": st.booleans(),
    "text": st.text(max_size=12),
    "texts": st.lists(st.text(max_size=5), max_size=4),
    "integers": st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4),
}


@st.composite
def any_columns(draw: st.DrawFn) -> dict[str, list[object]]:
    rows = draw(st.integers(0, 40))
    names = draw(st.lists(st.sampled_from(ALL_TYPES.names), min_size=1, unique=True))
    return {
        name: draw(st.lists(st.none() | VALUES[name], min_size=rows, max_size=rows))
        for name in names
    }


@settings(max_examples=60, deadline=None)
@given(any_columns())
def test_every_type_comes_back_with_its_nulls(columns):
    with Channel.create("types", tables={"all": ALL_TYPES}, slot_bytes=8192, slots=64) as channel:
        RingWriter(str(channel.folder), rank=3).write("all", columns)
        batches = take(channel)
        got = pa.Table.from_batches([batch.rows for batch in batches])
        names = [name for name in ALL_TYPES.names if name in columns]
        assert got.schema == pa.schema([ALL_TYPES.field(name) for name in names])
        assert got.to_pydict() == {name: columns[name] for name in names}
        assert {batch.table for batch in batches} == {"all"}
        producer = batches[0].producer
        assert (producer.rank, producer.pid) == (3, os.getpid())


def test_buffers_of_every_number_are_taken_as_they_are():
    columns = {
        field.name: np.arange(100).astype(field.type.to_pandas_dtype())
        for field in ALL_TYPES
        if not pa.types.is_list(field.type) and field.name not in ("text", "flag")
    }
    columns["flag"] = np.arange(100) % 3 == 0
    with Channel.create("buffers", tables={"all": ALL_TYPES}) as channel:
        RingWriter(str(channel.folder)).write("all", columns)
        with take(channel)[0] as batch:
            assert batch.rows.num_rows == 100
            for name, values in columns.items():
                assert batch.rows[name].null_count == 0
                assert batch.rows[name].to_pylist() == values.tolist()
                assert batch.rows[name].buffers()[1].address % 64 == 0


def test_nullable_strided_and_array_module_columns():
    columns = {
        "i64": Nullable(np.arange(10), np.arange(10) % 2 == 0),
        "u32": np.arange(20, dtype="u4")[::2],
        "i32": array("i", range(10)),
        "flag": Nullable(np.ones(10, dtype=bool), [True] * 9 + [False]),
    }
    with Channel.create("nullable", tables={"all": ALL_TYPES}) as channel:
        RingWriter(str(channel.folder)).write("all", columns)
        with take(channel)[0] as batch:
            assert batch.rows.to_pydict() == {
                "u32": list(range(0, 20, 2)),
                "i32": list(range(10)),
                "i64": [0, None, 2, None, 4, None, 6, None, 8, None],
                "flag": [True] * 9 + [None],
            }


def test_lone_surrogates_do_not_make_invalid_text():
    with Channel.create("text", tables=NUMBERS) as channel:
        RingWriter(str(channel.folder)).write("numbers", {"text": ["a\udc80b", "\U0001f980"]})
        with take(channel)[0] as batch:
            assert batch.rows["text"].to_pylist() == ["a?b", "\U0001f980"]


def test_a_python_without_numpy_and_pasta_writes_the_same():
    columns = {
        "flag": [True, None, False] * 9,
        "f32": [0.5, None, -2.0] * 9,
        "texts": [["1x2", ""], None, []] * 9,
        "integers": [[1, -(2**63)], None, []] * 9,
        "text": ["ü", None, ""] * 9,
    }
    code = LOAD_WRITER + f"RingWriter(sys.argv[1]).write('all', {columns!r})\n"
    code += "assert 'numpy' not in sys.modules and 'pasta' not in sys.modules\n"
    with Channel.create("bare", tables={"all": ALL_TYPES}) as channel:
        subprocess.run([*BARE_PYTHON, code, str(channel.folder)], check=True)
        with take(channel)[0] as batch:
            assert batch.rows.to_pydict() == {
                n: columns[n] for n in ALL_TYPES.names if n in columns
            }


def test_the_tables_of_a_trace_are_the_default():
    with Channel.create("default") as channel:
        writer = RingWriter(str(channel.folder))
        for name, table in TABLES.items():
            writer.write(name, {column.name: [None] for column in table.columns})
            with take(channel)[0] as batch:
                assert batch.rows.schema.equals(table.schema, check_metadata=False)


@pytest.mark.parametrize(
    ("table", "columns", "error", "message"),
    [
        ("nothing", {"value": [1]}, ValueError, "no table 'nothing'"),
        ("numbers", {"other": [1]}, ValueError, "numbers has no column 'other'"),
        ("numbers", {"value": [1], "text": []}, ValueError, "different lengths"),
        ("numbers", {"value": ["a"]}, TypeError, "numbers.value"),
        ("numbers", {"value": [2**63]}, TypeError, "numbers.value"),
        ("numbers", {"value": np.zeros(3, dtype="i4")}, TypeError, "format 'i'"),
        ("numbers", {"value": np.zeros(3, dtype="u8")}, TypeError, "holds 'q'"),
        ("numbers", {"text": [1]}, TypeError, "numbers.text"),
        ("numbers", {"value": Nullable(np.zeros(3, "i8"), [True])}, ValueError, "lengths"),
    ],
)
def test_wrong_columns_are_refused_and_leave_the_ring_sound(table, columns, error, message):
    with Channel.create("wrong", tables=NUMBERS) as channel:
        writer = RingWriter(str(channel.folder))
        with pytest.raises(error, match=message):
            writer.write(table, columns)
        writer.write("numbers", {"value": [7]})
        assert take_rows(channel) == [7]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    slots=st.integers(1, 5),
    steps=st.lists(st.tuples(st.integers(0, 900), st.integers(0, 3), st.booleans()), max_size=25),
)
def test_wrap_around_keeps_order_and_counts_every_drop(slots, steps):
    """Batches of any size, read some at a time and released in any order, against plain lists."""
    sent, received, sequences = [], [], []
    held: list[Batch] = []
    shuffle = random.Random(len(steps))
    with Channel.create(
        "wrap", tables=NUMBERS, slots=slots, slot_bytes=4096, block_seconds=0
    ) as channel:
        writer = RingWriter(str(channel.folder))
        for rows, reads, release in steps:
            values = list(range(len(sent), len(sent) + rows))
            sent += values
            writer.write("numbers", {"value": values, "text": ["x" * (v % 5) for v in values]})
            for _ in range(reads):
                if (batch := channel.poll()) is not None:
                    received += batch.rows["value"].to_pylist()
                    sequences.append(batch.sequence)
                    held.append(batch)
            if release:
                shuffle.shuffle(held)
                while held:
                    held.pop().release()
        while held:
            held.pop().release()
        received += take_rows(channel)
        assert received == sorted(set(received))
        assert set(received) <= set(sent)
        assert len(sent) == len(received) + loss_of(channel, FULL)[1]
        assert sequences == list(range(len(sequences)))


def test_a_batch_larger_than_a_slot_is_split_and_a_larger_row_counted():
    texts = ["a" * 100] * 100 + ["b" * 5000] + ["c"] * 100
    with Channel.create("split", tables=NUMBERS, slots=16, slot_bytes=4096) as channel:
        RingWriter(str(channel.folder)).write("numbers", {"text": texts})
        batches = take(channel)
        got = [text for batch in batches for text in batch.rows["text"].to_pylist()]
        assert got == texts[:100] + texts[101:]
        assert len(batches) > 2
        assert loss_of(channel, TOO_LARGE) == (1, 1)


def test_a_borrowed_batch_stays_while_it_is_held_and_its_slot_is_not_reused():
    started = time.time_ns()
    with Channel.create("held", tables=NUMBERS, slots=2, block_seconds=0) as channel:
        writer = RingWriter(str(channel.folder))
        for value in range(5):
            writer.write("numbers", {"value": [value]})
        first, second = take(channel)
        assert first.rows["value"].to_pylist() == [0]
        second.release()
        writer.write("numbers", {"value": [5]})
        assert loss_of(channel, FULL) == (4, 4)
        first.release()
        first.release()
        with pytest.raises(AttributeError):
            _ = first.rows
        writer.write("numbers", {"value": [6]})
        assert take_rows(channel) == [6]
        full = next(loss for loss in channel.losses() if loss.reason == FULL)
        assert full.first_ts in range(started, time.time_ns())


class Yielding(set[int]):
    """A set that lets other threads go on whenever it is asked."""

    def __contains__(self, item: object) -> bool:
        found = super().__contains__(item)
        time.sleep(1e-6)
        return found


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_many_threads_release_what_one_reads(monkeypatch, machine):
    monkeypatch.setattr(layout.platform, "machine", lambda: machine)
    with Channel.create(
        "released", tables=NUMBERS, slots=32, slot_bytes=4096, block_seconds=60
    ) as channel:
        writer = RingWriter(str(channel.folder), rank=0)
        assert channel.poll() is None
        (ring,) = channel._rings.values()
        ring._released = Yielding()
        with ThreadPoolExecutor(8) as threads:
            for value in range(600):
                writer.write("numbers", {"value": [value]})
                batch = channel.poll()
                assert batch.rows["value"].to_pylist() == [value]
                threads.submit(batch.release)
        assert channel.fill == 0
        assert channel.losses() == []


def test_a_slow_reader_loses_only_what_is_counted():
    code = LOAD_WRITER + WRITE_COUNTED + "writer = RingWriter(sys.argv[1])\n"
    code += "for batch in range(3000): write_counted(writer, batch)\nwriter.close()"
    received, last, rows = 0, -1, 0
    with Channel.create(
        "slow", tables=COUNTED, slots=3, slot_bytes=4096, block_seconds=0
    ) as channel:
        with subprocess.Popen([*BARE_PYTHON, code, str(channel.folder)]) as program:
            while (batch := channel.poll()) is not None or program.poll() is None:
                if batch is None:
                    continue
                with batch:
                    if batch.rows.num_rows:
                        last_before, last = last, batch.rows["batch"][0].as_py()
                        assert last > last_before
                        check_counted(batch.rows, last)
                    received += 1
                    rows += batch.rows.num_rows
                time.sleep(0.0002)
        for batch in iter(channel.poll, None):
            with batch:
                received, rows = received + 1, rows + batch.rows.num_rows
        batches_lost, rows_lost = loss_of(channel, FULL)
        assert received + batches_lost == 3000
        assert rows + rows_lost == sum(batch * 7919 % 40 for batch in range(3000))
        assert batches_lost > 0
        assert received > 0


@pytest.mark.parametrize("slots", [4, 512])
def test_killed_producers_lose_at_most_the_batch_being_written(slots):
    code = LOAD_WRITER + WRITE_COUNTED + "writer, batch = RingWriter(sys.argv[1]), 0\n"
    code += "while True: write_counted(writer, batch); batch += 1"
    assert len(kill_writers([*BARE_PYTHON, code], slots, KILLS // 2)) <= KILLS // 2


def test_what_is_not_read_before_the_channel_closes_is_counted():
    with Channel.create("closed", tables=NUMBERS, slots=4) as channel:
        writer = RingWriter(str(channel.folder))
        for value in range(3):
            writer.write("numbers", {"value": [value] * (value + 1)})
        with channel.poll() as batch:
            assert batch.rows["value"].to_pylist() == [0]
    channel.close()
    assert loss_of(channel, UNREAD) == (2, 5)
    writer.write("numbers", {"value": [3]})
    assert writer._words[layout.FULL_ROWS] == 1


def test_a_write_within_a_write_is_counted_and_tears_nothing(monkeypatch):
    """As from a finalizer that runs while the ring is being written."""
    with Channel.create("nested", tables=NUMBERS) as channel:
        writer = RingWriter(str(channel.folder))
        put = channel_columns.Encoded.put

        def put_and_write(encoded, slot, start, stop):
            if writer._words[layout.FULL_BATCHES] == 0:
                writer.write("numbers", {"value": [7, 8]})
            return put(encoded, slot, start, stop)

        monkeypatch.setattr(channel_columns.Encoded, "put", put_and_write)
        writer.write("numbers", {"value": [1, 2, 3]})
        writer.write("numbers", {"value": [4]})
        assert take_rows(channel) == [1, 2, 3, 4]
        assert loss_of(channel, FULL) == (1, 2)


def test_many_producers_are_read_in_turn_and_each_is_whole():
    code = (
        LOAD_WRITER
        + WRITE_COUNTED
        + """
import threading
def work():
    writer = RingWriter(sys.argv[1], rank=int(sys.argv[2]))
    for batch in range(100): write_counted(writer, batch)
threads = [threading.Thread(target=work) for _ in range(3)]
[t.start() for t in threads]; [t.join() for t in threads]
"""
    )
    expected: dict[object, int] = {}
    with Channel.create(
        "many", tables=COUNTED, slots=4, slot_bytes=4096, block_seconds=60
    ) as channel:
        programs = [
            subprocess.Popen([*BARE_PYTHON, code, str(channel.folder), str(rank)])
            for rank in range(2)
        ]
        for _ in range(600):
            batch = channel.wait(30)
            assert batch is not None
            with batch:
                key = batch.producer
                check_counted(batch.rows, expected.get(key, 0))
                expected[key] = expected.get(key, 0) + 1
        assert [program.wait() for program in programs] == [0, 0]
        assert sorted(producer.rank for producer in expected) == [0, 0, 0, 1, 1, 1]
        assert set(expected.values()) == {100}
        assert channel.losses() == []


def test_a_forked_child_makes_its_own_ring():
    code = (
        LOAD_WRITER
        + """
writer = RingWriter(sys.argv[1])
writer.write("numbers", {"value": [1]})
child = os.fork()
writer.write("numbers", {"value": [3 if child else 2]})
if not child: os._exit(0)
os.waitpid(child, 0)
"""
    )
    with Channel.create("fork", tables=NUMBERS) as channel:
        subprocess.run([*BARE_PYTHON, code, str(channel.folder)], check=True)
        got: dict[int, list[int]] = {}
        for batch in take(channel):
            got.setdefault(batch.producer.pid, []).extend(batch.rows["value"].to_pylist())
        assert sorted(got.values()) == [[1, 3], [2]]


OWNER = """
import sys, time, os
import pyarrow as pa
from pasta.collect.channel import Channel
channel = Channel.create("owned", tables={"numbers": pa.schema([("value", pa.int64())])}, slots=2)
print(channel.folder, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGABRT])
def test_the_program_goes_on_when_the_owner_is_killed(end, monkeypatch):
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        folder = Path(owner.stdout.readline().strip())
        writer = RingWriter(str(folder))
        writer.write("numbers", {"value": [1]})
        owner.send_signal(end)
    for _ in range(2):
        writer.write("numbers", {"value": [1, 2]})
    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", pytest.fail)  # it does not wait for the dead a second time
        for _ in range(48):
            writer.write("numbers", {"value": [1, 2]})
    assert writer._words[layout.FULL_BATCHES] == 49
    assert writer._words[layout.FULL_ROWS] == 98
    wait_until(lambda: not folder.exists())
    wait_until(lambda: not list(SHARED_MEMORY.glob(f"pasta-{owner.pid}-*")))
    late = RingWriter(str(folder))
    late.write("numbers", {"value": [1, 2, 3]})
    assert late.unplaced_rows == 3
    writer.close()
    writer.write("numbers", {"value": [1]})
    assert writer.unplaced_rows == 1


def test_leftovers_of_dead_owners_are_removed_and_live_ones_kept(tmp_path, monkeypatch):
    """In a folder that no other process clears up at the same time."""
    monkeypatch.setattr(channel_module, "SHARED_MEMORY", tmp_path)
    with subprocess.Popen(["true"]) as ended:
        pass
    without_lock = tmp_path / f"pasta-{ended.pid}-early"
    dead = tmp_path / f"pasta-{os.getpid()}-dead"
    for folder in (without_lock, dead):
        folder.mkdir()
        (folder / "ring-1-1-1").write_bytes(b"left")
    (dead / "owner").touch()
    early = tmp_path / f"pasta-{os.getpid()}-starting"
    early.mkdir()
    with Channel.create("live", tables=NUMBERS) as channel:
        assert not without_lock.exists()
        assert not dead.exists()
        assert remove_stale() == []
        assert channel.folder.exists()
        assert early.exists()


def test_two_channels_of_one_name_are_refused():
    with (
        Channel.create("twice", tables=NUMBERS),
        pytest.raises(CollectError, match="close it first"),
    ):
        Channel.create("twice", tables=NUMBERS)
    with Channel.create("twice", tables=NUMBERS):
        pass


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "a/b"}, "letters"),
        ({"slots": 0}, "at least one"),
        ({"slot_bytes": 5000}, "multiple of 4096"),
        ({"slot_bytes": 1 << 32}, "at most 2 GiB"),
        ({"slots": 100_000, "slot_bytes": 1 << 30}, "needs 102400001 MiB for each"),
    ],
)
def test_what_cannot_be_made_is_refused_in_one_line(arguments, message):
    with pytest.raises(CollectError, match=message) as caught:
        Channel.create(**{"name": "x", "tables": NUMBERS, **arguments})
    assert "\n" not in str(caught.value)


def test_a_producer_without_room_for_slots_is_still_counted(monkeypatch):
    allocate = os.posix_fallocate

    def small(fd: int, offset: int, size: int) -> None:
        if size > 65536:
            raise OSError(28, "No space left on device")
        allocate(fd, offset, size)

    monkeypatch.setattr(os, "posix_fallocate", small)
    with Channel.create("room", tables=NUMBERS) as channel:
        writer = RingWriter(str(channel.folder))
        writer.write("numbers", {"value": [1, 2]})
        writer.write("numbers", {"value": [3]})
        writer.close()
        assert take_rows(channel) == []
        assert loss_of(channel, FULL) == (2, 3)


def test_damage_is_counted_and_passed_over():
    with Channel.create("damage", tables=NUMBERS, slots=8, slot_bytes=4096) as channel:
        writer = RingWriter(str(channel.folder))
        for value in range(7):
            writer.write("numbers", {"value": [value], "text": ["abc"]})
        memory, first = writer._memory, writer._slots_at
        memory[first + 28] ^= 1  # rows of batch 0, against the checksum
        writer._words[(first + 4096) // 8] += 8  # batch 1 says that it is batch 9
        writer._words[(first + 2 * 4096 + 16) // 8] = 77  # batch 2 has another sequence
        at = first + 3 * 4096 + layout.REGIONS_AT + 8  # batch 3: a region outside, summed anew
        layout.CHECKSUM.pack_into(memory, at, 1 << 30)
        slot = memory[first + 3 * 4096 : first + 4 * 4096]
        layout.CHECKSUM.pack_into(slot, layout.CHECKSUM_AT, layout.batch_checksum(slot, 5))
        text = bytes(memory[first + 4 * 4096 : first + 5 * 4096]).index(b"abc")
        memory[first + 4 * 4096 + text] = 0xFF  # batch 4: invalid UTF-8
        (channel.folder / "ring-0-0-0").write_bytes(b"no ring")
        assert take_rows(channel) == [5, 6]
        assert loss_of(channel, DAMAGED)[0] == 5
        assert loss_of(channel, channel_module._UNREADABLE)[0] == 1
