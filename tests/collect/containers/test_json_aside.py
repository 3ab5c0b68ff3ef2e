"""Lists of a document set aside on disk: the rest and the lists are what was there."""

from __future__ import annotations

import json
import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.collect.containers import json_aside
from pasta.collect.containers.json_aside import Aside

COMMA = re.compile(rb"(,)")
ENDS = {b"numbers": rb"\]", b"lists": rb"\]\s*\]"}
NUMBERS = st.lists(st.integers(0, 999), max_size=40)
OBJECTS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "numbers": NUMBERS,
            "lists": st.lists(NUMBERS, max_size=8),
            "name": st.sampled_from(["", "numbers", 'a "numbers": [1]', "]]", "\\"]),
            "other": st.lists(st.integers(), max_size=3),
        },
    ),
    max_size=5,
)


def chunks(text, sizes):
    at = 0
    for size in sizes:
        yield text[at : at + size]
        at += size
    yield text[at:]


@given(
    objects=OBJECTS,
    indent=st.sampled_from([None, 1]),
    sizes=st.lists(st.integers(1, 200), max_size=30),
    block=st.integers(1, 50),
)
@settings(max_examples=150, deadline=None)
def test_nothing_is_lost_whatever_the_chunks(tmp_path_factory, objects, indent, sizes, block):
    text = json.dumps({"objects": objects}, indent=indent).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_aside, "_KEPT_BYTES", 64)
        aside = Aside(tmp_path_factory.mktemp("a") / "absent" / "lists", ENDS)
        rest = json.loads(b"".join(aside.rest_of(chunks(text, sizes))))["objects"]
        for found, known in zip(rest, objects, strict=True):
            for key in ("numbers", "lists"):
                if key in known:
                    place = aside.place_of(msgspec.Raw(json.dumps(found[key]).encode()))
                    blocks = list(aside.blocks(place, COMMA, block))
                    assert json.loads(b"[" + b",".join(blocks) + b"]") == known[key]
                    assert key == "lists" or all(len(each) < block + 70 for each in blocks)
            assert {k: v for k, v in found.items() if k not in ("numbers", "lists")} == {
                k: v for k, v in known.items() if k not in ("numbers", "lists")
            }


def test_what_refers_to_nothing(tmp_path):
    aside = Aside(tmp_path / "lists", ENDS)
    assert (
        b"".join(aside.rest_of(iter([b'{"numbers": [1, 2]}']))) == b'{"numbers": {"aside":[0,6]}}'
    )
    assert aside.place_of(msgspec.Raw(b'{"aside":[0,6]}')) == (0, 6)
    for text in (
        b'{"aside":[0,7]}',
        b'{"aside":[3,1]}',
        b'{"aside":[-1,2]}',
        b"[1]",
        b"null",
        b"{",
    ):
        assert aside.place_of(msgspec.Raw(text)) is None
