"""A program under `--serialize` runs one thing at a time, and its trace and reports say so."""

from __future__ import annotations

import json

import pytest

import pasta
from pasta.collect.recording import record_command
from pasta.collect.selection import Selection
from pasta.collect.serial import VARIABLES
from tests.collect.recorded_programs import ROOT, python

TELLS = """
import json, os, sys
import pasta
json.dump(dict(os.environ), open(sys.argv[1], "w"))
with pasta.annotate("a"):
    pass
"""


@pytest.fixture(autouse=True)
def _pasta_in_programs(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)


def recorded(tmp_path, *, serialize):
    command = python(TELLS, str(tmp_path / "environment"))
    record_command(command, tmp_path / "t", {"torch": "operators"}, Selection(serialize=serialize))
    environment = json.loads((tmp_path / "environment").read_text())
    return environment, pasta.open(tmp_path / "t")


def test_the_program_is_told_and_the_trace_says_so(tmp_path):
    environment, trace = recorded(tmp_path, serialize=True)
    assert {name: environment[name] for name in VARIABLES} == VARIABLES
    assert trace.info["serialized"] == VARIABLES
    notes = pasta.run("summary", trace=trace).notes
    assert any("t was recorded with --serialize" in note for note in notes)


def test_other_programs_keep_their_threads(tmp_path):
    environment, trace = recorded(tmp_path, serialize=False)
    assert environment["OMP_NUM_THREADS"] == "4"
    assert "CUDA_LAUNCH_BLOCKING" not in environment
    assert "serialized" not in trace.info
    assert not any("--serialize" in note for note in pasta.run("summary", trace=trace).notes)


@pytest.mark.torch
def test_torch_has_one_thread_and_no_threads_of_its_own_for_backward_passes(tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    source = """
    import sys, torch
    said = f"{torch.get_num_threads()} {torch._C._is_multithreading_enabled()}"
    open(sys.argv[1], "w").write(said)
    """
    command = python(source, str(tmp_path / "said"))
    record_command(command, tmp_path / "t", {"torch": "operators"}, Selection(serialize=True))
    assert (tmp_path / "said").read_text() == "1 False"
