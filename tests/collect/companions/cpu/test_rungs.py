"""Which rungs a machine allows, by what its kernel and its files say."""

from __future__ import annotations

import sys

import pytest

from pasta.collect import native_library
from pasta.collect.companions.cpu import choice, own_samples, rungs
from pasta.collect.companions.cpu.rungs import Rung
from pasta.collect.companions.options import HostOptions
from pasta.errors import CollectError

PERFMON, ADMIN, OTHER = 1 << 38, 1 << 21, 1 << 5


@pytest.mark.parametrize(
    ("paranoid", "held", "allowed"),
    [
        ("2\n", 0, False),
        ("2\n", OTHER, False),
        ("2\n", PERFMON, True),
        ("4\n", ADMIN, True),
        ("1\n", 0, True),
        ("-1\n", 0, True),
        ("", 0, False),
    ],
)
def test_who_may_see_the_kernel(paranoid, held, allowed):
    assert rungs.may_see_kernel(paranoid, held) is allowed


def test_capabilities_are_read_from_the_status():
    assert rungs.capabilities("Name:\tx\nCapEff:\t0000004000200020\n") == PERFMON | ADMIN | OTHER
    assert rungs.capabilities("Name:\tx\n") == 0


WORKS, LACKS = Rung("/bin/x"), Rung("", "no x on PATH", "install x")
PLAIN, NATIVE, EVENT = HostOptions(), HostOptions(native=True), HostOptions(events=("cycles",))
SCRIPT = [sys.executable, "x.py"]


@pytest.mark.parametrize(
    ("rungs_here", "command", "options", "level"),
    [
        ((WORKS, WORKS, WORKS), SCRIPT, PLAIN, "python"),
        ((WORKS, LACKS, LACKS), SCRIPT, PLAIN, "python"),
        ((WORKS, WORKS, WORKS), SCRIPT, NATIVE, "pyspy"),
        ((WORKS, WORKS, WORKS), SCRIPT, EVENT, "fp"),
        ((WORKS, WORKS, WORKS), [sys.executable, "-I", "x.py"], PLAIN, "pyspy"),
        ((LACKS, WORKS, WORKS), SCRIPT, PLAIN, "pyspy"),
        ((WORKS, WORKS, WORKS), ["sh"], PLAIN, "fp"),
        ((LACKS, LACKS, WORKS), SCRIPT, PLAIN, "fp"),
        ((WORKS, WORKS, LACKS), ["sh"], PLAIN, "pyspy"),
    ],
)
def test_the_best_rung_is_chosen(monkeypatch, rungs_here, command, options, level):
    own, pyspy, perf = rungs_here
    monkeypatch.setattr(choice, "sampler_rung", lambda: own)
    monkeypatch.setattr(choice, "pyspy_rung", lambda: pyspy)
    monkeypatch.setattr(choice, "perf_rung", lambda: perf)
    monkeypatch.setattr(choice, "is_loadable", lambda: True)
    assert choice.best_level(command, options) == level


def test_where_the_sampler_does_not_compile_py_spy_is_taken(monkeypatch, tmp_path):
    monkeypatch.setattr(choice, "pyspy_rung", lambda: WORKS)
    monkeypatch.setattr(native_library, "BUILT", tmp_path / "none")
    monkeypatch.setenv("PASTA_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", "false")
    assert choice.best_level(SCRIPT, PLAIN) == "pyspy"
    assert "does not compile" in own_samples.sampler_rung().lacks


def test_a_cache_that_cannot_be_written_to_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(native_library, "BUILT", tmp_path / "none")
    cache = tmp_path / "file" / "pasta"
    cache.parent.touch()
    monkeypatch.setenv("PASTA_CACHE", str(cache))
    monkeypatch.setenv("CXX", "true")
    rung = own_samples.sampler_rung()
    assert f"{cache} cannot be written to" in rung.lacks
    assert "PASTA_CACHE" in rung.advice


def test_where_nothing_works_it_is_said_what_to_do(monkeypatch):
    monkeypatch.setattr(choice, "pyspy_rung", lambda: LACKS)
    monkeypatch.setattr(choice, "perf_rung", lambda: Rung("", "no perf", "install perf"))
    with pytest.raises(CollectError, match="no perf, and no x on PATH; install perf, or install x"):
        choice.best_level(["sh"], PLAIN)


def test_an_absent_tool_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert rungs.perf_rung().lacks == "no perf on PATH"
    assert rungs.pyspy_rung().advice == "pip install py-spy"


@pytest.mark.parametrize("level", ["python", "pyspy", "fp", "dwarf"])
def test_a_lower_rung_says_what_it_misses(level):
    everything = rungs.misses(level, kernel=True)
    assert everything
    assert len(rungs.misses(level, kernel=False)) >= len(everything)
