"""Marks of a page, read by the range and by the block, against one byte after the other."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

SOURCE = Path(__file__).with_name("memory_marks.cpp")
PAGE_SHIFT = 21
PAGE = 0x7F12 << 32 | 6 << PAGE_SHIFT


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    made = tmp_path_factory.mktemp("native") / "memory_marks"
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *flags, str(SOURCE), "-o", str(made)], check=True)
    return made


def random_ranges(random, shift, count):
    """Return ranges that lie in the page, beyond it at either side, or outside; some on granules."""
    begins = PAGE + random.integers(-(1 << 18), 1 << PAGE_SHIFT, count)
    ends = begins + random.choice([1, 31, 1 << shift, 3000, 1 << 20, 1 << 22], count)
    begins[::5] = begins[::5] >> shift << shift
    ends[::5] = np.maximum(ends[::5] >> shift << shift, begins[::5] + 1)
    edges = [
        (PAGE, PAGE + (1 << PAGE_SHIFT)),
        (PAGE + 5, PAGE + 6),
        (PAGE - 9, PAGE),
        (0, 2**64 - 1),
    ]
    return [*zip(begins.tolist(), ends.tolist(), strict=True), *edges]


def brute_force(marks, counters, shift, begin, end):
    """Return read, written, either in bytes, and the accesses of granules that were marked."""
    granules = np.arange(len(marks), dtype=np.int64) << shift
    first = np.clip(begin - PAGE, granules, granules + (1 << shift))
    last = np.clip(min(end, PAGE + (2 << PAGE_SHIFT)) - PAGE, granules, granules + (1 << shift))
    overlap = np.maximum(last - first, 0)
    unique = [int(overlap[(marks & bits) > 0].sum()) for bits in (1, 2, 3)]
    hit = (overlap > 0) & (marks > 0)
    return unique, [int(counters[hit, kind].sum()) for kind in range(3)]


def blocks(marks, counters, shift, block_shift, span):
    begin, end = max(span[0], PAGE), min(span[1], PAGE + (1 << PAGE_SHIFT))
    rows = []
    while begin < end:
        block = begin >> block_shift
        stop = min(end, (block + 1) << block_shift)
        counts = brute_force(marks, counters, shift, begin, stop)[1]
        if any(counts):
            rows += [block, *counts]
        begin = stop
    return rows


@pytest.mark.parametrize("shift", [5, 9, 12, 16, 17, 20, 21])
@pytest.mark.parametrize("density", [0.02, 0.7])
@pytest.mark.parametrize("counted", [True, False])
def test_ranges_and_blocks(program, shift, density, counted):
    random = np.random.default_rng(shift * 2 + counted)
    count = 1 << (PAGE_SHIFT - shift)
    marks = random.integers(1, 4, count) * (random.random(count) < density)
    marks[0] = 3
    counters = random.integers(0, 1000, (count, 3)) * (marks > 0)[:, None]
    padded = np.zeros(-(-count // 16) * 16, dtype=np.uint32)
    padded[:count] = marks
    words = (padded.reshape(-1, 16) << (np.arange(16, dtype=np.uint32) * 2)).sum(1).astype("<u4")
    ranges = random_ranges(random, shift, 60)
    leaf = words.tobytes() + (counters.astype("<u4").tobytes() if counted else b"")
    block_shift = max(shift, 16)
    command = [str(program), *map(str, (PAGE, shift, int(counted), block_shift, len(ranges)))]
    told = subprocess.run(
        command,
        input=leaf + np.array(ranges, dtype="<u8").tobytes(),
        capture_output=True,
        check=True,
    ).stdout.decode()
    for line, (begin, end) in zip(told.splitlines(), ranges, strict=True):
        unique, accesses = brute_force(marks, counters, shift, begin, end)
        of_blocks = blocks(marks, counters, shift, block_shift, (begin, end))
        want = [*unique, *accesses, *of_blocks] if counted else [*unique, 0, 0, 0]
        assert list(map(int, line.split())) == want
