"""Reading the wire format of protocol buffers: sound, cut, damaged, large."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.collect.containers.protobuf_fields import (
    FIXED32,
    FIXED64,
    LENGTH,
    VARINT,
    MessageFile,
    MessageStream,
    Place,
    WireError,
    fields,
    integers,
    number,
    signed,
    text,
)
from tests.protobuf_encoder import field, message, varint

VALUES = st.one_of(
    st.integers(0, (1 << 64) - 1), st.binary(max_size=40), st.floats(allow_nan=False)
)
PAIRS = st.lists(st.tuples(st.integers(1, (1 << 29) - 1), VALUES), max_size=8)


@given(PAIRS)
def test_what_was_encoded_is_read(pairs):
    found = list(fields(message(*pairs)))
    assert len(found) == len(pairs)
    for (name, wire, value), (wanted_name, wanted) in zip(found, pairs, strict=True):
        assert name == wanted_name
        if isinstance(wanted, float):
            assert wire == FIXED64
            assert number(value) == wanted
        else:
            assert value == wanted
            assert wire == (LENGTH if isinstance(wanted, bytes) else VARINT)


def test_the_examples_of_the_specification():
    assert list(fields(bytes.fromhex("089601"))) == [(1, VARINT, 150)]
    assert list(fields(bytes.fromhex("120774657374696e67"))) == [(2, LENGTH, b"testing")]
    assert integers(bytes.fromhex("038e029ea705")) == [3, 270, 86942]
    assert integers(7) == [7]
    assert signed((1 << 64) - 2) == -2
    assert text(b"a\xff") == "a\N{REPLACEMENT CHARACTER}"


def test_groups_and_four_byte_values():
    group = varint(5 << 3 | 3) + message((1, 7), (2, b"x")) + varint(5 << 3 | 4)
    nested = varint(6 << 3 | 3) + group + varint(6 << 3 | 4)
    four = varint(9 << 3 | 5) + (77).to_bytes(4, "little")
    whole = message((1, 1)) + nested + four
    assert list(fields(whole)) == [(1, VARINT, 1), (9, FIXED32, 77)]
    held = MessageFile(io.BytesIO(whole), len(whole))
    assert list(held.fields(held.whole)) == [(1, VARINT, 1), (9, FIXED32, 77)]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\x08", "ends early"),
        (b"\x08\x80", "ends early"),
        (b"\x08" + b"\x80" * 10 + b"\x01", "more than 10 bytes"),
        (b"\x0a\x05abc", "longer than its message"),
        (b"\x00\x01", "without a number"),
        (b"\x0b\x08\x01", "ends early"),
        (b"\x0c", "no known type"),
        (b"\x0f", "no known type"),
        (b"\x09\x01", "longer than its message"),
        (b"\x0b" * 100, "without an end"),
    ],
)
def test_bytes_that_are_no_message(data, problem):
    with pytest.raises(WireError, match=problem):
        list(fields(data))


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data):
    try:
        held = list(fields(data))
    except WireError:
        held = None
    file = MessageFile(io.BytesIO(data), len(data))
    from_file = list(file.fields(file.whole))
    assert (held is None) == bool(file.cut)
    if held is not None:
        assert from_file == held


def chunked(data, size):
    return iter([data[at : at + size] for at in range(0, len(data), size)])


@given(st.lists(st.binary(max_size=300), max_size=6), st.integers(1, 50))
def test_a_stream_of_messages_in_any_chunks(messages, size):
    data = b"".join(field(1, each) for each in messages)
    stream = MessageStream(chunked(data, size))
    assert list(stream) == [(1, each) for each in messages]
    assert (stream.kept, stream.cut) == (len(messages), "")


def test_a_stream_skips_what_is_no_message():
    data = field(3, 300) + field(4, 1.5) + field(1, b"abc")
    assert list(MessageStream(chunked(data, 2))) == [(1, b"abc")]


def test_a_stream_says_where_it_was_cut():
    data = field(1, b"abc") + field(1, b"defg")
    stream = MessageStream(chunked(data[:-1], 4))
    assert list(stream) == [(1, b"abc")]
    assert stream.cut == "the file ends early: cut at byte 5"
    stream = MessageStream(chunked(data[:-1], 4), ["the gzip data ends early"])
    list(stream)
    assert stream.cut == "the gzip data ends early: cut at byte 5"
    stream = MessageStream(chunked(field(1, b"abc") + b"\x0f", 4))
    assert list(stream) == [(1, b"abc")]
    assert stream.cut == "a field of no known type: cut at byte 5"
    stream = MessageStream(iter([b"\x0a" + varint(1 << 40)]))
    assert list(stream) == []
    assert "a message of 1099511627776 bytes" in stream.cut


def test_large_fields_of_a_file_are_places():
    inner = message((1, b"x" * 100), *((2, value) for value in range(50_000)))
    data = message((7, 9), (1, inner), (3, b"small"))
    file = MessageFile(io.BytesIO(data), len(data))
    [(_, _, nine), (_, _, large), (_, _, small)] = list(file.fields(file.whole))
    assert (nine, small) == (9, b"small")
    assert isinstance(large, Place)
    assert large.end - large.start == len(inner)
    found = list(file.fields(large))
    assert found[0] == (1, LENGTH, b"x" * 100)
    assert [value for _, _, value in found[1:]] == list(range(50_000))
    assert file.cut == ""


def test_a_large_field_cut_short_keeps_what_is_there():
    inner = message(*((2, value) for value in range(50_000)))
    data = message((1, inner))[:100_000]
    file = MessageFile(io.BytesIO(data), len(data))
    [(_, _, large)] = list(file.fields(file.whole))
    kept = [value for _, _, value in file.fields(large)]
    assert kept == list(range(len(kept)))
    assert 20_000 < len(kept) < 50_000
    assert file.cut == "the file ends early: cut at byte 100000"
