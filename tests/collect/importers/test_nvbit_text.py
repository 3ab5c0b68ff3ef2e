"""Text memory traces of NVBit: each active lane of each instruction is an access."""

from __future__ import annotations

import gzip
import re

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pasta.collect.importers.nvbit_text.opcodes import Opcode, opcode_of
from pasta.errors import InputError
from tests.collect.importers.import_help import imported_content, losses, rows

CTX = "CTX 0x000055d5c7f51d60"
LAUNCH = (
    f"MEMTRACE: {CTX} - LAUNCH - Kernel pc 0x00007f0000000000 - Kernel name vec - add(float*, int)"
    " - grid launch id {} - grid size 4,2,1 - block size 128,1,1 - nregs 10 - shmem 512"
    " - cuda stream id 7"
)


def access(launch=0, cta="0,0,0", warp=0, opcode="LDG.E", addresses=(), *, pc=""):
    lanes = [*addresses, *[0] * (32 - len(addresses))]
    text = " ".join(f"0x{address:016x}" for address in lanes)
    return f"MEMTRACE: {CTX} - grid_launch_id {launch} - CTA {cta} - warp {warp} - {pc}{opcode} - {text} "


@pytest.fixture
def imported(tmp_path):
    def run(lines, *, strict=False):
        text = lines if isinstance(lines, bytes) else "\n".join(lines) + "\n"
        return imported_content(text, tmp_path, strict=strict)

    return run


def test_launches_and_their_accesses(imported):
    report, trace = imported(
        [
            "------------- NVBit (NVidia Binary Instrumentation Tool v1.7.1) Loaded --------------",
            LAUNCH.format(0),
            access(0, "1,0,0", 3, "LDG.E.64", [0x7F8A01800000, 0, 0x7F8A01800010]),
            "output of the program",
            access(0, "3,1,0", 2, "STG.E", [0xFFFFFFFFFFFFFFFF], pc="pc 0x1a0 - "),
            LAUNCH.format(1),
            access(1, "0,0,0", 0, "ATOMS.ADD.U64", [0] * 31 + [64]),
        ]
    )
    assert report.format == "memory trace (NVBit text)"
    columns = ("launch_id", "request", "lane", "pc", "address", "bytes", "op", "space", "warp", "block")  # fmt: skip
    assert rows(trace, "access", *columns) == [
        (1, 0, 0, None, 0x7F8A01800000, 8, 0, 0, 3, 1),
        (1, 0, 2, None, 0x7F8A01800010, 8, 0, 0, 3, 1),
        (1, 1, 0, 0x1A0, 0xFFFFFFFFFFFFFFFF, 4, 1, 0, 2, 7),
        (2, 0, 31, None, 64, 8, 2, 1, 0, 0),
    ]
    shape = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
    columns = ("launch_id", "dur", "context", "stream", "name", *shape, "registers", "shared_bytes")
    same = (None, 0x55D5C7F51D60, 7, "vec - add(float*, int)", 4, 2, 1, 128, 1, 1, 10, 512)
    assert rows(trace, "kernel", *columns) == [(1, *same), (2, *same)]
    assert report.losses == []


def test_lines_of_older_tools(imported):
    report, trace = imported(
        [
            "kernel 4 - CTA 0,0,0 - warp 1 - LD.E.128 - 0x10 0x7f8a01800008",
            "CTX 0x0000000000000001 - CTA 0,0,1 - warp 0 - ST - 0x20",
        ]
    )
    assert rows(trace, "access", "launch_id", "lane", "address", "bytes", "op", "space", "block") == [
        (5, 0, 0x10, 16, 0, 3, 0),
        (5, 1, 0x7F8A01800008, 16, 0, 3, 0),
        (5, 0, 0x20, 4, 1, 3, None),
    ]  # fmt: skip
    assert rows(trace, "kernel", "launch_id", "name") == [(5, "")]
    assert losses(report) == {
        "launch that only its accesses tell of: kernel without a name": 1,
        "block in y or z of a grid whose size is not told: block unknown": 1,
    }


def test_launches_have_any_number_of_64_bits(imported):
    last, beyond = 2**64 - 2, 2**64 - 1
    told = [LAUNCH.format(last), access(last, addresses=[5])]
    report, trace = imported([*told, LAUNCH.format(beyond), access(beyond, addresses=[6])])
    assert rows(trace, "access", "launch_id", "address") == [(2**64 - 1, 5)]
    assert rows(trace, "kernel", "launch_id") == [(2**64 - 1,)]
    assert losses(report) == {"line of no known form: left out": 2}


