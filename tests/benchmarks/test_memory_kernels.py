"""Work is timed by its name; PyTorch and the GPU are stand-ins."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from benchmarks.memory_kernels import REPEATS, measured


@pytest.fixture
def done(monkeypatch):
    """Two kinds of work, and the names of what was done."""
    cuda = SimpleNamespace(synchronize=lambda: None)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    names = []
    return {name: lambda name=name: names.append(name) for name in ("add", "norm")}, names


def test_all_work_is_measured_or_what_is_named(done):
    work, names = done
    assert list(measured(work, [""])) == ["add", "norm"]
    assert names == ["add"] * REPEATS + ["norm"] * REPEATS
    names.clear()
    assert measured(work, ["norm"])["norm"] >= 0
    assert names == ["norm"] * REPEATS


def test_a_name_of_no_work_is_told_before_any_is_done(done):
    work, names = done
    with pytest.raises(SystemExit, match="there is no work 'nrm'; there is add; norm"):
        measured(work, ["add", "nrm"])
    assert names == []
