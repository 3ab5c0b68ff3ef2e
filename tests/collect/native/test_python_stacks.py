"""Python's call stacks on operators that the native hook records."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from pasta.collect.recording import record_command
from pasta.collect.selection import Selection
from pasta.collect.target.torch import native
from pasta.trace import Trace
from tests.collect.recorded_programs import ROOT, python, table

torch = pytest.importorskip("torch", reason="needs PyTorch")
pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _programs(monkeypatch):
    loaded, reason = native.load()
    if loaded is None:
        pytest.skip(reason)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def recorded(out: Path, source: str, **selection: object) -> Trace:
    """The trace of a program that has to end well."""
    done = record_command(python(source), out, {"torch": "operators"}, Selection(**selection))
    assert done.exit_code == 0
    return Trace.open(out)


def stacks(trace: Trace) -> dict[int, list[tuple[str, int]]]:
    """Function and line of each frame, outermost first, by stack."""
    frames = table(trace, "frame").sort("stack_id", "depth")
    assert set(frames["language"]) == {"python"}
    return {
        stack_id: stack.select("function", "line").rows()
        for (stack_id,), stack in frames.group_by("stack_id", maintain_order=True)
    }


def operators(trace: Trace, name: str) -> pl.DataFrame:
    """The operators of a name, in order."""
    return table(trace, "span").filter(level="operator", name=name).sort("ts")


NESTED = """
import torch
def multiply(a):
    return torch.nn.functional.linear(a, a)
def twice(a):
    multiply(a)
    multiply(a)
twice(torch.ones(2, 2))
"""


def test_stacks_lead_from_the_program_to_operators_and_what_they_call(tmp_path):
    trace = recorded(tmp_path / "t", NESTED, stacks=True)
    frames = stacks(trace)
    of_first = [("<module>", 8), ("twice", 6), ("multiply", 4)]
    of_second = [("<module>", 8), ("twice", 7), ("multiply", 4)]
    for name in ("aten::linear", "aten::mm"):
        assert [frames[each] for each in operators(trace, name)["stack_id"]] == [
            of_first,
            of_second,
        ]
    assert len(set(operators(trace, "aten::mm")["stack_id"])) == 2


def test_without_request_there_are_no_stacks(tmp_path):
    trace = recorded(tmp_path / "t", NESTED)
    assert set(table(trace, "span")["stack_id"]) == {0}
    assert table(trace, "frame").is_empty()


def test_what_autograd_runs_in_python_has_its_own_stack(tmp_path):
    source = """
    import torch
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2
        @staticmethod
        def backward(ctx, gradient):
            return gradient.neg()
    b = Double.apply(torch.ones(2, requires_grad=True))
    b.backward(torch.ones(2))
    """
    trace = recorded(tmp_path / "t", source, stacks=True)
    frames = stacks(trace)
    [forward], [backward] = (
        operators(trace, f"aten::{name}")["stack_id"] for name in ("mul", "neg")
    )
    assert [frames[forward][0], frames[forward][-1]] == [("<module>", 10), ("Double.forward", 6)]
    assert [frames[backward][0], frames[backward][-1]] == [("<module>", 11), ("Double.backward", 9)]


def test_threads_that_want_pythons_lock_at_once_get_on(tmp_path):
    source = """
    import threading, torch
    def of_thread(number):
        for _ in range(300):
            torch.ones(number)
    threads = [threading.Thread(target=of_thread, args=(number + 1,)) for number in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    """
    trace = recorded(tmp_path / "t", source, stacks=True)
    made = operators(trace, "aten::ones")
    assert made.height == 2400
    [stack_id] = set(made["stack_id"])
    assert stacks(trace)[stack_id][-1] == ("of_thread", 5)


def test_an_error_that_is_raised_stays_as_it_is(tmp_path):
    source = """
    import torch
    try:
        torch.ones(2) @ torch.ones(3)
    except RuntimeError as error:
        assert "size" in str(error)
        torch.ones(4)
        raise SystemExit(0)
    raise SystemExit(5)
    """
    trace = recorded(tmp_path / "t", source, stacks=True)
    assert operators(trace, "aten::ones").height == 3


def test_a_child_that_was_forked_goes_on_without_stacks(tmp_path):
    source = """
    import os, torch
    torch.ones(2)
    child = os.fork()
    torch.ones(3)
    if child == 0:
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    """
    trace = recorded(tmp_path / "t", source, stacks=True)
    frames = stacks(trace)
    lines = [frames[each][-1][1] for each in operators(trace, "aten::ones")["stack_id"]]
    assert lines == [3, 5]


def test_operators_may_run_while_python_ends(tmp_path):
    source = """
    import sys, torch
    class Last:
        def __del__(self):
            self.ones(2)
    last = Last()
    last.ones = torch.ones
    sys.last = last
    """
    trace = recorded(tmp_path / "t", source, stacks=True)
    assert set(operators(trace, "aten::ones")["stack_id"]) <= {0}
