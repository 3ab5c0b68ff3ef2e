"""A user without rights samples his own programs, and is told what is missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl
import pytest

from pasta.collect.companions.cpu.rungs import perf_rung, pyspy_rung
from pasta.trace import Trace
from tests.collect.companions.cpu.sampled_programs import (
    SPLIT_PY,
    assert_split,
    split_program,
    weight_of,
)
from tests.collect.recorded_programs import ROOT, table

NOBODY = 65534
RUNS = """
import subprocess, sys
import polars, pasta.api
subprocess.run([sys.executable, "-c", ""], check=True)
"""
CHECK = """
import json
from pasta.collect.companions.cpu.rungs import may_see_kernel, perf_rung, pyspy_rung
print(json.dumps([may_see_kernel(), perf_rung().lacks, pyspy_rung().lacks]))
"""


@pytest.fixture(scope="module")
def as_nobody():
    """A function that runs Python as a user without rights."""
    if os.geteuid() or shutil.which("setpriv") is None:
        pytest.skip("becoming another user takes root and setpriv")
    packages = os.pathsep.join([str(ROOT), str(Path(pl.__file__).parents[1])])
    tools = [Path(path).resolve().parent for path in (perf_rung().path, pyspy_rung().path) if path]
    path = os.pathsep.join([*map(str, tools), os.environ["PATH"]])
    environment = {**os.environ, "PYTHONPATH": packages, "PATH": path, "HOME": "/"}
    become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]

    def runs(python):
        command = [*become, python, "-c", RUNS]
        done = subprocess.run(command, env=environment, cwd="/", capture_output=True, check=False)
        return done.returncode == 0

    python = next(filter(runs, dict.fromkeys([sys.executable, "/usr/bin/python3"])), None)
    if python is None:
        pytest.skip("that user may not run this Python or read its packages")

    def run(*arguments, cwd="/", cache=None):
        given = {} if cache is None else {"PASTA_CACHE": str(cache)}
        done = subprocess.run(
            [*become, python, *arguments],
            env=environment | given, cwd=cwd, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    run.python = python
    return run


@pytest.fixture
def open_folder():
    """A folder that everybody may reach and write to, which pytest's own are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


def collected(as_nobody, folder, level, command, *, cache=None):
    """What a user without rights collects of a command."""
    arguments = ("--with", f"cpu:{level}", "--frequency", "499", "-o", "t")
    as_nobody("-m", "pasta", "collect", *arguments, "--", *command, cwd=folder, cache=cache)
    manifest = json.loads((folder / "t" / "trace.json").read_text())
    return Trace.open(folder / "t"), manifest["collectors"][0]


def test_perf_sees_user_code_and_the_trace_says_that_the_kernel_is_missing(as_nobody, open_folder):
    kernel, lacks, _ = json.loads(as_nobody("-c", CHECK))
    if lacks:
        pytest.skip(lacks)
    program = split_program(open_folder)
    trace, collector = collected(as_nobody, open_folder, "fp", [program, "1"])
    assert_split(trace, 1e9 / 499)
    assert collector["kernel"] is kernel
    assert any("kernel code" in line for line in collector["misses"]) is not kernel
    assert kernel or not table(trace, "frame")["library"].str.contains("kernel").any()


def test_py_spy_sees_functions_of_python(as_nobody, open_folder):
    _, _, lacks = json.loads(as_nobody("-c", CHECK))
    if lacks:
        pytest.skip(lacks)
    command = [as_nobody.python, "-c", SPLIT_PY + "work(2)"]
    trace, _ = collected(as_nobody, open_folder, "pyspy", command)
    assert_split(trace, 1e9 / 499, slack=0.03)
    assert set(table(trace, "frame")["language"]) == {"python"}


def test_a_python_samples_itself_and_the_trace_says_what_is_missing(as_nobody, open_folder):
    cache = open_folder / "cache"
    cache.mkdir(mode=0o777)
    cache.chmod(0o777)
    command = [as_nobody.python, "-c", SPLIT_PY + "work(2)"]
    trace, collector = collected(as_nobody, open_folder, "best", command, cache=cache)
    if not collector["name"].endswith(":python"):
        pytest.skip("the sampler cannot be compiled here, or this Python is not known")
    assert_split(trace, 1e9 / 499, slack=0.03)
    assert weight_of(trace, "work") == pytest.approx(2e9, abs=1e8)
    assert any("native code" in line for line in collector["misses"])
