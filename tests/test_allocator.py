"""What is freed is kept in one place where `pasta report` runs, and workers keep all of it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

from pasta.allocator import kept_for_parts

LOADED = "import polars; from pasta.allocator import keep_freed; keep_freed()"
BEFORE = "from pasta.allocator import keep_freed; keep_freed(); import polars"


def run_alone(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own, with nothing set of an allocator but what `environment` sets."""
    kept = {n: t for n, t in os.environ.items() if "MALLOC" not in n and n != "GLIBC_TUNABLES"}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=True,
    )


def settings(code: str, **environment: str) -> tuple[list[str], str]:
    """Return the settings of Polars' allocator after some code, and what it complains of."""
    done = run_alone(f"{code}; import os; print(os.environ['_RJEM_MALLOC_CONF'])", **environment)
    return done.stdout.strip().split(","), done.stderr


def test_polars_is_told_before_it_is_loaded() -> None:
    found, said = settings(BEFORE)
    arenas = max((os.cpu_count() or 1) // 4, 1)
    assert {f"narenas:{arenas}", "dirty_decay_ms:6000", "muzzy_decay_ms:0"} < set(found)
    assert found.index("muzzy_decay_ms:0") > found.index("muzzy_decay_ms:1000")
    assert said == ""


def test_what_is_set_already_holds() -> None:
    found, _ = settings(BEFORE, _RJEM_MALLOC_CONF="narenas:7")
    assert found[-1] == "narenas:7"


def test_nothing_changes_where_polars_is_loaded() -> None:
    found, _ = settings(LOADED)
    assert not any(setting.startswith("narenas") for setting in found)


KEPT = """
import resource
from pasta.allocator import give_back, keep_freed
{called}
import numpy as np
import polars as pl
from pasta.pipeline.engines.cpu import CpuEngine

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

def fill():
    [np.ones(1 << 20) for _ in range(24)]  # 192 MiB, freed together

fill()
before = faults()
fill()
again = faults() - before
held = resident()
{told}
print(again < 8 << 10, held - resident() > 100 << 20)
"""


def kept_and_given_back(called: str, told: str = "give_back()", **environment: str) -> list[str]:
    """Tell whether freed arrays are used again without faults, and whether they then go back when told."""
    return run_alone(KEPT.format(called=called, told=told), **environment).stdout.split()


of_gnu = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library is not that of GNU"
)


@of_gnu
def test_arrays_are_kept_until_they_are_given_back() -> None:
    assert kept_and_given_back("keep_freed()") == ["True", "True"]
    assert kept_and_given_back("keep_freed()", "pass") == ["True", "False"]
    assert kept_and_given_back("") == ["False", "False"]


@of_gnu
def test_a_plan_of_polars_has_arrays_given_back() -> None:
    told = "CpuEngine().collect([pl.LazyFrame({'a': [1]})])"
    assert kept_and_given_back("keep_freed()", told) == ["True", "True"]


@of_gnu
@pytest.mark.parametrize(
    ("name", "text"),
    [("MALLOC_ARENA_MAX", "3"), ("GLIBC_TUNABLES", "glibc.malloc.arena_max=3")],
)
def test_what_is_set_of_the_c_library_already_holds(name: str, text: str) -> None:
    assert kept_and_given_back("keep_freed()", **{name: text}) == ["False", "False"]


@pytest.fixture
def nothing_set(monkeypatch) -> None:
    """Leave out what the machine that runs the tests has set of the C library's allocator."""
    for name in ("MALLOC_ARENA_MAX", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("nothing_set")
def test_processes_that_work_on_parts_keep_what_they_free() -> None:
    before = dict(os.environ)
    shown = (
        "import polars, os; print(*(f'{n}={os.environ[n]}' for n in os.environ if 'MALLOC' in n))"
    )
    with kept_for_parts():
        done = subprocess.run(
            [sys.executable, "-c", shown], capture_output=True, text=True, check=True
        )
    found = dict(setting.split("=") for setting in done.stdout.split())
    assert found["_RJEM_MALLOC_CONF"].split(",")[-2:] == [
        "dirty_decay_ms:10000",
        "muzzy_decay_ms:0",
    ]
    assert int(found["MALLOC_TRIM_THRESHOLD_"]) > int(found["MALLOC_MMAP_THRESHOLD_"]) == 32 << 20
    assert done.stderr == ""
    assert dict(os.environ) == before


@pytest.mark.usefixtures("nothing_set")
def test_what_the_user_set_of_the_c_library_stays(monkeypatch) -> None:
    monkeypatch.setenv("MALLOC_ARENA_MAX", "7")
    with kept_for_parts():
        assert os.environ["MALLOC_ARENA_MAX"] == "7"
        assert "MALLOC_TRIM_THRESHOLD_" in os.environ
    assert os.environ["MALLOC_ARENA_MAX"] == "7"
    assert "MALLOC_TRIM_THRESHOLD_" not in os.environ
