"""The reader of pickles: the same values as Python's own, and nothing that runs."""

from __future__ import annotations

import contextlib
import os
import pickle
import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.collect.containers import pickle_machine
from pasta.collect.containers.pickle_stream import PickleStream
from pasta.collect.losses import Losses
from pasta.errors import InputError

LISTS = {"segments": 1, "device_traces": 2}
PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 200), 1 << 200)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=()), max_size=300)
)
KEYS = st.text(max_size=5) | st.integers() | st.booleans() | st.tuples(st.integers(), st.text())


def nested(scalars):
    return st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=6)
            | st.lists(inner, max_size=4).map(tuple)
            | st.dictionaries(KEYS, inner, max_size=4)
        ),
        max_leaves=30,
    )


RECORDS = st.dictionaries(KEYS, nested(SCALARS), max_size=4)


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """A function that gives (what was handed out, the rest, losses) for the bytes of a pickle."""
    file = tmp_path_factory.mktemp("pickle") / "p"

    def run(data, *, batch=7, lists=LISTS):
        file.write_bytes(data)
        losses = Losses("test", "p.pickle")
        stream = PickleStream(file, losses, lists, batch=batch)
        found = {}
        for key, place, items in stream:
            found.setdefault((key, place), []).extend(items)
        assert stream.handed_out == sum(map(len, found.values()))
        return found, stream.value, [loss.reason for loss in losses]

    return run


def same(value, other):
    """Whether two values are equal and of the same types, signs of zero included."""
    return repr(value) == repr(other)


@settings(max_examples=150, deadline=None)
@given(value=nested(SCALARS), protocol=st.sampled_from(PROTOCOLS))
def test_plain_data_of_all_protocols(read, value, protocol):
    _, found, losses = read(pickle.dumps(value, protocol))
    assert same(found, value)
    assert losses == []


@settings(max_examples=50, deadline=None)
@given(value=nested(SCALARS | st.binary(max_size=300)), protocol=st.sampled_from([3, 4, 5]))
def test_bytes_where_pickles_have_them(read, value, protocol):
    assert same(read(pickle.dumps(value, protocol))[1], value)


@settings(max_examples=50, deadline=None)
@given(
    traces=st.lists(st.lists(SCALARS | RECORDS, max_size=12), max_size=3),
    segments=st.lists(nested(SCALARS), max_size=12),
    protocol=st.sampled_from(PROTOCOLS),
    batch=st.integers(1, 9),
)
def test_lists_are_handed_out_in_order_and_not_kept(read, traces, segments, protocol, batch):
    parts = {"segments": segments, "other": [[1], [2]], "device_traces": traces}
    value = parts if batch % 2 else dict(reversed(parts.items()))
    found, rest, _ = read(pickle.dumps(value, protocol), batch=batch)
    expected = {("device_traces", place): trace for place, trace in enumerate(traces) if trace}
    if segments:
        expected["segments", 0] = segments
    assert same(sorted(found.items()), sorted(expected.items()))
    empty = {"segments": [], "other": [[1], [2]], "device_traces": [[] for _ in traces]}
    assert rest == empty


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_values_that_repeat_are_fetched_as_often_as_needed(read, protocol):
    frame, shared = {"name": "f"}, ["x", {"y": 1}]
    events = [
        {"frames": [frame, frame], "shared": shared, "n": n, "text": f"text {n // 3}"}
        for n in range(3000)
    ]
    value = {
        "pad": [str(n) for n in range(300)],
        "device_traces": [events],
        "again": [shared, frame],
    }
    found, rest, _ = read(pickle.dumps(value, protocol))
    assert found["device_traces", 0] == events
    assert rest["again"] == [shared, frame]
    assert rest["again"][0] is found["device_traces", 0][0]["shared"]


def test_batches_come_before_the_pickle_is_read_to_its_end(tmp_path):
    events = [{"n": n, "text": "x" * 100 + str(n)} for n in range(20_000)]
    file = tmp_path / "p"
    file.write_bytes(pickle.dumps({"device_traces": [events]}))
    del events
    tracemalloc.start()
    sizes = []
    for elements in PickleStream(file, Losses("test"), LISTS, batch=100):
        sizes.append(len(elements.items))
        del elements
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(sizes) == 20_000
    assert max(sizes) <= 1100  # Python's pickler adds to lists a thousand at a time
    assert peak < 6 << 20 < file.stat().st_size * 8


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_pickle_with_a_function_in_it_runs_nothing(read, tmp_path, protocol):
    made = tmp_path / "made"
    data = pickle.dumps({"device_traces": [[{"addr": 1}, Evil(made)]]}, protocol)
    with pytest.raises(
        InputError, match=r"p\.pickle: holds the class or function '(posix|nt)\.mkdir"
    ):
        read(data)
    assert not made.exists()
    pickle.loads(data)
    assert made.exists()


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"cos\nsystem\n(S'true'\ntR.", "'os.system'"),
        (b"(S'true'\nios\nsystem\n.", "Python 2"),
        (b"(ios\nsystem\n.", "'os.system'"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "'os.system'"),
        (b"\x80\x02\x82\x01.", "a registered class"),
        (b"Pid\n.", "outside the file"),
        (b"Nb.", "the state of an object"),
        (b"\x80\x02N)\x81.", "an object of a class"),
        (b"(No.", "an object of a class"),
        (b"\x80\x05N\x97.", "a buffer"),
        (pickle.dumps({1, 2}, 4), "a set"),
        (pickle.dumps({1, 2}, 2), "set'"),
        (pickle.dumps(1j), "'builtins.complex'"),
    ],
)
def test_whatever_is_no_plain_data_is_refused_by_name(read, data, named):
    with pytest.raises(InputError) as refusal:
        read(data)
    assert named in str(refusal.value)
    assert "\n" not in str(refusal.value)


