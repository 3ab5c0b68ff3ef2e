"""Stacks are numbered alike wherever they are met, and written once."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from pasta.collect.shaping import stacks as module
from pasta.collect.shaping.stacks import Frame, Stacks
from pasta.trace_writer import PartWriter

MAIN = Frame("main", "app.py", 3, "python")
WORK = Frame("work", "app.py", 9, "python")


def frames(folder: Path) -> pl.DataFrame:
    return pl.read_parquet(folder / "frame" / "*.parquet")


def test_frames_are_written_once(tmp_path: Path) -> None:
    part = PartWriter(tmp_path)
    stacks = Stacks(part, pid=7)
    first = stacks.id_of([MAIN, WORK])
    assert stacks.id_of([MAIN]) not in (0, first)
    assert stacks.id_of([MAIN, WORK]) == first
    assert stacks.id_of([]) == 0
    stacks.flush()
    part.finish()
    rows = frames(tmp_path)
    assert rows.height == 3
    assert set(rows["pid"]) == {7}
    whole = rows.filter(stack_id=first).sort("depth")
    assert whole["function"].to_list() == ["main", "work"]
    assert whole["line"].to_list() == [3, 9]


def test_the_same_frames_have_the_same_number_elsewhere(tmp_path: Path) -> None:
    numbers = {Stacks(PartWriter(tmp_path / str(n)), n).id_of([MAIN, WORK]) for n in (1, 2)}
    assert len(numbers) == 1


def test_lines_that_fit_no_column_are_kept_within_it(tmp_path: Path) -> None:
    part = PartWriter(tmp_path)
    stacks = Stacks(part)
    stacks.id_of([Frame("f", line=1 << 40), Frame("g", line=-1)])
    stacks.flush()
    part.finish()
    assert frames(tmp_path).sort("depth")["line"].to_list() == [(1 << 31) - 1, 0]


def test_many_stacks_are_written_once_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_HELD_MAX", 3)
    part = PartWriter(tmp_path)
    stacks = Stacks(part)
    order = [*range(20), *range(0, 20, 3), *reversed(range(25))]
    numbers = {name: stacks.id_of([MAIN, Frame(str(name))]) for name in order}
    assert len(set(numbers.values())) == 25
    stacks.flush()
    part.finish()
    rows = frames(tmp_path)
    assert rows.height == 2 * 25
    assert set(rows["stack_id"]) == set(numbers.values())
