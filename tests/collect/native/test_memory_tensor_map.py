"""Tensor maps as a driver (580.159, CUDA 13.0, on an H200) made them with cuTensorMapEncodeTiled, read back."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pasta.collect.target.compiled import NATIVE, compiler

SOURCE = Path(__file__).with_name("memory_tensor_map.cpp")
BASE = "34567000 7f12 6510 200 0 0 0 0 fff 3ff 0 0 0 3f000000 7f 0"
"""bf16, 4096 x 1024 in rows of 8192 bytes at 0x7f1234567000, box 64 x 128, swizzled by 128 bytes."""
FIVE = "34567000 7f12 6540 200 80000 2000000 20000000 0 fff 3ff 3f f 7 3f000000 7f 0"


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """A function that reads a map's words: whether it is plain, its address, and stride, size, box by dimension."""
    found = compiler()
    if not found:
        pytest.skip("there is no C++ compiler")
    program = tmp_path_factory.mktemp("native") / "memory_tensor_map"
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror", f"-I{NATIVE}"]
    subprocess.run([*found, *flags, SOURCE, "-o", program], check=True)

    def ask(words: str) -> tuple[bool, int, list[tuple[int, int, int]]]:
        done = subprocess.run([program, *words.split()], capture_output=True, text=True, check=True)
        first, *dimensions = [line.split() for line in done.stdout.splitlines()]
        read = [(int(stride), int(size), int(box)) for stride, size, box in dimensions]
        assert len(read) == int(first[2])
        return first[0] == "1", int(first[1], 16), read

    return ask


def test_a_matrix(read):
    assert read(BASE) == (True, 0x7F1234567000, [(2, 4096, 64), (8192, 1024, 128)])


def test_five_dimensions(read):
    strides = [2, 8192, 8192 * 1024, 8192 * 1024 * 64, 8192 * 1024 * 64 * 16]
    sizes, boxes = [4096, 1024, 64, 16, 8], [64, 128, 1, 1, 1]
    expected = list(zip(strides, sizes, boxes, strict=True))
    assert read(FIVE) == (True, 0x7F1234567000, expected)


@pytest.mark.parametrize(
    ("format_", "bytes_"),
    [
        *[("10", 1), ("90", 2), ("110", 4), ("190", 4), ("210", 8), ("290", 8), ("310", 2)],
        *[("390", 4), ("490", 8), ("510", 2), ("410", 4), ("10390", 4), ("10410", 4)],
    ],
)
def test_elements_of_every_type(read, format_, bytes_):
    plain, _, [(stride, _, _), _] = read(BASE.replace("6510", format_))
    assert (plain, stride) == (True, bytes_)


def test_the_largest_sizes_strides_and_boxes(read):
    sizes = FIVE.replace("fff 3ff 3f f 7 ", "ffffffff ffffffff 3f f ffffffff ")
    assert [size for _, size, _ in read(sizes)[2]] == [2**32, 2**32, 64, 16, 2**32]
    strides = FIVE.replace("20000000 0 fff", "ffffffff f000 fff")
    assert read(strides)[2][4][0] == 2**40 - 16
    boxes = FIVE.replace("3f000000 7f 0", "ff000000 34ff01ff 0")
    assert [box for _, _, box in read(boxes)[2]] == [256, 256, 2, 256, 53]


def test_a_step_of_one_element_says_nothing(read):
    of_cudnn = "c1000000 7f34 60b2 10 8000 80000 0 0 7f 7ff f 1 0 3f000e00 7f 0"
    expected = [(2, 128, 64), (256, 2048, 128), (2**19, 16, 1), (2**23, 2, 1)]
    assert read(of_cudnn) == (True, 0x7F34C1000000, expected)
    assert not read(of_cudnn.replace("3f000e00 7f", "3f000e00 1007f"))[0]


@pytest.mark.parametrize(
    ("words", "changed"),
    [("6510", "d10"), ("6510", "3510"), ("3f000000", "3f000001"), ("3f000000", "3f000038")],
    ids=["interleaved by 16", "interleaved by 32", "a step of 2", "a step of 8"],
)
def test_what_leaves_elements_out_is_not_plain(read, words, changed):
    assert not read(BASE.replace(words, changed))[0]