SELF = []
SELF.append(SELF)
RING = {"a": [1, 2]}
RING["a"].append(RING)
TUPLE = ([],)
TUPLE[0].append(TUPLE)


@pytest.mark.parametrize("value", [SELF, RING, TUPLE])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_values_that_contain_themselves_are_refused(read, value, protocol):
    with pytest.raises(InputError, match="contains itself"):
        read(pickle.dumps(value, protocol))


def test_unmarked_rings_are_refused(read):
    with pytest.raises(InputError, match="contains itself"):
        read(b"\x80\x04]\x94]\x94h\x00aa.")


@pytest.mark.parametrize(
    "data",
    [
        b"(" * 100_000,
        b"\x80\x04" + b"](" * 100_000,
        b"]" * 100_000 + b"a" * 99_999 + b".",
        b"N" + b"\x85" * 100_000 + b".",
        b"\x80\x04X\xff\xff\xff\xff",
        b"\x80\x04\x8d" + struct.pack("<Q", 1 << 62),
        b"\x80\x04\x8e" + struct.pack("<Q", (1 << 64) - 1),
        b"\x80\x05\x96" + struct.pack("<Q", 1 << 40),
        b"\x80\x02\x8b\xff\xff\xff\x7f",
        b"\x80\x02\x8b\xff\xff\xff\xff",
        b"I" + b"9" * 10_000 + b"\n.",
        b"\x80\x04N.trailing"[:3],
        b"e.",
        b"u.",
        b"s.",
        b"a.",
        b"\x86.",
        b"]]a]a",
        b"h\x07.",
        b"j\x00\x00\x00\x01.",
        b"gx\n.",
        b"\x80\x04}(]Nu.",
        b"\x80\x04}(Nu.",
        b"\x80\x04N(N.",
        b"NN.",
        b".",
        b"\xfe",
        b"not a pickle",
        b"V\\ud8\n.",
        b"\x8c\x02\xff\xfe.",
        b"Fx\n.",
    ],
)
def test_bombs_and_nonsense_end_in_an_error_or_a_counted_cut(read, data):
    tracemalloc.start()
    with contextlib.suppress(InputError):
        _, value, losses = read(data)
        assert value is None
        assert [reason.split(" at ")[0] for reason in losses] == ["pickle cut"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 << 20


def test_what_fills_memory_is_refused(read, monkeypatch):
    monkeypatch.setattr(pickle_machine, "_HELD_MAX", 1 << 24)
    with pytest.raises(InputError, match="holds too much at once"):
        read(b"\x80\x04(" + b"}" * (4 << 20))


def test_long_texts_that_are_fetched_much_later_are_too_much(read, monkeypatch):
    monkeypatch.setattr(pickle_machine, "_HELD_MAX", 16 << 20)
    texts = [{"a": f"{number:09}" * 10_000} for number in range(300)]

    def twice(elements):
        return pickle.dumps({"segments": [dict(element) for element in elements * 2]}, 4)

    assert read(twice(texts[:20]))[0]["segments", 0] == texts[:20] * 2
    with pytest.raises(InputError, match="holds too much at once"):
        read(twice(texts))


def test_a_large_number_of_elements_is_not_too_much(read, monkeypatch):
    monkeypatch.setattr(pickle_machine, "_HELD_MAX", 1 << 23)
    events = [{"a": n, "b": [n]} for n in range(60_000)]
    found, _, _ = read(pickle.dumps({"device_traces": [events]}, 4), batch=1000)
    assert found["device_traces", 0] == events


EVENTS = [{"n": n, "text": f"text {n}", "list": [n, {"n": n}]} for n in range(20)]


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_cut_pickle_gives_all_complete_events(read, protocol):
    data = pickle.dumps({"device_traces": [EVENTS]}, protocol)
    ends = [0]
    for cut in range(len(data)):
        found, value, losses = read(data[:cut])
        kept = found.get(("device_traces", 0), [])
        assert kept == EVENTS[: len(kept)]
        assert value is None
        assert losses == [f"pickle cut at byte {cut}, {len(kept)} elements kept"]
        assert len(kept) in (ends[-1], ends[-1] + 1)
        ends.append(len(kept))
    assert ends[-1] == len(EVENTS)


def test_strict_refuses_a_cut(tmp_path):
    file = tmp_path / "p"
    file.write_bytes(pickle.dumps([1, 2, 3])[:-3])
    with pytest.raises(InputError, match=r"p at byte \d+: pickle cut"):
        list(PickleStream(file, Losses("test", "p", strict=True), LISTS))


BASE = pickle.dumps(
    {
        "segments": [{"blocks": [{"size": 3}]}],
        "device_traces": [EVENTS[:6], EVENTS[:3]],
        "rest": (1, None, 2.5, b"x", 1 << 80),
    }
)


@settings(max_examples=400, deadline=None)
@given(
    edits=st.lists(
        st.tuples(st.integers(0, len(BASE) - 1), st.binary(max_size=6), st.integers(0, 6)),
        min_size=1,
        max_size=6,
    ),
    batch=st.integers(1, 5),
)
def test_damage_gives_values_or_one_error(read, edits, batch):
    data = bytearray(BASE)
    for at, new, removed in edits:
        data[at : at + removed] = new
    with contextlib.suppress(InputError):
        read(bytes(data), batch=batch)


@settings(max_examples=300, deadline=None)
@given(
    data=st.lists(
        st.sampled_from([bytes([n]) for n in b"()]}NKahjqr\x94tseulod.\x85\x86\x870\x00\x01"]),
        max_size=60,
    )
)
def test_any_operations_give_values_or_one_error(read, data):
    with contextlib.suppress(InputError):
        read(b"".join(data))
