"""Lines of text come out the same however the bytes arrive, and damage costs only its own line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.collect.containers import text_lines
from pasta.collect.containers.text_lines import TextLines, first_lines
from pasta.collect.losses import Losses
from pasta.collect.sources import Source
from pasta.errors import InputError


def read(*chunks: bytes, strict: bool = False, damage: tuple[str, ...] = ()):
    losses = Losses("test", "x.txt", strict=strict)
    source = Source("x.txt", chunks[0][:64] if chunks else b"", iter(chunks), 0)
    source.damage.extend(damage)
    lines = TextLines(source, losses)
    return list(lines), lines, {loss.reason: loss.count for loss in losses}


@given(
    st.lists(st.text(alphabet="aé\r \x0b\x1c", max_size=4)),
    st.integers(1, 9),
    st.sampled_from(["", "\n"]),
)
def test_lines_do_not_depend_on_chunks(texts: list[str], size: int, end: str) -> None:
    data = ("\n".join(texts) + end).encode()
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    expected = data.decode().split("\n")
    if expected[-1] == "":
        expected.pop()
    lines, reader, lost = read(*chunks)
    assert lines == [line.removesuffix("\r") for line in expected]
    assert reader.cut == (bool(data) and not data.endswith(b"\n"))
    assert lost == {}


def test_a_mark_of_the_byte_order_and_carriage_returns_are_no_text() -> None:
    assert read(b"\xef\xbb\xbfa\r\nb\r\n")[0] == ["a", "b"]


def test_bytes_that_are_no_text_are_replaced_and_counted() -> None:
    lines, _, lost = read(b"one\n\xf0\x28\x8c two\n")
    assert lines == ["one", "\ufffd(\ufffd two"]
    assert lost == {"invalid UTF-8: replaced by U+FFFD": 2}
    with pytest.raises(InputError, match=r"x.txt at byte 4: invalid UTF-8"):
        read(b"one\n\xf0\x28\x8c two\n", strict=True)


def test_an_overlong_line_costs_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_lines, "LINE_BYTES_MAX", 8)
    lines, _, lost = read(b"a\n123456789", b"123", b"456\nb\n")
    assert lines == ["a", "b"]
    assert list(lost.values()) == [1]


def test_a_cut_and_what_ended_the_stream_are_reported() -> None:
    lines, reader, lost = read(b"a\nb", damage=("the gzip data ends early, at byte 7",))
    assert lines == ["a", "b"]
    assert lost == {"the gzip data ends early, at byte 7": 1}
    assert reader.report_cut("left out")


def test_the_first_lines_leave_out_one_that_may_be_cut() -> None:
    source = Source("x", b"\xef\xbb\xbfa\r\nb\nc", iter(()), 0)
    assert first_lines(source, 5) == ["a", "b"]
    assert first_lines(source, 1) == ["a"]
    source.plain_size = len(source.head)
    assert first_lines(source, 5) == ["a", "b", "c"]