@pytest.mark.parametrize(
    ("mnemonic", "expected"),
    [
        ("LDG.E", (0, 0, 4)),
        ("LDG.E.U8.CONSTANT", (0, 0, 1)),
        ("LDG.E.S16", (0, 0, 2)),
        ("LDG.E.LTC128B.64", (0, 0, 8)),
        ("LDS.128", (0, 1, 16)),
        ("LDSM.16.M88.4", (0, 1, 16)),
        ("LDL.LU", (0, 2, 4)),
        ("LD.E.256", (0, 3, 32)),
        ("STL.64", (1, 2, 8)),
        ("ST.E.STRONG.SYS", (1, 3, 4)),
        ("LDGSTS.E.BYPASS.128", (0, 0, 16)),
        ("ATOMG.E.ADD.F16x2.RN", (2, 0, 4)),
        ("ATOM.E.CAS.64", (2, 3, 8)),
        ("RED.E.ADD.F64.RN", (2, 0, 8)),
        ("CCTL.IVALL", (3, 3, 4)),
        ("SULD.D.2D.TRAP", (0, 5, 4)),
        ("TLD4", (0, 5, 4)),
    ],
)
def test_opcodes(mnemonic, expected):
    assert opcode_of(mnemonic) == Opcode(*expected)


@pytest.mark.parametrize("mnemonic", ["FADD", "LDGDEPBAR", "LDC.64", "LDX", ""])
def test_other_opcodes_are_none(mnemonic):
    assert opcode_of(mnemonic) is None


def test_damaged_lines_cost_only_themselves(imported):
    good = access(0, addresses=[1, 2])
    lines = [
        LAUNCH.format(0),
        good,
        good.replace("0x0000000000000002", "0x00000000000000g2"),
        good.replace("CTA 0,0,0", "CTA 0,0"),
        access(0, opcode="FADD", addresses=[1]),
        access(1, addresses=[3]),
        access(0, addresses=[4]),
        LAUNCH.format(0),
        good[:-1] + "0x1 ",
    ]
    report, trace = imported(lines)
    assert rows(trace, "access", "launch_id", "request", "address") == [
        (1, 0, 1),
        (1, 0, 2),
        (2, 0, 3),
        (1, 2, 4),
    ]
    assert losses(report) == {
        "access whose addresses are damaged: left out": 2,
        "line of no known form: left out": 1,
        "access by an instruction of no known kind: left out": 1,
        "launch that only its accesses tell of: kernel without a name": 1,
        "launches that run at the same time: their accesses are not in order": 1,
        "launch that is told of twice: kept once": 1,
    }
    with pytest.raises(InputError, match="no known form"):
        imported(lines[:2] + lines[3:4], strict=True)
    with pytest.raises(InputError, match="addresses are damaged"):
        imported(lines[:3], strict=True)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_cut_file_loses_its_last_line(imported, compressed):
    text = "\n".join(
        [LAUNCH.format(0), *(access(0, addresses=[n + 1]) for n in range(99))]
    ).encode()
    data = gzip.compress(text) if compressed else text
    report, trace = imported(data[: len(data) * 9 // 10])
    kept = [address for (address,) in rows(trace, "access", "address")]
    assert kept == list(range(1, len(kept) + 1))
    assert 5 < len(kept) < 99
    assert "the file ends within a line: the last line is left out" in losses(report)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(
            st.integers(0, 1),
            st.integers(0, 3),
            st.lists(st.integers(0, 2**64 - 1) | st.just(0), max_size=32),
            st.booleans(),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_rows_equal_those_of_a_line_by_line_reading(imported, warps):
    lines = [LAUNCH.format(0), LAUNCH.format(1)]
    for launch, warp, addresses, short in warps:
        line = access(launch, warp=warp, addresses=addresses)
        lines.append(re.sub(r"0x0+(?=[0-9a-f])", "0x", line) if short else line)
    _, trace = imported(lines)
    expected = [
        (launch + 1, warp, lane, address)
        for launch, warp, addresses, _ in warps
        for lane, address in enumerate(addresses)
        if address
    ]
    if expected:
        assert rows(trace, "access", "launch_id", "warp", "lane", "address") == expected


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_no_damage_escapes(imported, data):
    lines = [LAUNCH.format(0), access(0, "9,9,9", addresses=[5]), access(1, addresses=[1, 2])]
    text = bytearray("\n".join(lines).encode())
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(text)))
        odd = st.binary(max_size=6) | st.sampled_from([b"99999999999", b"- ", b"0x", b"\n", b","])
        text[at : at + data.draw(st.integers(0, 12))] = data.draw(odd)
    try:
        _, trace = imported(bytes(text))
    except InputError:
        return
    if trace.has("access"):
        assert trace.scan("access").filter(pl.col("lane") > 31).collect().is_empty()
