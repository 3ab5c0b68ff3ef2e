"""Lines as NVBit's `mem_trace` prints them: pasta's importer reads back what was written."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.collect.importers.nvbit_text.opcodes import opcode_of
from pasta.collect.importing import import_trace
from pasta.errors import InputError
from pasta.exports.nvbit import opcode, write_nvbit
from pasta.trace import Trace
from tests.conftest import write_trace
from tests.tools.warps import BASE, KERNELS, PROGRAMS, request, row_of

COLUMNS = ["launch_id", "request", "lane", "pc", "address", "bytes", "op", "space", "warp", "block"]


def written(trace, folder, **process):
    file = Path(folder) / "trace.txt"
    counts = write_nvbit(trace, file, **process)
    return file, {reason: count for reason, count in counts.items() if count}


def read_back(file, folder):
    report = import_trace([file], Path(folder) / "back")
    assert report.losses == []
    return Trace.open(Path(folder) / "back")


@given(PROGRAMS)
@settings(max_examples=15)
def test_accesses_come_back(rows):
    """Launches and requests are numbered anew, without gaps; a prefetch tells no space."""
    with tempfile.TemporaryDirectory() as folder:
        trace = write_trace(Path(folder) / "t", access=rows, kernel=KERNELS)
        file, counts = written(trace, folder)
        back = read_back(file, folder)
        found = back.scan("access").select(COLUMNS).collect().rows()
        names = back.scan("kernel").sort("launch_id").select("name", "grid_x").collect().rows()
    assert counts == {"written": len(rows)}
    launches = sorted({row["launch_id"] for row in rows})
    assert names == [("second" if launch == 2 else "first", 2) for launch in launches]
    expected = []
    for number, launch in enumerate(launches, start=1):
        mine = [row for row in rows if row["launch_id"] == launch]
        requests = sorted({row["request"] for row in mine})
        for row in mine:
            space = 3 if row["op"] == 3 else row["space"]
            place = {"launch_id": number, "request": requests.index(row["request"]), "space": space}
            expected.append(tuple({**row, **place}[name] for name in COLUMNS))
    assert found == expected


def test_a_line_by_hand(make_trace, tmp_path):
    kernel = {**KERNELS[1], "context": 0x55D5, "stream": 7, "registers": 10, "static_shared": 8, "dynamic_shared": 4, "block_x": 64, "name": "void\nk(int*)"}  # fmt: skip
    rows = request(5, [BASE, None, BASE + 64], launch=2, op=1, size=8, pc=0x1A0, warp=1, block=1)
    file, _ = written(make_trace(access=rows, kernel=[kernel]), tmp_path)
    lanes = [BASE, 0, BASE + 64, *[0] * 29]
    launch, access = file.read_text().splitlines()
    assert launch == (
        "MEMTRACE: CTX 0x00000000000055d5 - LAUNCH - Kernel pc 0x0000000000000000 - Kernel name"
        " void k(int*) - grid launch id 0 - grid size 2,1,1 - block size 64,1,1 - nregs 10"
        " - shmem 12 - cuda stream id 7"
    )
    start = "MEMTRACE: CTX 0x00000000000055d5 - grid_launch_id 0 - CTA 1,0,0 - warp 1 - pc 0x1a0"
    assert access == start + " - STG.64 - " + "".join(f"0x{lane:016x} " for lane in lanes)


def test_what_no_line_can_say_is_counted(make_trace, tmp_path):
    rows = [
        *request(0, row_of(BASE, lanes=64)),
        *request(1, [0, BASE]),
        *request(2, [BASE], size=1024),
        *request(3, [BASE], space=4),
    ]
    file, counts = written(make_trace(access=rows), tmp_path)
    assert counts == {
        "lane above 31": 32,
        "address 0, which stands for a lane that takes no part": 1,
        "no instruction does this with so many bytes": 2,
        "written": 33,
    }
    assert read_back(file, tmp_path).scan("access").collect().height == 33


def test_many_portions_are_one_file(make_trace, tmp_path, monkeypatch):
    monkeypatch.setattr("pasta.exports.nvbit._MOST_ROWS", 40)
    rows = [row for launch in (1, 2, 3) for row in request(0, row_of(BASE), launch=launch)]
    file, counts = written(make_trace(access=rows, kernel=KERNELS), tmp_path)
    assert counts == {"written": 96}
    back = read_back(file, tmp_path).scan("access").collect()
    assert back["launch_id"].to_list() == [launch for launch in (1, 2, 3) for _ in range(32)]


def test_one_process_has_to_be_meant(make_trace, tmp_path):
    rows = [{**row, "pid": pid} for pid in (1, 2) for row in request(0, [BASE])]
    trace = make_trace(access=rows)
    with pytest.raises(InputError, match="one process has to be chosen"):
        write_nvbit(trace, tmp_path / "x")
    assert written(trace, tmp_path, pid=2)[1] == {"written": 1}
    with pytest.raises(InputError, match="no raw accesses"):
        write_nvbit(make_trace("other", kernel=KERNELS), tmp_path / "x")


@given(st.integers(0, 3), st.integers(0, 5), st.sampled_from([1, 2, 4, 8, 16, 32]))
def test_opcodes_say_what_they_are_made_of(op, space, size):
    name = opcode(op, space, size)
    if name is None:
        assert (op, space) in {(0, 4), (2, 4)}
    else:
        read = opcode_of(name)
        assert (read.op, read.space, read.bytes) == (op, 3 if op == 3 else space, size)
