"""Counting losses whose reasons quote the input."""

from __future__ import annotations

import pytest

from pasta.collect.losses import Losses
from pasta.errors import InputError


def test_reasons_that_quote_the_input_are_one_short_printable_line():
    losses = Losses("test")
    losses.skip("event 'a\nb\x1b[31m\ud800': left out")
    losses.fault("x" * 10_000, 3)
    losses.fault("x" * 10_000, 2)
    first, second = losses
    assert first.reason == r"event 'a\nb\x1b[31m\ud800': left out"
    assert len(second.reason) == 300
    assert (second.count, second.damage, first.damage) == (5, True, False)


def test_a_fault_is_told_with_the_place_of_the_first():
    losses, others = Losses("test"), Losses("half")
    losses.fault("damaged event: left out", where="byte 12 (no \n number)")
    losses.fault("row of another width: left out", 2, where="row 7")
    losses.fault("the file ends early: cut at byte 99", where="byte 99")
    others.fault("row of another width: left out", where="row 3")
    others.fault("name of no text: unknown", where="event 'a'")
    for loss in others:
        losses.add(loss)
    assert [loss.told for loss in losses] == [
        r"damaged event: left out, at byte 12 (no \n number)",
        "row of another width: left out (3 times), first at row 7",
        "the file ends early: cut at byte 99",
        "name of no text: unknown, at event 'a'",
    ]


def test_only_so_many_reasons_are_told_apart():
    losses = Losses("test")
    for number in range(1000):
        losses.skip(f"category {number}: left out", 2)
    kept = list(losses)
    assert len(kept) == 101
    assert (kept[-1].reason, kept[-1].count) == ("losses of more kinds than are told apart", 1800)
    assert losses.rows(0, 0).num_rows == 101


def test_errors_about_files_are_one_printable_line_of_bounded_length():
    error = InputError("a\nb\0: " + "long" * 100_000 + "; what to do")
    assert str(error).startswith(r"a\nb\x00: long")
    assert str(error).endswith("; what to do")
    assert len(str(error)) == 800
    with pytest.raises(InputError, match=r"x\\ry at byte 5: broken"):
        Losses("test", "x\ry", strict=True).fault("broken", where="byte 5")
