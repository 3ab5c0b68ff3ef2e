"""What tensor maps span of memory, and what is left beside it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pasta.collect.target.compiled import NATIVE, compiler

SOURCE = Path(__file__).with_name("tensor_spans.cpp")


def test_spans_are_every_granule_of_every_element_and_count_once(tmp_path):
    found = compiler()
    if not found:
        pytest.skip("there is no C++ compiler")
    program = tmp_path / "tensor_spans"
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{NATIVE}"]
    subprocess.run([*found, *flags, SOURCE, "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    assert done.stdout == "maps 600, ranges 300, of many rows 1, beyond all addresses 0\n"
