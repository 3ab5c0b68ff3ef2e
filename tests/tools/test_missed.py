"""Reports over samples repeat what the collector said that it would not see."""

from __future__ import annotations

import json

import pytest

import pasta


@pytest.fixture
def trace(make_trace):
    """A trace of samples whose collector says what it misses."""
    made = make_trace(sample=[{"ts": 1, "kind": "on_cpu", "weight": 1.0}], kernel=[{"ts": 1}])
    file = made.path / "trace.json"
    collectors = [{"name": "cpu:fp", "misses": ["kernel code", "other code"]}, {"name": "torch"}]
    file.write_text(json.dumps({**json.loads(file.read_text()), "collectors": collectors}))
    return pasta.open(made.path)


@pytest.mark.parametrize("tool", ["summary", "samples", "flame"])
def test_what_is_missed_is_a_note(trace, tool):
    notes = pasta.run(tool, trace=trace).notes
    assert "cpu:fp of t misses: kernel code; other code" in notes


def test_a_tool_of_other_tables_has_no_such_note(trace):
    assert not any("misses" in note for note in pasta.run("kernel_frequency", trace=trace).notes)
