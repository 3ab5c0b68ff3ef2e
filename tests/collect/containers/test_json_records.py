"""Reading several arrays of records in one document."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.collect.containers.json_records import Path, RecordReader
from pasta.collect.containers.json_uniform import UniformRecords
from pasta.collect.losses import Losses
from pasta.errors import InputError

DOCUMENT: dict[str, Any] = {
    "tool": [
        {
            "about": {"pid": 7, "deep": [{"a": [1, {"b": 2}]}]},
            "records": {
                "launches": [{"size": 1, "at": {"x": n, "y": n * n}} for n in range(50)],
                "calls": [{"size": 1, "name": f"call {n}"} for n in range(20)],
                "none": [],
            },
        },
        {"records": {"launches": [{"size": 2, "at": {"x": 1, "y": 2}}]}, "end": "last"},
    ],
    "after": 3,
}


def reader_of(text: bytes, losses: Losses, block: int = 64, chunk: int = 37) -> RecordReader:
    chunks = iter([text[at : at + chunk] for at in range(0, len(text), chunk)])

    def decoder(path: Path) -> Any:
        return msgspec.json.decode if path[:2] == ("tool", "records") else None

    entered = {(), ("tool",), ("tool", "records")}
    return RecordReader(chunks, entered.__contains__, decoder, losses, block_bytes=block)


def rows_of(value: list[Any] | UniformRecords) -> list[Any]:
    if not isinstance(value, UniformRecords):
        return value
    columns = {path: value.column(path) for path in ("size", "at.x", "at.y")}
    rows = []
    for size, x, y in zip(*(column.tolist() for column in columns.values()), strict=True):  # type: ignore[union-attr]
        rows.append({"size": size, "at": {"x": x, "y": y}})
    return rows


def read(text: bytes, losses: Losses, **sizes: int) -> tuple[dict[Path, list[Any]], str]:
    found: dict[Path, list[Any]] = {}
    reader = reader_of(text, losses, **sizes)
    for path, value in reader:
        if value is None:  # cut behind its key
            continue
        if path[:2] == ("tool", "records"):
            found.setdefault(path, []).extend(rows_of(value))
        else:
            found.setdefault(path, []).append(value)
    return found, reader.cut


def expected() -> dict[Path, list[Any]]:
    first, second = DOCUMENT["tool"]
    return {
        ("tool", "about"): [first["about"]],
        ("tool", "records", "launches"): first["records"]["launches"]
        + second["records"]["launches"],
        ("tool", "records", "calls"): first["records"]["calls"],
        ("tool", "records", "none"): [],
        ("tool", "end"): ["last"],
        ("after",): [3],
    }


@pytest.mark.parametrize("indent", [None, 1])
@given(block=st.integers(1, 3000), chunk=st.integers(1, 500))
@settings(max_examples=60, deadline=None)
def test_all_is_read_whatever_the_blocks(indent: int | None, block: int, chunk: int) -> None:
    losses = Losses("test")
    text = json.dumps(DOCUMENT, indent=indent).encode()
    found, cut = read(text, losses, block=block, chunk=chunk)
    assert found == expected()
    assert cut == ""
    assert list(losses) == []


def test_processes_are_counted() -> None:
    reader = reader_of(json.dumps(DOCUMENT).encode(), Losses("test"))
    numbers = {path: reader.entered[("tool",)] for path, _ in reader if path[0] == "tool"}
    assert numbers["tool", "about"] == 1
    assert numbers["tool", "end"] == 2


@given(st.integers(2, 2500))
@settings(max_examples=150, deadline=None)
def test_what_stands_before_a_cut_is_kept(at: int) -> None:
    text = json.dumps(DOCUMENT, separators=(",", ":")).encode()
    at = min(at, len(text) - 2)
    found, cut = read(text[:at], Losses("test"))
    whole = expected()
    for path, rows in found.items():
        if path[:2] == ("tool", "records"):
            assert rows == whole[path][: len(rows)]
    launches = found.get(("tool", "records", "launches"), [])
    assert len(launches) >= min(text[:at].count(b'}},{"size":'), 49)
    assert cut


def test_a_damaged_record_is_left_out_and_counted() -> None:
    text = json.dumps(DOCUMENT).encode().replace(b'"x": 25,', b'"x" 25,')
    losses = Losses("test")
    found, cut = read(text, losses)
    launches = expected()[("tool", "records", "launches")]
    assert found["tool", "records", "launches"] == launches[:25] + launches[26:]
    assert [(loss.reason, loss.count) for loss in losses] == [
        ("damaged record of launches: left out", 1)
    ]
    assert cut == ""


def test_records_that_are_nested_too_deeply_are_left_out() -> None:
    deep = b'{"size":1,"at":' + b"[" * 5000 + b"]" * 5000 + b"}"
    text = b'{"tool":[{"records":{"launches":[{"size":1},' + deep + b',{"size":3}]}}]}'
    losses = Losses("test")
    found, _ = read(text, losses)
    assert [row["size"] for row in found["tool", "records", "launches"]] == [1, 3]
    assert [loss.count for loss in losses] == [1]


def test_a_document_that_is_no_object_is_refused() -> None:
    with pytest.raises(InputError, match="no JSON object"):
        read(b"[1]", Losses("test"))


@given(st.binary(max_size=40), st.integers(0, 2000), st.integers(0, 60))
@settings(max_examples=300, deadline=None)
def test_any_bytes_give_values_or_one_error(put: bytes, at: int, drop: int) -> None:
    text = json.dumps(DOCUMENT, separators=(",", ":")).encode()
    spliced = text[:at] + put + text[at + drop :]
    reader = reader_of(spliced, Losses("test"))
    try:
        for _ in reader:
            pass
    except InputError:
        assert not spliced.lstrip().startswith(b"{")
