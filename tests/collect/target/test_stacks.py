from __future__ import annotations

import itertools
import sys
import types
from typing import NamedTuple

import pytest

from pasta.collect.target import stacks as module
from pasta.collect.target.rows import Losses
from pasta.collect.target.stacks import DEEPEST, FRAME_COLUMNS, TOO_DEEP, TOO_MANY, Stacks


class Recording(NamedTuple):
    stacks: Stacks
    rows: list[tuple]
    losses: Losses

    def functions(self, stack_id: int) -> list[str]:
        """Functions of a stack from its outermost frame on."""
        rows = (dict(zip(FRAME_COLUMNS, row, strict=True)) for row in self.rows)
        found = [row for row in rows if row["stack_id"] == stack_id]
        assert [row["depth"] for row in found] == list(range(len(found)))
        return [row["function"] for row in found]


@pytest.fixture
def recording():
    rows: list[tuple] = []
    losses = Losses()
    return Recording(Stacks(rows, losses, itertools.count().__next__), rows, losses)


def inner(stacks):
    return stacks.here()


def outer(stacks):
    return inner(stacks)


def test_a_stack_is_its_frames_from_the_outermost_to_the_caller(recording):
    stack_id = outer(recording.stacks)
    assert recording.functions(stack_id)[-3:] == [
        "test_a_stack_is_its_frames_from_the_outermost_to_the_caller",
        "outer",
        "inner",
    ]
    last = dict(zip(FRAME_COLUMNS, recording.rows[-1], strict=True))
    assert (last["file"], last["line"]) == (__file__, inner.__code__.co_firstlineno + 1)


def test_one_place_is_one_stack_whose_rows_are_made_once(recording):
    ids = {outer(recording.stacks) for _ in range(3)}
    rows = len(recording.rows)
    [stack_id] = ids
    assert rows == len(recording.functions(stack_id))


def test_stacks_differ_by_line_and_not_by_place_in_the_line(recording):
    here = recording.stacks.here
    first, second = here(), here()
    third = here()
    assert first == second != third
    assert recording.functions(first) == recording.functions(third)


def test_frames_of_the_collector_and_of_how_torch_calls_modules_are_left_out(recording):
    source = "def call(function):\n    return function()\n"
    places = {
        "own": module.__file__,
        "_call_impl": "/lib/torch/nn/modules/module.py",
        "wrapper": "/lib/torch/optim/optimizer.py",
        "kept": "/lib/torch/nn/modules/module.py",
    }

    def called(name: str, function):
        scope: dict = {}
        text = source.replace("call", name, 1)
        exec(compile(text, places[name], "exec"), scope)
        return lambda: scope[name](function)

    function = recording.stacks.here
    for name in places:
        function = called(name, function)
    found = [name for name in recording.functions(function()) if "lambda" not in name]
    assert found[-1] == "kept"
    assert {"own", "_call_impl", "wrapper"}.isdisjoint(found)


def test_deep_stacks_keep_their_innermost_frames(recording):
    def descend(levels: int) -> int:
        return descend(levels - 1) if levels else recording.stacks.here()

    functions = recording.functions(descend(DEEPEST + 50))
    assert len(functions) == DEEPEST
    assert {name.rpartition(".")[2] for name in functions} == {"descend"}
    assert [reason for reason, *_ in recording.losses.take()] == [TOO_DEEP]


def test_stacks_beyond_the_bound_are_counted(recording, monkeypatch):
    monkeypatch.setattr(module, "MOST", 2)
    here = recording.stacks.here
    known = [here() for _ in range(2)]
    assert known[0] == known[1] > 0
    # fmt: off
    assert here() > 0
    assert here() == 0
    # fmt: on
    assert [reason for reason, *_ in recording.losses.take()] == [TOO_MANY]


def test_code_that_is_gone_is_never_taken_for_another(recording):
    seen = set()
    for number in range(50):
        scope: dict = {"here": recording.stacks.here}
        exec(f"def made_{number}(): return here()", scope)
        stack_id = scope[f"made_{number}"]()
        assert recording.functions(stack_id)[-1] == f"made_{number}"
        seen.add(stack_id)
    assert len(seen) == 50


def test_frames_of_another_thread_end_where_it_is(recording):
    def generator():
        yield sys._getframe()

    frame: types.FrameType = next(generator())
    assert recording.functions(recording.stacks.of(frame))[-1].endswith("generator")
