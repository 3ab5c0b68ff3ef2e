from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.collect.control import write_control
from pasta.collect.target.selection import CONTROL, Selection

SECOND = 10**9


def recorded_steps(selection: Selection, count: int, first: int = 0) -> list[int]:
    """The steps of a run that are recorded, where each lasts a second."""
    recorded = []
    for step in range(first, first + count):
        if step:
            selection.step_begins(step)
        if selection.wants(step * SECOND):
            recorded.append(step)
    return recorded


def test_all_is_recorded_unless_told_otherwise(tmp_path):
    assert recorded_steps(Selection(str(tmp_path), {}), 5) == [0, 1, 2, 3, 4]


@given(st.integers(0, 12), st.none() | st.integers(0, 12), st.integers(1, 5))
def test_steps_are_those_of_a_range(first, last, every):
    selection = Selection("/nowhere", {"steps": [first, last, every]})
    stop = 20 if last is None else last + 1
    assert recorded_steps(selection, 20) == list(range(first, stop, every))


def test_seconds_run_only_while_something_is_recorded():
    selection = Selection("/nowhere", {"seconds": 2.5, "steps": [2, None, 2]})
    # Steps 2 and 4 take a second each; the time is up in the midst of step 6.
    assert recorded_steps(selection, 7) == [2, 4, 6]
    assert selection.wants(int(6.4 * SECOND))
    assert not selection.wants(int(6.5 * SECOND))
    assert recorded_steps(selection, 10, first=7) == []
    selection.ask(record=True)
    assert not selection.wants(100 * SECOND)


def test_no_second_is_nothing():
    assert not Selection("/nowhere", {"seconds": 0}).wants(0)


def test_idle_waits_to_be_asked_and_records_so_many_steps():
    selection = Selection("/nowhere", {"idle": True})
    assert recorded_steps(selection, 3) == []
    selection.ask(record=True, steps=2)
    assert selection.wants(3 * SECOND)
    assert recorded_steps(selection, 5, first=3) == [3]
    selection.ask(record=True, steps=3)
    assert selection.wants(8 * SECOND)
    assert recorded_steps(selection, 6, first=9) == [9, 10]
    selection.ask(record=True)
    assert recorded_steps(selection, 5, first=15) == [15, 16, 17, 18, 19]
    selection.ask(record=False)
    assert recorded_steps(selection, 3, first=20) == []


def test_what_is_asked_holds_within_the_selected_steps_only():
    selection = Selection("/nowhere", {"idle": True, "steps": [4, 6, 1]})
    selection.ask(record=True)
    assert recorded_steps(selection, 10) == [4, 5, 6]


def ask_by_hand(folder: Path, content: str) -> None:
    new = folder / "new"
    new.write_text(content)
    new.rename(folder / CONTROL)


def test_the_control_file_is_followed_once(tmp_path):
    selection = Selection(str(tmp_path), {"idle": True})
    selection.read_control()
    assert not selection.wants(0)
    write_control(tmp_path, record=True, steps=1)
    selection.read_control()
    assert selection.wants(0)
    selection.step_begins(1)
    selection.read_control()
    assert not selection.wants(1)
    write_control(tmp_path, record=True)
    selection.read_control()
    assert selection.wants(2)
    write_control(tmp_path, record=False)
    selection.read_control()
    assert not selection.wants(3)


@pytest.mark.parametrize(
    "nonsense", ["", "{", "[]", "1", "null", "{}", json.dumps({"steps": 3}), "\x00"]
)
def test_a_control_file_of_nonsense_changes_nothing(tmp_path, nonsense):
    selection = Selection(str(tmp_path), {})
    ask_by_hand(tmp_path, nonsense)
    selection.read_control()
    assert selection.wants(0)
    write_control(tmp_path, record=False)
    selection.read_control()
    assert not selection.wants(1)


def test_a_control_file_without_permission_changes_nothing(tmp_path):
    selection = Selection(str(tmp_path), {})
    (tmp_path / CONTROL).mkdir()
    selection.read_control()
    assert selection.wants(0)
    assert os.listdir(tmp_path) == [CONTROL]  # noqa: PTH208 - nothing is made or removed
