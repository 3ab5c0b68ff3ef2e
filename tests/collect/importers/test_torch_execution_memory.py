"""What an execution trace keeps on disk: pieces of any size give the same rows."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pasta.collect.importers.torch_execution import gathered, lives, waiting
from pasta.collect.importers.torch_execution.gathered import Gathered
from pasta.collect.importers.torch_execution.waiting import Waiting
from pasta.collect.importing import import_trace
from pasta.trace import Trace
from tests.collect.importers.test_torch_execution import (
    ADD,
    LINEAR,
    MM,
    event,
    execution_trace,
    kineto,
    node,
)

STEPS = 6


def steps():
    """Nodes and events of steps that all ran in one range, which ends last."""
    nodes = [node(2, "[pytorch|profiler|execution_trace|thread]", 1, "")]
    events = [event("run", 5, 100 * STEPS, 1, cat="user_annotation")]
    for step in range(STEPS):
        first, at = 10 * (step + 1), 10 + 100 * step
        given, made = (6, (2, 4)), (20 + step, (2, 8))
        nodes += [
            node(first + 1, "aten::mm", first, MM, [given, (5, (4, 8))], [made]),
            node(first, "aten::linear", 3, LINEAR, [given, (5, (8, 4))], [made], sequence=first),
            node(first + 5, "aten::add_", 3, ADD, [made, made], [made], sequence=first + 5),
        ]
        events += [
            event("aten::linear", at, 40, first, sequence=first),
            event("aten::mm", at + 10, 20, first + 1),
            event("aten::add_", at + 60, 10, first + 5, sequence=first + 5),
        ]
    return [*nodes, node(3, "run", 2, "")], events


def imported(folder):
    nodes, events = steps()
    files = []
    folder.mkdir()
    for name, content in (("et", execution_trace(nodes)), ("kineto", kineto(events))):
        files.append(folder / f"{name}.json")
        files[-1].write_text(json.dumps(content))
    import_trace(files, folder / "t")
    trace = Trace.open(folder / "t")
    return {name: trace.scan(name).collect() for name in ("span", "touch", "memory", "loss")}


def test_pieces_of_any_size_give_the_same_rows(tmp_path, monkeypatch):
    whole = imported(tmp_path / "whole")
    monkeypatch.setattr(gathered, "BLOCK_ROWS", 3)
    monkeypatch.setattr(waiting, "HELD_MAX", 2)
    monkeypatch.setattr(lives, "BLOCK_OBJECTS", 2)
    pieces = imported(tmp_path / "pieces")
    for name, rows in whole.items():
        assert pieces[name].equals(rows), name
    assert whole["touch"].height == (3 + 1) * STEPS  # linear: two given, one made; add_: that one
    assert whole["memory"].height == 2 * (2 + STEPS)
    operators = whole["span"].filter(pl.col("level") == "operator")
    assert operators["input_shapes"].null_count() == 0


def test_nothing_is_left_beside_the_trace(tmp_path):
    imported(tmp_path / "x")
    assert sorted(path.name for path in (tmp_path / "x" / "t").iterdir()) == [
        *("loss", "memory", "process", "span", "thread", "touch", "trace.json")
    ]


ACTIONS = st.lists(st.tuples(st.sampled_from(["add", "add", "add", "pop"]), st.integers(0, 4)))


@given(actions=ACTIONS, held=st.integers(1, 5))
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_what_waits_comes_back_in_order(tmp_path_factory, actions, held):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting, "HELD_MAX", held)
        items = Waiting(tmp_path_factory.mktemp("w") / "absent")
        known = {}
        for number, (action, key) in enumerate(actions):
            if action == "add":
                items.add(key, (number, [key]))
                known.setdefault(key, []).append((number, [key]))
            else:
                assert list(items.pop(key)) == known.pop(key, [])
        assert list(items.rest()) == [item for key in sorted(known) for item in known[key]]
        assert list(items.rest()) == []


@given(count=st.integers(0, 20), block=st.integers(1, 7), data=st.data())
@settings(max_examples=50, deadline=None)
def test_gathered_rows_by_their_numbers(tmp_path_factory, count, block, data):
    rows = [(number, [str(number)] * (number % 3)) for number in range(count)]
    places = data.draw(st.lists(st.integers(0, count - 1))) if count else []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathered, "BLOCK_ROWS", block)
        file = tmp_path_factory.mktemp("g") / "rows"
        kept = Gathered(file, {"a": pa.int64(), "b": pa.list_(pa.string())})
        for row in rows:
            kept.add(row)
        kept.close()
        assert kept.height == count
        assert [row for piece in kept.blocks() for row in piece.rows()] == rows
        found = kept.rows(np.array(places, dtype=np.int64))
        assert found.rows() == [rows[place] for place in places]
