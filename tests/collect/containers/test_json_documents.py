"""A JSON document is read whole, or as far as it makes sense."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.collect.containers import json_documents
from pasta.collect.containers.json_documents import read_document
from pasta.collect.losses import Losses
from pasta.collect.sources import Source
from pasta.errors import InputError


def read(text: bytes, *, kind: object = object, strict: bool = False) -> tuple[object, list[str]]:
    losses = Losses("test", "x.json", strict=strict)
    source = Source("x.json", text[:64], iter([text[:7], text[7:]]), len(text))
    document = read_document(source, msgspec.json.Decoder(kind).decode, losses)
    return document, [loss.reason for loss in losses]


values = st.recursive(
    st.none() | st.integers(0, 99) | st.text(alphabet='a,]}"[\\', max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab{", max_size=2), inner),
)


def is_start_of(part: object, whole: object) -> bool:
    """Whether `part` is `whole` with all that follows one place left out."""
    if isinstance(part, list) and isinstance(whole, list):
        inner = all(a == b for a, b in zip(part[:-1], whole, strict=False))
        return (
            len(part) <= len(whole)
            and inner
            and (not part or is_start_of(part[-1], whole[len(part) - 1]))
        )
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and is_start_of(part[key], whole[key]) for key in part)
    return part == whole


@given(st.lists(values, min_size=1), st.data())
def test_a_cut_document_keeps_whole_elements_only(
    document: list[object], data: st.DataObject
) -> None:
    text = json.dumps(document).encode()
    assert read(text) == (document, [])
    cut = text[: data.draw(st.integers(1, len(text) - 1))]
    part, lost = read(cut)
    assert is_start_of(part, document)
    assert len(lost) == 1


def test_what_stands_behind_damage_is_left_out() -> None:
    assert read(b'{"a": [1, 2, {"b": 3}], "c": [4, @@, 5]}')[0] == {"a": [1, 2, {"b": 3}], "c": [4]}
    with pytest.raises(InputError, match="at byte 33"):
        read(b'{"a": [1, 2, {"b": 3}], "c": [4, @@, 5]}', strict=True)


def test_infinities_and_bad_escapes_are_repaired() -> None:
    assert read(b'{"a": inf, "b": "c:\\x"}')[0] == {"a": None, "b": "c:\\x"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"@", "damaged JSON"),
        (b"[" * 100_000, "nested too deeply|damaged JSON"),
        (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
        (b'{"a": 1}', "another form"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(text: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(text, kind=list)


def test_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_documents, "DOCUMENT_BYTES_MAX", 10)
    with pytest.raises(InputError, match="larger than"):
        read(b"[1, 2, 3, 4]")
