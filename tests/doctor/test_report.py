"""The whole report: on this machine, where a check fails, and where pasta is broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from pasta.doctor import installation, machine, report
from pasta.doctor.check import Check, Status

ROOT = Path(__file__).parents[2]


def doctor(*arguments: str, first: Path | None = None) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(map(str, filter(None, [first, ROOT])))
    return subprocess.run(
        [sys.executable, "-m", "pasta", "doctor", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
        cwd="/",
    )


def test_on_this_machine():
    done = doctor("--format", "json")
    assert done.returncode == 0, done.stdout
    told = json.loads(done.stdout)
    assert told["broken"] is False
    assert {row["area"] for row in told["checks"]} == {
        "pasta itself",
        "this machine",
        "permissions and other profilers",
        "what watches programs from beside them",
        "what pasta collect --with can record",
    }
    by_name = {row["name"]: row for row in told["checks"]}
    assert "the rest" not in by_name
    assert by_name["a tool on the shipped trace"]["status"] == "ok"
    assert by_name["Python"]["found"].startswith(".".join(map(str, sys.version_info[:3])))
    assert f"polars {__import__('polars').__version__}" in by_name["dependencies"]["found"]
    collectors = {
        "torch",
        "cuda",
        "cuda.memory",
        "cuda.counters",
        "nvml",
        "nsys",
        "rocprofv3",
        "cpu",
    }
    assert collectors <= set(by_name)


def test_a_dependency_that_does_not_import_is_broken_and_nothing_else_is_looked_at(tmp_path):
    (tmp_path / "pyarrow.py").write_text("raise ImportError('libarrow.so: cannot open')\n")
    done = doctor(first=tmp_path)
    assert done.returncode == 1
    assert "  broken   dependencies" in done.stdout
    assert "pyarrow: libarrow.so: cannot open" in done.stdout
    assert "-> pip install --force-reinstall pasta-trace" in done.stdout
    assert "this machine" not in done.stdout
    assert done.stdout.splitlines()[-1].endswith("is broken: see above")
    assert "Traceback" not in done.stdout + done.stderr


def test_a_check_that_fails_is_reported_and_the_others_go_on(monkeypatch):
    def checks(_facts):
        yield Check(Status.OK, "first", "there")
        raise ValueError("unheard of")

    monkeypatch.setattr(machine, "checks", checks)
    examined = report.examine()
    assert examined["this machine"] == [
        Check(Status.OK, "first", "there"),
        Check(Status.UNKNOWN, "the rest", "a check failed: ValueError('unheard of')"),
    ]
    assert examined["what pasta collect --with can record"]
    assert not report.is_broken(examined)


def test_text_says_what_and_below_it_what_to_do():
    checks = [
        Check(Status.OK, "Python", "3.12"),
        Check(Status.MISSING, "CUPTI", "none", "pip install it"),
    ]
    lines = report.as_text({"here": checks}).splitlines()
    assert lines[:4] == [
        "here",
        "  ok       Python  3.12",
        "  missing  CUPTI   none",
        "                   -> pip install it",
    ]
    assert lines[-1].endswith(" works")


def test_extras_with_versions(monkeypatch):
    known = {"torch": "2.13.0", "cudf-polars-cu13": "26.10.0", "cudf-cu13": "26.10.0"}
    monkeypatch.setattr(installation, "_version", known.get)
    assert installation._torch() == Check(Status.OK, "PyTorch", "2.13.0")
    assert installation._gpu().found == "no cupy, dask-cuda"
    known.update({"cupy-cuda13x": "14.1.1", "dask-cuda": "26.10.0"})
    assert installation._gpu() == Check(
        Status.OK,
        "extra gpu",
        "cudf-polars 26.10.0, cudf 26.10.0, cupy 14.1.1, dask-cuda 26.10.0",
    )
    known.clear()
    assert installation._torch().status is installation._gpu().status is Status.MISSING
