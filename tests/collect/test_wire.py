from __future__ import annotations

import itertools
import os

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.collect.channel import Channel
from pasta.collect.wire import TEXT, TEXTS, WIRE_TABLES, Decoder
from pasta.schema import TABLES, arrow_schema
from tests.collect.wire_help import Writer


class Reader:
    """What the receiver does with batches."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.decoders: dict[str, Decoder] = {}
        self.tables: dict[tuple[int, str], list[pa.Table]] = {}

    def read(self, *, lose: str = "") -> None:
        """Take all that is there, except batches of the table `lose`."""
        for batch in iter(self._channel.poll, None):
            with batch:
                producer = batch.producer
                decoder = self.decoders.setdefault(batch.ring, Decoder(producer))
                if batch.table == lose:
                    continue
                if batch.table in (TEXT, TEXTS):
                    decoder.learn(batch.table, batch.rows)
                    continue
                rows = decoder.rows(batch.table, batch.rows)
                self.tables.setdefault((producer.rank, batch.table), []).append(rows)

    def rows(self, rank: int, table: str) -> list[dict]:
        parts = self.tables.get((rank, table), [])
        return list(itertools.chain.from_iterable(part.to_pylist() for part in parts))


def values(kind: pa.DataType) -> st.SearchStrategy:
    """Values of a column as collectors give them: lists are tuples."""
    if pa.types.is_string(kind):
        return st.text(max_size=6)
    if pa.types.is_list(kind) and pa.types.is_string(kind.value_type):
        return st.lists(st.text(max_size=3), max_size=3).map(tuple)
    if pa.types.is_list(kind):
        return st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3).map(tuple)
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_floating(kind):
        return st.floats(allow_nan=False)
    if pa.types.is_unsigned_integer(kind):
        return st.integers(0, 2**kind.bit_width - 1)
    return st.integers(-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)


@st.composite
def any_rows(draw: st.DrawFn) -> tuple[str, tuple[str, ...], list[tuple]]:
    table = draw(st.sampled_from(sorted(TABLES)))
    known = {f.name: f.type for f in arrow_schema(table) if f.name not in ("rank", "pid")}
    names = draw(st.lists(st.sampled_from(sorted(known)), min_size=1, unique=True))
    row = st.tuples(*(st.none() | values(known[name]) for name in names))
    return table, tuple(names), draw(st.lists(row, max_size=8))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), any_rows()), max_size=8))
def test_rows_of_any_table_come_out_as_they_went_in(written):
    with Channel.create("wire", slots=64, slot_bytes=8192, tables=WIRE_TABLES) as channel:
        writers = [Writer(channel, rank) for rank in (0, 1)]
        reader = Reader(channel)
        expected: dict[tuple[int, str], list[dict]] = {}
        for rank, (table, names, rows) in written:
            writers[rank].write(table, names, rows)
            reader.read()
            for row in rows:
                given_values = {
                    name: list(value) if isinstance(value, tuple) else value
                    for name, value in zip(names, row, strict=True)
                }
                whole = {"rank": rank, "pid": os.getpid(), **given_values}
                expected.setdefault((rank, table), []).append(whole)
        found = {key: reader.rows(*key) for key in expected}
        assert found == expected
        assert sum(decoder.unknown for decoder in reader.decoders.values()) == 0


@settings(max_examples=60, deadline=None)
@given(any_rows())
def test_what_is_read_has_the_types_of_the_trace(written):
    table, names, rows = written
    with Channel.create("wire", slots=64, slot_bytes=8192, tables=WIRE_TABLES) as channel:
        Writer(channel, 0).write(table, names, rows)
        reader = Reader(channel)
        reader.read()
    for part in reader.tables.get((0, table), []):
        for field in part.schema:
            assert field.type == arrow_schema(table).field(field.name).type


def spans(*names: str | None) -> list[tuple]:
    return [(ts, name) for ts, name in enumerate(names)]


@pytest.fixture
def channel():
    with Channel.create("wire", slots=64, slot_bytes=8192, tables=WIRE_TABLES) as made:
        yield made


def test_ids_of_texts_belong_to_their_ring(channel):
    first, second = Writer(channel, 0), Writer(channel, 1)
    first.write("span", ("ts", "name"), spans("a", "b"))
    second.write("span", ("ts", "name"), spans("b", "c"))
    first.write("span", ("ts", "name"), spans("b", "a"))
    reader = Reader(channel)
    reader.read()
    assert [row["name"] for row in reader.rows(0, "span")] == ["a", "b", "b", "a"]
    assert [row["name"] for row in reader.rows(1, "span")] == ["b", "c"]


def test_a_lost_text_is_null_and_counted_and_those_after_it_are_not(channel):
    writer, reader = Writer(channel, 0), Reader(channel)
    writer.write("span", ("ts", "name"), spans("a", None))
    reader.read()
    writer.write("span", ("ts", "name"), spans("lost", "a", None, "lost"))
    reader.read(lose=TEXT)
    writer.write("span", ("ts", "name"), spans("lost", "after", "a"))
    reader.read()
    names = [row["name"] for row in reader.rows(0, "span")]
    assert names == ["a", None, None, "a", None, None, None, "after", "a"]
    assert [decoder.unknown for decoder in reader.decoders.values()] == [3]


def test_rows_outlive_the_shared_memory_that_they_came_in(channel):
    writer, reader = Writer(channel, 0), Reader(channel)
    for number in range(200):  # more than three times around the ring
        writer.write("span", ("ts", "name"), [(number, f"span {number}")])
        reader.read()
    assert [(row["ts"], row["name"]) for row in reader.rows(0, "span")] == [
        (number, f"span {number}") for number in range(200)
    ]


def test_every_table_of_a_trace_travels_without_rank_and_pid():
    assert set(WIRE_TABLES) == {*TABLES, "text", "texts", "file", "warp_access"}
    for table in TABLES:
        names = set(WIRE_TABLES[table].names)
        known = {name.removesuffix("_texts").removesuffix("_text") for name in names}
        assert known == set(arrow_schema(table).names) - {"rank", "pid"}
