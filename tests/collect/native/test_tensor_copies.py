"""What tensor copies read is marked, byte for byte, wherever a box lies; the device code, run by threads of the host."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest

from pasta.collect.target.compiled import NATIVE, compiler

SOURCE = Path(__file__).with_name("tensor_copies.cpp")
EXPECTED = """\
touch: 0 wrong
counts: 0 wrong
instructions: 0 wrong
access: 0 wrong
records: 1
in one place: 0 wrong
known boxes: 0 wrong
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    found = compiler()
    if not found:
        pytest.skip("there is no C++ compiler")
    path = tmp_path_factory.mktemp("native") / "tensor_copies"
    flags = [
        "-std=c++20",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unused",
        "-Wno-unknown-pragmas",
        "-pthread",
        f"-I{NATIVE}",
    ]
    subprocess.run([*found, *flags, SOURCE, "-o", path], check=True)
    return path


def printed(program: Path, *arguments: str) -> str:
    done = subprocess.run(
        [program, *arguments], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout


def test_boxes_are_marked_as_their_elements_would_be(program):
    assert printed(program) == EXPECTED


def test_boxes_that_differ_along_two_dimensions_have_keys_of_their_own(program):
    factors = [int(line) for line in printed(program, "factors").split()]
    assert len(factors) == 5
    for first, second in itertools.combinations(factors, 2):
        shorter, longer = steps_without_effect(first, second)
        assert max(map(abs, shorter)) >= 2**31
        assert (
            square(longer) >= 2 * 2**62
        )  # and so is every step that is no multiple of the shorter


def steps_without_effect(first: int, second: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The two shortest steps along two dimensions that leave the sum of both times their factors, by Gauss."""
    shorter, longer = (2**64, 0), (-second * pow(first, -1, 2**64) % 2**64, 1)
    while True:
        if square(longer) < square(shorter):
            shorter, longer = longer, shorter
        product = shorter[0] * longer[0] + shorter[1] * longer[1]
        times = (2 * product + square(shorter)) // (2 * square(shorter))
        if times == 0:
            return shorter, longer
        longer = (longer[0] - times * shorter[0], longer[1] - times * shorter[1])


def square(step: tuple[int, int]) -> int:
    return step[0] ** 2 + step[1] ** 2
