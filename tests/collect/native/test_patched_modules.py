"""Modules bear patches while launches are watched, also where other threads load modules meanwhile."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pasta.collect.target.compiled import NATIVE, compiler
from pasta.collect.toolkits import find_headers

SOURCE = Path(__file__).with_name("patched_modules.cpp")
EXPECTED = """\
not watched: 0
watched: 1 1
one more: 1 2
no longer: 1 0
of a new context: 1
one gone: 1 2
at once: 1 63
wrong: 0
"""
pytestmark = pytest.mark.native


def test_patches_are_set_and_removed_in_turn(tmp_path):
    found = compiler()
    headers = [find_headers(name) for name in ("cuda.h", "crt/host_defines.h", "sanitizer.h")]
    if not found or None in headers:
        pytest.skip("there is no C++ compiler, or no header of CUDA or Compute Sanitizer")
    program = tmp_path / "program"
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]
    folders = [f"-I{NATIVE}", *(f"-isystem{folder}" for folder in headers)]
    command = [*found, *flags, *folders, str(SOURCE), "-o", str(program), "-pthread", "-ldl"]
    subprocess.run(command, check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == EXPECTED
