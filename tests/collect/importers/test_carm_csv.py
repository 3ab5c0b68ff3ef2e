"""Ceilings of the CARM tool become metrics that `cpu_roofline` draws."""

from __future__ import annotations

import pytest

import pasta
from pasta.collect.importing import import_trace
from pasta.errors import InputError

HEAD = """\
Name:,venus,L1 Size:,48,L2 Size:,1280,L3 Size:,36864
Date,ISA,Precision,Threads,Loads,Stores,Interleaved,DRAM Bytes,FP Inst.,L1 GB/s,L1 I/Cycle,L2 GB/s,L2 I/Cycle,L3 GB/s,L3 I/Cycle,DRAM GB/s,DRAM I/Cycle,FP GFLOP/s,FP I/Cycle,FP FMA GFLOP/s,FP FMA I/Cycle
"""
ROW = (
    "2026-11-29 08:00:00,avx2,dp,4,2,1,No,524288,add,400.5,2.9,200,1.4,100,0.7,20,0.1,50,2.0,0,0\n"
)


def test_ceilings(tmp_path):
    file = tmp_path / "venus_roofline.csv"
    file.write_text(HEAD + ROW + "\n2026,short\n")
    report = import_trace([file], tmp_path / "t")
    rows = pasta.open(tmp_path / "t").scan("metric").select("name", "value", "unit").sort("name").collect().rows()  # fmt: skip
    assert rows == [
        ("roof avx2 dp 4 threads: DRAM", 20e9, "bytes/s"),
        ("roof avx2 dp 4 threads: FP", 50e9, "flop/s"),
        ("roof avx2 dp 4 threads: L1", 400.5e9, "bytes/s"),
        ("roof avx2 dp 4 threads: L2", 200e9, "bytes/s"),
        ("roof avx2 dp 4 threads: L3", 100e9, "bytes/s"),
    ]
    assert [(reason, count) for _, reason, count, _ in report.losses] == [("row without a ceiling: left out", 1)]  # fmt: skip


def test_a_file_without_ceilings_is_refused(tmp_path):
    file = tmp_path / "roofline.csv"
    file.write_text(HEAD)
    with pytest.raises(InputError, match="no row of the CARM tool holds a ceiling"):
        import_trace([file], tmp_path / "t")
