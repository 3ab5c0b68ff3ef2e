"""The header by which collectors hear of NVTX ranges, against NVTX's own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pasta.collect.target.compiled import NATIVE
from pasta.collect.toolkits import find_headers

HERE = Path(__file__).parent
EXPECTED = """\
depth 0
depth 1
depth 2
 in 3 since 7
registered in 2 since 7
with attributes in 1 since 7
outer in 0 since 7
until the end in 0 since 7
after the end in 0 since 7
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    headers = find_headers("nvtx3/nvToolsExt.h")
    compilers = shutil.which("cc"), shutil.which("c++")
    if headers is None or None in compilers:
        pytest.skip("there are no headers of NVTX, or no compilers (cc, c++)")
    folder = tmp_path_factory.mktemp("nvtx")
    listener = ["-std=c++20", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", f"-I{NATIVE}"]
    subprocess.run(
        [compilers[1], *listener, HERE / "nvtx_listener.cpp", "-o", folder / "listener.so"],
        check=True,
    )
    program = [
        compilers[0],
        f"-I{headers}",
        HERE / "nvtx_program.c",
        "-o",
        folder / "program",
        "-ldl",
    ]
    subprocess.run(program, check=True)
    return folder


def run(folder: Path, **variables: str) -> str:
    environment = {**os.environ, **variables}
    done = subprocess.run(
        [folder / "program"], capture_output=True, text=True, check=True, env=environment
    )
    return done.stdout


def test_ranges_that_are_pushed_and_popped_are_heard_of(folder):
    assert run(folder, NVTX_INJECTION64_PATH=str(folder / "listener.so")) == EXPECTED


def test_the_program_runs_without_it(folder):
    assert "since" not in run(folder, NVTX_INJECTION64_PATH="")
