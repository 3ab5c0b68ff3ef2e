from __future__ import annotations

import itertools
import threading
from pathlib import Path

import pytest

from pasta.collect.target.rows import Losses
from pasta.collect.target.spans import HELD_STEP, SPAN_COLUMNS, Spans


class Recording:
    """Spans whose clock counts 0, 10, 20, ..."""

    def __init__(self) -> None:
        self.rows: list[tuple] = []
        self.threads: list[tuple] = []
        self.losses = Losses()
        self.begun: list[int] = []
        ticks = itertools.count(step=10)
        self.spans = Spans(
            "run",
            self.rows,
            self.threads,
            self.losses,
            lambda: next(ticks),
            step_begins=self.begun.append,
        )

    def table(self) -> dict[str, dict]:
        """Rows by name, as dictionaries."""
        rows = (dict(zip(SPAN_COLUMNS, row, strict=True)) for row in self.rows)
        return {row["name"]: row for row in rows}

    def tree(self) -> dict[str, str]:
        """Name of each span's parent."""
        table = self.table()
        names = {row["span_id"]: name for name, row in table.items()}
        return {name: names.get(row["parent_id"], "") for name, row in table.items()}


@pytest.fixture
def recording():
    return Recording()


def test_spans_nest_under_step_and_run(recording):
    spans = recording.spans
    spans.open("phase", "forward", 1)
    spans.open("module", "block", 1)
    spans.closed("aten::mm", 30, 35, None, (("2x2", "2x2"), ("float32", "float32")))
    spans.close("module", 1)
    spans.close("phase", 1)
    spans.finish()
    assert recording.tree() == {
        "aten::mm": "block",
        "block": "forward",
        "forward": "step 0",
        "step 0": "run",
        "run": "",
    }
    mm = recording.table()["aten::mm"]
    assert (mm["ts"], mm["dur"], mm["input_shapes"]) == (30, 5, ("2x2", "2x2"))
    block = recording.table()["block"]
    assert (block["ts"], block["dur"]) == (20, 10)


def test_a_step_starts_where_the_one_before_it_ended(recording):
    spans = recording.spans
    for name in ("first", "second"):
        spans.open("phase", name, name)
        spans.close("phase", name)
        spans.end_step()
    spans.finish()
    table = recording.table()
    first, second = table["step 0"], table["step 1"]
    assert first["ts"] == table["run"]["ts"] == 0
    assert second["ts"] == first["ts"] + first["dur"]
    assert second["ts"] < table["second"]["ts"]
    assert "step 2" not in table


def test_a_step_waits_for_annotations_opened_in_it(recording):
    spans = recording.spans
    spans.open("annotation", "loop", "loop")
    spans.end_step()
    spans.closed("inside", 1, 2, None, ((), ()))
    spans.close("annotation", "loop")
    spans.closed("after", 3, 4, None, ((), ()))
    spans.finish()
    tree = recording.tree()
    assert (tree["inside"], tree["loop"], tree["after"]) == ("loop", "step 0", "step 1")
    assert [reason for reason, _, _ in recording.losses.take()] == [HELD_STEP]


def test_closing_closes_what_was_left_open_inside(recording):
    spans = recording.spans
    spans.open("module", "outer", 1)
    spans.open("module", "left by an exception", 2)
    spans.close("module", 1)
    spans.finish()
    table = recording.table()
    outer, inner = table["outer"], table["left by an exception"]
    assert outer["ts"] + outer["dur"] == inner["ts"] + inner["dur"]


def test_closing_what_was_never_opened_is_ignored(recording):
    recording.spans.open("annotation", "a", "a")
    recording.spans.close("annotation", "b")
    recording.spans.close("annotation", "a")
    recording.spans.finish()
    assert set(recording.table()) == {"a", "step 0", "run"}


def test_threads_that_python_did_not_start_have_the_systems_name(monkeypatch):
    monkeypatch.setattr(threading.current_thread(), "name", "Dummy-7")
    recording = Recording()
    comm = Path(f"/proc/self/task/{threading.get_native_id()}/comm")
    expected = comm.read_text().strip() if comm.exists() else "Dummy-7"
    assert recording.threads[0][1] == expected


def test_another_thread_has_its_own_tree(recording):
    def work() -> None:
        recording.spans.open("module", "elsewhere", 1)
        recording.spans.end_step()
        recording.spans.close("module", 1)

    thread = threading.Thread(target=work, name="worker")
    thread.start()
    thread.join()
    recording.spans.finish()
    table = recording.table()
    assert table["elsewhere"]["parent_id"] == 0
    assert table["elsewhere"]["tid"] != table["run"]["tid"]
    assert [name for _tid, name, _started in recording.threads] == ["MainThread", "worker"]
    assert set(table) == {"elsewhere", "run"}


def test_steps_are_counted_while_nothing_is_recorded(recording):
    spans = recording.spans
    for _ in range(3):
        spans.end_step()
    spans.open("phase", "forward", 1)
    spans.close("phase", 1)
    spans.end_step()
    spans.end_step()
    spans.finish()
    table = recording.table()
    assert set(table) == {"run", "step 3", "forward"}
    assert recording.tree()["forward"] == "step 3"
    # The clock was read for the run, and then by each of the three ends.
    assert table["step 3"]["ts"] == 30
    assert recording.begun == [1, 2, 3, 4, 5]


def test_a_step_that_waits_begins_the_next_one_only_when_it_has_ended(recording):
    recording.spans.open("annotation", "loop", "loop")
    recording.spans.end_step()
    assert recording.begun == []
    recording.spans.close("annotation", "loop")
    assert recording.begun == [1]
    assert recording.losses.take() == [(HELD_STEP, 1, 20)]


def test_what_is_open_is_known_by_thread_and_level(recording):
    recording.spans.open("phase", "forward", 1)
    assert recording.spans.is_open("phase")
    assert not recording.spans.is_open("module")
    elsewhere = []
    thread = threading.Thread(target=lambda: elsewhere.append(recording.spans.is_open("phase")))
    thread.start()
    thread.join()
    assert elsewhere == [False]
    recording.spans.close("phase", 1)
    assert not recording.spans.is_open("phase")


def test_one_annotation_inside_itself_closes_innermost_first(recording):
    recording.spans.open("annotation", "outer", "same")
    recording.spans.open("annotation", "inner", "same")
    recording.spans.close("annotation", "same")
    assert [row[6] for row in recording.rows] == ["inner"]
    recording.spans.close("annotation", "same")
    assert [row[6] for row in recording.rows] == ["inner", "outer"]
