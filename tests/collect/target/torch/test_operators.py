from __future__ import annotations

import polars as pl
import pytest

from tests.collect.recorded_programs import ROOT, losses, python, recorded, table

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

from pasta.collect.target.torch.operators import LEFT_OUT  # noqa: E402

pytestmark = pytest.mark.torch
PROGRAM = """
import torch
a = torch.ones(4, 4)
for _ in range(3):
    b = (a @ a).relu()
assert b.sum() == 64
"""


@pytest.fixture(autouse=True)
def _pasta_in_programs(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def operators(trace) -> dict[str, int]:
    """Calls of each operator."""
    spans = table(trace, "span").filter(pl.col("level") == "operator")
    return dict(spans.group_by("name").len().rows())


def test_operators_of_other_names_run_without_being_recorded(tmp_path):
    _, everything = recorded(tmp_path / "all", python(PROGRAM))
    _, matching = recorded(tmp_path / "some", python(PROGRAM), match="mm$|re?lu")
    calls = operators(everything)
    assert operators(matching) == {"aten::mm": 3, "aten::relu": 3}
    assert losses(matching)[LEFT_OUT] == sum(calls.values()) - 6
    assert LEFT_OUT not in losses(everything)


def test_a_pattern_that_python_does_not_know_leaves_nothing_out(tmp_path):
    _, trace = recorded(tmp_path / "all", python(PROGRAM), match=r"\pL")
    assert operators(trace)["aten::mm"] == 3
    [reason] = (reason for reason in losses(trace) if reason.startswith("--match"))
    assert r"\pL" in reason


def test_stacks_lead_from_the_program_to_each_operator(tmp_path):
    source = """
    import torch
    def multiply(a):
        return a @ a
    def twice(a):
        multiply(a)
        multiply(a)
    twice(torch.ones(2, 2))
    """
    _, trace = recorded(tmp_path / "t", python(source), stacks=True)
    multiplications = table(trace, "span").filter(pl.col("name") == "aten::mm").sort("ts")
    first, second = multiplications["stack_id"]
    frames = table(trace, "frame").sort("stack_id", "depth")
    found = {
        stack_id: frames.filter(pl.col("stack_id") == stack_id).select("function", "line").rows()
        for stack_id in (first, second)
    }
    assert found[first] == [("<module>", 8), ("twice", 6), ("multiply", 4)]
    assert found[second] == [("<module>", 8), ("twice", 7), ("multiply", 4)]
    assert set(frames["language"]) == {"python"}


def test_without_request_there_are_no_stacks(tmp_path):
    _, trace = recorded(tmp_path / "t", python(PROGRAM))
    assert set(table(trace, "span")["stack_id"]) == {0}
