"""What tensor copies read is marked once, byte for byte, wherever a box lies; the device code, run by the host."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pasta.collect.target.compiled import NATIVE, compiler

SOURCE = Path(__file__).with_name("tensor_copies.cpp")
EXPECTED = """\
touch: 0 wrong
counts: 0 wrong
whole pages: 0 wrong
in memory without a page: 2
not sized: 2
"""


def test_boxes_are_marked_as_their_elements_would_be(tmp_path):
    found = compiler()
    if not found:
        pytest.skip("there is no C++ compiler")
    program = tmp_path / "program"
    flags = [
        "-std=c++20",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unused",
        "-Wno-unknown-pragmas",
        f"-I{NATIVE}",
    ]
    subprocess.run([*found, *flags, SOURCE, "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == EXPECTED
