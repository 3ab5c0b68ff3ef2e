"""What the sampler of Python's stacks does at addresses that are none, and at threads that end."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pasta.collect.target.compiled import NATIVE, compiler
from tests.collect.native.threads_help import output_of

SOURCE = Path(__file__).with_name("python_sampling.cpp")
pytestmark = pytest.mark.native


def test_what_is_not_there_is_neither_read_nor_taken_away(tmp_path):
    found = compiler()
    if not found:
        pytest.skip("there is no C++ compiler")
    program = tmp_path / "program"
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{NATIVE}"]
    subprocess.run([*found, *flags, str(SOURCE), "-o", program, "-pthread"], check=True)
    told = output_of(program)
    assert told == "found 1 42, nowhere 0\nrefused 0\nasked 2, deleted 1\n"
