"""The lowest lines of a terminal stay what was drawn, while a program prints above them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from pasta.tools.terminal import LowestLines
from tests.tools.screen import Terminal


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal(20, 10)
    yield made
    made.close()


def test_output_scrolls_above_the_view(terminal):
    lines = LowestLines(terminal.programs, 3)
    terminal.program_prints("before\n")
    lines.draw(["A", "B"])
    assert terminal.shown() == ["before", *[""] * 6, "A", "B", ""]
    terminal.program_prints("".join(f"step {i}\n" for i in range(8)) + "part")
    lines.draw(["C", "D", "E", "no room"])
    terminal.program_prints("ly")
    assert terminal.shown() == [f"step {i}" for i in range(2, 8)] + ["partly", "C", "D", "E"]
    lines.close()
    terminal.program_prints("\nend\n" + "\n" * 2)
    assert terminal.shown() == [*(f"step {i}" for i in range(3, 8)), "partly", "end", "", "", ""]


def test_a_program_at_the_bottom_is_moved_up_with_its_line(terminal):
    terminal.program_prints("".join(f"{i}\n" for i in range(20)) + "at the bottom")
    lines = LowestLines(terminal.programs, 2)
    lines.draw(["view"])
    terminal.program_prints("!")
    text = ["13", "14", "15", "16", "17", "18", "19", "at the bottom!", "view", ""]
    assert terminal.shown() == text


def test_a_view_takes_half_the_terminal_at_most_and_none_of_a_low_one(terminal):
    lines = LowestLines(terminal.programs, 30)
    assert tuple(lines.size) == (20, 5)
    terminal.resize(20, 7)
    assert tuple(lines.size) == (20, 0)
    lines.draw(["view"])
    assert terminal.shown() == [""] * 10


def test_a_new_size_moves_the_view(terminal):
    lines = LowestLines(terminal.programs, 2)
    lines.draw(["view", "more"])
    assert terminal.shown()[8:] == ["view", "more"]
    terminal.resize(20, 8)
    terminal.screen.lines = 8
    del terminal.screen.cells[8:]
    terminal.screen.bottom = 7
    lines.draw(["view", "more"])
    terminal.program_prints("".join(f"{i}\n" for i in range(9)))
    assert terminal.shown() == ["4", "5", "6", "7", "8", "", "view", "more"]


def test_closing_what_was_never_drawn_writes_nothing(terminal):
    LowestLines(terminal.programs, 2).close()
    terminal.program_prints("x")
    os.set_blocking(terminal.ours, False)
    assert os.read(terminal.ours, 100) == b"x"
