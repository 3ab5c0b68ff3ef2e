"""`cpu_roofline` on counters whose operations, bytes and ceilings are worked out by hand."""

from __future__ import annotations

import pytest

import pasta
from tests.tools.counters_run import ROOFS, counted, intel


def test_operations_and_bytes_by_vector_width(make_trace):
    """1 + 2 of scalars, 4 and 2 of 128 bits, 8 and 4 of 256, 16 and 8 of 512 for each instruction.

    Instructions: 360, elements of 4 bytes in 160 and of 8 in 200; the widths add up to 10,040 bytes.
    """
    counts = {
        "scalar_single": 10, "scalar_double": 20, "128b_packed_single": 30, "128b_packed_double": 40,
        "256b_packed_single": 50, "256b_packed_double": 60, "512b_packed_single": 70, "512b_packed_double": 80,
    }  # fmt: skip
    rows = counted(
        **{intel(kind): count for kind, count in counts.items()}, mem_inst_retired__any=720
    )
    point = pasta.run("cpu_roofline", trace=make_trace(metric=rows)).tables["points"].to_dicts()[0]
    assert point["flops"] == 10 + 20 + 4 * 30 + 2 * 40 + 8 * 50 + 4 * 60 + 16 * 70 + 8 * 80
    assert point["bytes"] == 2 * (10 * 4 + 20 * 8 + 70 * 16 + 110 * 32 + 150 * 64)
    assert point["element_bytes"] == 2 * (160 * 4 + 200 * 8)
    assert point["time_ns"] == 1_000_000_000


def test_a_point_below_the_roof_of_a_cache(make_trace):
    """10^10 operations in 1 s, with 4 x 10^9 loads and stores of 32 bytes: 10/128 for each byte.

    The roofs there are 400, 200, 100 and 20 GB/s times 10/128: 31.25, 15.6, 7.8 and 1.6 Gflop/s.
    """
    rows = counted(**{intel("256b_packed_double"): 2.5e9}, mem_inst_retired__any=4e9)
    report = pasta.run("cpu_roofline", trace=make_trace(metric=[*rows, *ROOFS]))
    point = report.tables["points"].to_dicts()[0]
    assert point["intensity"] == pytest.approx(10 / 128)
    assert point["roof"] == pytest.approx(400e9 * 10 / 128)
    assert point["roof_share"] == pytest.approx(0.32)
    assert point["below"] == "L2"
    assert report.findings == [
        "the whole run: 10.00 Gflop/s at 0.07812 operations for each byte, 32.0 % of the roof; it lies below the roof of L2"
    ]  # fmt: skip


def test_ceilings_are_chosen_and_given(make_trace):
    rows = counted(**{intel("scalar_double"): 1e9}, mem_inst_retired__any=1e9)
    trace = make_trace(metric=[*rows, *ROOFS])
    chosen = pasta.run("cpu_roofline", trace=trace, roofs="scalar").tables["points"].to_dicts()[0]
    assert (chosen["roof"], chosen["below"]) == (pytest.approx(50e9 / 8), "DRAM")
    given = pasta.run("cpu_roofline", trace=trace, peak_flops=2e9, l1=1e11).tables["points"].to_dicts()[0]  # fmt: skip
    assert given["roof"] == 2e9


def test_amd_counts_operations_themselves(make_trace):
    """300 operations in single and 100 in double precision: 5 bytes for each element on average."""
    rows = counted(
        retired_sse_avx_operations__sp_mult_add_flops=300,
        retired_sse_avx_operations__dp_add_sub_flops=100,
        ls_dispatch__ld_dispatch=30,
        ls_dispatch__store_dispatch=10,
    )
    point = pasta.run("cpu_roofline", trace=make_trace(metric=rows)).tables["points"].to_dicts()[0]
    assert (point["flops"], point["bytes"], point["intensity"]) == (400, 200, 2)


def test_intervals_and_the_whole_run(make_trace):
    rows = [
        *counted(9_000_000, 1_000_000, **{intel("scalar_double"): 100}, mem_inst_retired__any=50),
        *counted(10_000_000, 3_000_000, **{intel("scalar_double"): 20}, mem_inst_retired__any=150),
    ]
    points = pasta.run("cpu_roofline", trace=make_trace(metric=rows)).tables["points"]
    assert points.select("name", "time_ns", "flops", "intensity").rows() == [
        ("the whole run", 4_000_000, 120, 120 / 1_600),
        ("interval from 1 ms", 3_000_000, 20, 20 / 1_200),
        ("interval from 0 ms", 1_000_000, 100, 100 / 400),
    ]


def test_a_function_by_samples_of_the_same_counters(make_trace):
    """Of the samples those with `kernel_dp` in their stack: 10^6 instructions of 256 bits in 10 ms."""
    frames = [
        {"stack_id": stack, "depth": depth, "function": name, "file": "", "line": 0, "language": "c", "library": ""}
        for stack, names in ((1, ("main", "kernel_dp", "inner")), (2, ("main", "other")))
        for depth, name in enumerate(names)
    ]  # fmt: skip
    samples = [
        {"tid": 1, "ts": ts, "kind": kind, "stack_id": stack, "weight": weight}
        for ts, (kind, stack, weight) in enumerate([
            ("on_cpu", 1, 1e7), ("on_cpu", 2, 5e7), ("fp_arith_inst_retired.256b_packed_double", 1, 1e6),
            ("mem_inst_retired.any", 1, 5e5), ("mem_inst_retired.any", 2, 9e9),
        ])
    ]  # fmt: skip
    trace = make_trace(metric=counted(cycles=5), frame=frames, sample=samples)
    point = pasta.run("cpu_roofline", trace=trace, function="^kernel_").tables["points"].to_dicts()[0]  # fmt: skip
    assert point["name"] == "functions ~ ^kernel_"
    assert (point["flops"], point["bytes"], point["time_ns"]) == (4e6, 1.6e7, 10_000_000)
    assert point["flops_per_second"] == pytest.approx(4e8)


def test_the_reason_where_there_are_no_counters(make_trace):
    gpu = {"ts": 0, "dur": 5, "device": 0, "name": "power", "value": 300.0, "unit": "W"}
    none = pasta.run("cpu_roofline", trace=make_trace("none", metric=[gpu]))
    assert len(none.findings) == 1
    assert none.findings[0].startswith("no counters of floating-point instructions are recorded")
    some = pasta.run("cpu_roofline", trace=make_trace("some", metric=counted(**{intel("scalar_double"): 5})))  # fmt: skip
    assert some.findings[0].startswith("loads and stores are not counted")
