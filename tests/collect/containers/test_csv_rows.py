"""Rows of text tables, sound or damaged."""

from __future__ import annotations

import csv
import io

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.collect.containers.csv_rows import CsvRows
from pasta.collect.losses import Losses
from pasta.collect.sources import Source
from pasta.errors import InputError


def read(
    text: str | bytes, *, columns: list[str] | None = None, chunk: int = 7, damage: str = ""
) -> tuple[list[dict[str, str | None]], dict[str, int]]:
    content = text.encode() if isinstance(text, str) else text
    chunks = (content[at : at + chunk] for at in range(0, len(content), chunk))
    source = Source("x.csv", b"", chunks, len(content), damage=[damage] if damage else [])
    losses = Losses("test", "x.csv")
    rows = pa.Table.from_batches(
        list((file := CsvRows(source, losses)).batches(columns)),
        pa.schema([(name, pa.string()) for name in columns or file.schema.names]),
    )
    return rows.to_pylist(), {loss.reason: loss.count for loss in losses}


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_fields_are_texts_and_empty_ones_null(delimiter: str, end: str) -> None:
    text = end.join(["a,b", "1,", '"x ""y""",2.50', ""]).replace(",", delimiter)
    rows, losses = read("\ufeff" + text)
    assert rows == [{"a": "1", "b": None}, {"a": 'x "y"', "b": "2.50"}]
    assert losses == {}


def test_only_the_columns_asked_for() -> None:
    assert read("a,b,c\n1,2,3\n", columns=["c", "a"])[0] == [{"c": "3", "a": "1"}]


def test_of_two_columns_with_one_name_the_first_counts() -> None:
    assert read("a,a\n1,2\n")[0] == [{"a": "1"}]


def test_rows_of_another_width_are_counted() -> None:
    rows, losses = read("a,b\n1,2\n3\n4,5,6\n7,8\n9")
    assert [row["a"] for row in rows] == ["1", "7"]
    assert losses == {"row with another number of fields than the header: left out": 3}


def test_only_line_ends_end_a_row() -> None:
    rows, _ = read("a,b\nx\u2028y,2\n3\n")
    assert rows == [{"a": "x\u2028y", "b": "2"}]


def test_a_row_in_which_a_damaged_file_ends_is_left_out() -> None:
    rows, losses = read("a,b\n1,2\n3,4", damage="the gzip data ends early")
    assert [row["a"] for row in rows] == ["1"]
    assert losses == {"last row, in which the file is cut: left out": 1}


def test_bytes_that_are_no_text_are_replaced_and_counted() -> None:
    rows, losses = read(b"a,b\nx\xf0\x28\x8c,2\n")
    assert rows == [{"a": "x\ufffd(\ufffd", "b": "2"}]
    assert losses == {"invalid UTF-8: replaced by U+FFFD": 2}


def test_strict_stops_at_the_first_row_that_does_not_fit() -> None:
    source = Source("x.csv", b"", iter([b"a,b\n1,2\n3\n"]), 9)
    with pytest.raises(InputError, match=r"x.csv at row 2: row with another number"):
        list(CsvRows(source, Losses("test", "x.csv", strict=True)).batches())


def test_a_file_without_names_is_one_clear_line() -> None:
    with pytest.raises(InputError, match="its first line names no columns"):
        read(b"\n1,2\n")


@pytest.mark.parametrize("block", [16, 1 << 20])
def test_lines_may_break_within_quotes(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pasta.collect.containers.csv_rows._BLOCK_BYTES", block)
    rows, losses = read('a,b\n"line\nbreak, comma",1\n2,"x\n\ny"\n3,4\n')
    assert [row["a"] for row in rows] == ["line\nbreak, comma", "2", "3"]
    assert losses == {}


def test_a_quote_that_is_never_closed_does_not_hold_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pasta.collect.containers.csv_rows._BLOCK_BYTES", 64)
    monkeypatch.setattr("pasta.collect.containers.csv_rows._QUOTED_BYTES_MAX", 256)
    rows, losses = read('a,b\n"1,2\n' + "3,4\n" * 1000)
    assert 900 <= len(rows) < 1000
    assert sum(losses.values()) >= 1


TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=5)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(TEXTS, TEXTS), max_size=20), chunk=st.integers(1, 50))
def test_what_was_written_is_read(rows: list[tuple[str, str]], chunk: int) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(["left", "right"])
    writer.writerows(rows)
    found, losses = read(text.getvalue(), chunk=chunk)
    assert [(row["left"], row["right"]) for row in found] == rows
    assert losses == {}


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200), st.integers(1, 50))
def test_whatever_the_bytes_only_one_error_escapes(content: bytes, chunk: int) -> None:
    try:
        read(b"a,b\n" + content, chunk=chunk)
    except InputError:
        pytest.fail("the header is sound")
