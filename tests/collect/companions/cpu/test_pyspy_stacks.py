"""Lines of py-spy become rows: processes, threads, frames of Python and of native code."""

from __future__ import annotations

import polars as pl
import pytest

from pasta.collect.companions.cpu.pyspy_stacks import PySpyStacks
from pasta.collect.losses import Losses
from pasta.trace_merge import read_parts
from pasta.trace_parts import part_files
from pasta.trace_writer import PartWriter

LINES = [
    'process 7:"sh -c x";process 8:"python a.py 1";thread (9): worker;main (/a/a.py:3);f (/a/a.py:5) 4',
    'process 7:"sh -c x";process 8:"python a.py 1";thread (9);main (/a/a.py:3) 2',
    'process 8:"python a.py 1";thread (0x10);sin (/lib/libm.so.6);0x12 (?);k (src/k.c:9) 1',
    "no stack",
    "main (/a/a.py:3) 2",
    "",
]
OF_SEVERAL_LINES = [
    'process 7:"python -c import a;b',
    "x = 1; f (1) 3",
    '";thread (7);<module> (<string>:2) 3',
]


def read(tmp_path, lines=LINES, *, idle=False):
    part, losses = PartWriter(tmp_path), Losses("cpu")
    stacks = PySpyStacks(part, losses, 100, idle=idle)
    for line in lines:
        stacks.take(line)
    stacks.finish()
    part.flush()
    tables = {table: read_parts(part_files(tmp_path / table)) for table in part.rows}
    return tables, {loss.reason: loss.count for loss in losses}


def test_a_count_stands_for_its_time(tmp_path):
    tables, _ = read(tmp_path)
    samples = tables["sample"].select("pid", "tid", "ts", "kind", "weight").rows()
    assert samples == [
        (8, 9, None, "on_cpu", 40e6),
        (8, 9, None, "on_cpu", 20e6),
        (8, 16, None, "on_cpu", 10e6),
    ]


@pytest.mark.parametrize("idle", [False, True])
def test_threads_that_wait_are_told_only_when_asked_for(tmp_path, idle):
    waiting = [
        f'process 8:"python";thread ({tid});main (/a.py:3);{leaf} (/lib/python3/{file}:1) 4'
        for tid, file, leaf in [
            (1, "threading.py", "Condition.wait"),
            (2, "threading.py", "wait"),
            (3, "threading.py", "Thread._wait_for_tstate_lock"),
            (4, "selectors.py", "EpollSelector.select"),
        ]
    ]
    running = [
        f'process 8:"python";thread ({tid});{stack} 1'
        for tid, stack in [
            (5, "wait (/a/my_threading.py:3)"),
            (6, "Condition.wait (/lib/threading.py:9);f (/a.py:1)"),
            (7, "Condition.notify (/lib/threading.py:9)"),
        ]
    ]
    tables, losses = read(tmp_path, waiting + running, idle=idle)
    expected = [1, 2, 3, 4, 5, 6, 7] if idle else [5, 6, 7]
    assert tables["sample"]["tid"].to_list() == expected
    assert losses == {}


def test_processes_and_threads_are_no_frames(tmp_path):
    tables, _ = read(tmp_path)
    assert tables["process"].select("pid", "parent_pid", "command").rows() == [
        (7, None, "sh -c x"),
        (8, 7, "python a.py 1"),
    ]
    assert tables["thread"].select("pid", "tid", "name").rows() == [(8, 9, "worker"), (8, 16, None)]
    assert "worker" not in tables["frame"]["function"]


def test_frames_of_native_code_have_a_library(tmp_path):
    tables, _ = read(tmp_path)
    columns = ["depth", "function", "file", "line", "language", "library"]
    frames = tables["frame"].filter(pl.col("pid") == 8).select(columns).rows()
    assert (1, "f", "/a/a.py", 5, "python", "") in frames
    assert (0, "sin", "", 0, "", "/lib/libm.so.6") in frames
    assert (1, "0x12", "", 0, "", "") in frames
    assert (2, "k", "src/k.c", 9, "", "") in frames


def test_other_lines_are_counted(tmp_path):
    _, counted = read(tmp_path)
    assert list(counted.values()) == [2]


def test_a_command_may_have_several_lines(tmp_path):
    tables, counted = read(
        tmp_path, [*OF_SEVERAL_LINES, *LINES[2:3], 'process 9:"cut', *LINES[2:3]]
    )
    commands = dict(tables["process"].select("pid", "command").rows())
    assert commands[7] == "python -c import a;b\nx = 1; f (1) 3\n"
    assert tables["sample"].select("pid", "weight").rows() == [(7, 30e6), (8, 10e6), (8, 10e6)]
    assert list(counted.values()) == [1]
