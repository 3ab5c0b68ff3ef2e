"""Reading event arrays: any block size, anywhere in the object, whole or damaged."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.collect.containers.json_events import EventReader
from pasta.collect.losses import Losses
from pasta.errors import InputError

decode = msgspec.json.Decoder(list[dict]).decode

TEXT = st.text(st.sampled_from('ab"\\{}[],: é\n'), max_size=6)
VALUE = st.recursive(
    st.none() | st.integers(-5, 5) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=6,
)
EVENTS = st.lists(
    st.fixed_dictionaries({"ph": st.sampled_from("XiM"), "name": TEXT, "args": VALUE}), max_size=12
)
METADATA = st.dictionaries(st.sampled_from(["before", "after", "z"]), VALUE, max_size=3)


def read(text, *, block_bytes=1 << 20, chunk=7, damage=(), **options):
    data = text if isinstance(text, bytes) else text.encode()
    chunks = (data[start : start + chunk] for start in range(0, len(data), chunk))
    losses = Losses("test", "file", **options)
    reader = EventReader(chunks, decode, losses, damage, block_bytes=block_bytes)
    events = [event for block in reader for event in block]
    return events, reader, {loss.reason: loss.count for loss in losses}


def layout(events, metadata, indent, place):
    keys = list(metadata.items())
    keys.insert(place % (len(keys) + 1), ("traceEvents", events))
    return json.dumps(dict(keys), indent=indent, ensure_ascii=False)


@settings(deadline=None, max_examples=200)
@given(
    EVENTS, METADATA, st.sampled_from([None, 2]), st.integers(0, 3), st.sampled_from([1, 30, 200])
)
def test_blocks_of_any_size_give_the_same_events(events, metadata, indent, place, block_bytes):
    found, reader, losses = read(layout(events, metadata, indent, place), block_bytes=block_bytes)
    assert found == events
    assert reader.metadata == metadata
    assert reader.complete
    assert reader.cut == ""
    assert losses == {}


@given(EVENTS, st.sampled_from([1, 50]))
def test_a_bare_array_is_read(events, block_bytes):
    found, reader, losses = read(json.dumps(events), block_bytes=block_bytes)
    assert (found, reader.complete, losses) == (events, True, {})


@settings(deadline=None, max_examples=200)
@given(EVENTS.filter(bool), st.data(), st.sampled_from([1, 40, 500]))
def test_two_readers_meet_at_one_boundary(events, data, block_bytes):
    text = json.dumps({"a": 1, "traceEvents": events, "b": [{"ph": 2}, {"ph": 3}]}).encode()
    byte = data.draw(st.integers(0, len(text)))
    losses = Losses("test")
    first = EventReader(iter([text]), decode, losses, block_bytes=block_bytes, stop=byte)
    found = [event for block in first for event in block]
    second = EventReader(iter([text]), decode, losses, block_bytes=block_bytes)
    if first.seam is None:
        assert (found, first.complete) == (events, True)
        return
    rest = [event for block in second.start_after(byte, bare=False) for event in block]
    assert first.seam == second.seam
    assert found + rest == events
    assert second.complete
    assert first.metadata | second.metadata == {"a": 1, "b": [{"ph": 2}, {"ph": 3}]}
    assert found + [event for block in first.go_on() for event in block] == events


EVENT = '{"ph": "X", "name": "%s", "args": {"n": %d}}'


def trace(count, name="k"):
    return '{"traceEvents": [' + ",\n".join(EVENT % (name, n) for n in range(count)) + "]}"


@pytest.mark.parametrize("block_bytes", [1, 100, 1 << 20])
@pytest.mark.parametrize("share", [0.35, 0.5, 0.9, 0.99])
def test_a_cut_file_keeps_its_complete_events(block_bytes, share):
    whole = trace(50)
    end = int(len(whole) * share)
    events, reader, losses = read(whole[:end], block_bytes=block_bytes)
    assert [event["args"]["n"] for event in events] == list(range(whole[:end].count("}}")))
    assert reader.cut == f"the file ends early: cut at byte {end}"
    assert losses == {}


def test_a_damaged_stream_says_why_it_was_cut():
    _, reader, _ = read(trace(3)[:-20], damage=["the gzip data ends early, at byte 9"])
    assert reader.cut.startswith("the gzip data ends early, at byte 9: cut at byte ")


@pytest.mark.parametrize("block_bytes", [1, 1 << 20])
def test_infinities_become_null_and_are_counted(block_bytes):
    text = '{"traceEvents": [{"ph": "X", "name": "inf, nan", "a": inf, "b": [-inf, NaN, 2]}]}'
    events, _, losses = read(text, block_bytes=block_bytes)
    assert events == [{"ph": "X", "name": "inf, nan", "a": None, "b": [None, None, 2]}]
    assert losses == {"inf or nan: read as null": 3}


@pytest.mark.parametrize("block_bytes", [1, 1 << 20])
def test_invalid_utf8_is_replaced_and_counted(block_bytes):
    text = trace(3).encode().replace(b'"k", "args": {"n": 1}', b'"\xf0\x28", "args": {"n": 1}')
    events, _, losses = read(text, block_bytes=block_bytes)
    assert [event["name"] for event in events] == ["k", "\ufffd(", "k"]
    assert losses == {"invalid UTF-8: replaced by U+FFFD": 1}


@pytest.mark.parametrize("block_bytes", [1, 60, 1 << 20])
def test_an_event_that_cannot_be_repaired_is_left_out_alone(block_bytes):
    text = trace(5).replace('"k", "args": {"n": 2}', '"k"quoted"", "args": {"n": 2}')
    events, reader, losses = read(text, block_bytes=block_bytes)
    assert [event["args"]["n"] for event in events] == [0, 1, 3, 4]
    assert losses == {"damaged event: left out": 1}
    assert reader.complete


@pytest.mark.parametrize("block_bytes", [1, 60, 1 << 20])
def test_control_characters_and_bad_escapes_are_repaired(block_bytes):
    text = trace(3).replace('"k", "args": {"n": 1}', '"torch\\cuda\n\\x", "args": {"n": 1}')
    events, _, losses = read(text, block_bytes=block_bytes)
    assert [event["name"] for event in events] == ["k", "torch\\cuda \\x", "k"]
    assert losses == {"event with control characters, bad escapes, inf or nan: repaired": 1}


@pytest.mark.parametrize("block_bytes", [1, 60, 1 << 20])
@pytest.mark.parametrize("place", [0, 2])
def test_halves_of_characters_are_replaced(block_bytes, place):
    arguments = f', "args": {{"n": {place}}}'
    halved = '"a\\ud83d\\ude00b\\ud800\\u0041\\udfffc"'
    text = trace(3).replace('"k"' + arguments, halved + arguments)
    events, reader, losses = read(text, block_bytes=block_bytes)
    assert [event["name"] for event in events].index("a\U0001f600b\ufffdA\ufffdc") == place
    assert losses == {"event with control characters, bad escapes, inf or nan: repaired": 1}
    assert reader.complete


@pytest.mark.parametrize("block_bytes", [1, 60, 1 << 20])
@pytest.mark.parametrize("after", ["", ', "base": 7'])
def test_what_follows_a_damaged_last_event_is_read(block_bytes, after):
    sound = '{"ph": "X", "name": "k"}'
    damaged = '{"ph": "X", "name": "a"b", "args": {"list": [{"of": 1}]}}'
    text = f'{{"traceEvents": [{sound}, {damaged}]{after}}}'
    events, reader, losses = read(text, block_bytes=block_bytes)
    assert [event["name"] for event in events] == ["k"]
    assert losses == {"damaged event: left out": 1}
    assert reader.complete
    assert reader.metadata == ({"base": 7} if after else {})


@pytest.mark.parametrize("block_bytes", [1, 60, 1 << 20])
@pytest.mark.parametrize("comma", [",", ",\r\n", " ,, "])
@pytest.mark.parametrize("after", ["", ', "base": 7'])
def test_a_comma_behind_the_last_event_costs_nothing(block_bytes, comma, after):
    name = "operator[1, ]"
    text = trace(3, name).replace("]}", f"{comma}]{after}}}")
    events, reader, losses = read(text, block_bytes=block_bytes, strict=True)
    assert [event["name"] for event in events] == [name] * 3
    assert (losses, reader.complete) == ({}, True)
    assert reader.metadata == ({"base": 7} if after else {})


@pytest.mark.parametrize("rest", ["x", '{"traceEvents": []}', "}", "]"])
@pytest.mark.parametrize("bare", [False, True])
def test_what_stands_behind_the_end_is_counted(rest, bare):
    whole = f"[{EVENT % ('k', 0)}]" if bare else trace(1)
    events, reader, losses = read(f"{whole}\n{rest}\n")
    assert (len(events), reader.complete) == (1, True)
    assert losses == {"data behind the end of the JSON: left out": 1}
    assert read(f"{whole}\n \n")[2] == {}


def test_strict_names_the_byte_of_a_damaged_event():
    text = trace(3).replace('{"n": 1}', '{"n": }')
    with pytest.raises(InputError, match=rf"file at byte {text.index(EVENT[:13], 30)} ") as error:
        read(text, strict=True)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("number", ["nan", "-Infinity"])
def test_the_byte_of_a_damaged_event_is_not_told_where_repairs_moved_it(number):
    """What stands for infinities is shorter or longer than they are."""
    text = trace(3).replace('{"n": 0}', f'{{"n": {number}}}').replace('{"n": 1}', '{"n": }')
    losses = Losses("file")
    list(EventReader(iter([text.encode()]), decode, losses))
    [damaged] = [loss.where for loss in losses if loss.reason.startswith("damaged")]
    first = text.index(EVENT[:13])
    assert damaged.startswith(f"byte {first} or later (")


@pytest.mark.parametrize("text", ["hello", "name: x\n", "<xml/>", "\x00\x01"])
def test_what_is_no_json_is_refused(text):
    with pytest.raises(InputError, match="file: not JSON"):
        read(text)


def test_metadata_around_the_events_may_be_large_and_nested():
    big = {"ranks": list(range(50_000)), "text": 'a"}],{' * 100}
    text = json.dumps({"info": big, "traceEvents": [{"ph": "M"}], "more": big})
    events, reader, losses = read(text, block_bytes=64, chunk=1000)
    assert events == [{"ph": "M"}]
    assert reader.metadata == {"info": big, "more": big}
    assert losses == {}
