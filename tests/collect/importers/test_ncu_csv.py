"""Nsight Compute's raw page to rows: two files that it printed, and lines written by hand."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from pasta.collect.importers.ncu import NcuCsv
from pasta.collect.sources import Source
from pasta.errors import InputError
from tests.collect.importers.import_help import imported_content, imported_file, losses, rows

FILES = Path(__file__).parent / "ncu"
MACHINE = "attributes of the machine, which are no counters of a launch: left out"
NO_NUMBER = "values that are no numbers: left out"
NAMES = [
    *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream"),
    *("Block Size", "Grid Size", "Device", "CC"),
]
ROW = ["0", "77", "a.out", "host", "add(int)", "1", "7", "(256, 1, 1)", "(4, 2, 1)", "0", "9.0"]


def lines(*rows):
    """Rows as ncu prints them."""
    return "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows)


def page(**counters):
    """A table of one launch: name -> (unit, value)."""
    units = [""] * len(NAMES) + [unit for unit, _ in counters.values()]
    return lines([*NAMES, *counters], units, [*ROW, *(value for _, value in counters.values())])


@pytest.fixture
def imported(tmp_path):
    """A function that imports a text, or the files of that name."""

    def run(text, *, strict=False):
        if text.endswith(".csv"):
            return imported_file(FILES / text, tmp_path, strict=strict)
        return imported_content(text, tmp_path, strict=strict)

    return run


def test_launches_of_all_processes_are_kernels(imported):
    _, trace = imported("ranges.csv")
    sizes = [f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"]
    columns = ("pid", "launch_id", "dur", "context", "stream", "name", *sizes, "registers")
    assert rows(trace, "kernel", *columns) == [
        (979, 1, 2848, 1, 7, "void scale<float, 3>(T1 *, T1)", 64, 2, 1, 128, 1, 1, 16),
        (979, 2, 5056, 1, 13, "void scale<double, 4>(T1 *, T1)", 1024, 2, 2, 32, 8, 1, 16),
        (1023, 1, 2976, 1, 7, "vecadd(const float *, const float *, float *)",
         256, 1, 1, 256, 1, 1, 16),
    ]  # fmt: skip
    kernels = trace.scan("kernel").collect()
    assert kernels["static_shared"].to_list() == kernels["dynamic_shared"].to_list() == [0, 0, 0]
    assert kernels["ts"].null_count() == 3
    assert rows(trace, "process", "pid", "command") == [(979, "two"), (1023, "vecadd")]


def test_values_are_exact_and_have_their_units(imported):
    report, trace = imported("ranges.csv")
    found = {
        (pid, launch, name): (value, unit)
        for pid, launch, name, value, unit in rows(
            trace, "metric", "pid", "launch_id", "name", "value", "unit"
        )
    }
    assert found[979, 1, "dram__bytes_read.sum"] == (35584, "byte")
    assert found[979, 1, "dram__cycles_active.avg.pct_of_peak_sustained_elapsed"] == (0.38, "%")
    assert found[979, 2, "l1tex__t_bytes.sum"] == (16777216, "byte")
    assert found[979, 2, "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum"] == (1 << 20, "inst")
    assert found[1023, 1, "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum"] == (
        1 << 16,
        "inst",
    )
    assert found[1023, 1, "launch__occupancy_limit_warps"] == (8, "block")
    assert len(found) == 3 * 11
    assert losses(report) == {MACHINE: 3 * 6, NO_NUMBER: 3}
    assert report.warnings == []


def test_the_machines_attributes_are_its_devices(imported):
    _, trace = imported("ranges.csv")
    columns = ("device", "vendor", "name", "memory_bytes", "multiprocessors", "compute_capability")
    device = (0, "nvidia", "NVIDIA H100 80GB HBM3", 85_017_493_504, 132, "9.0", 52_428_800)
    assert rows(trace, "device", "pid", *columns, "cache_bytes") == [
        (979, *device),
        (1023, *device),
    ]


def test_the_same_numbers_in_another_locale_are_the_same(imported):
    text = (FILES / "ranges.csv").read_text()
    *log, names, units, one, two, three = text.splitlines()
    swap = str.maketrans(".,", ",.")

    def foreign(line):
        at = line.index('"NVIDIA H100') + len('"NVIDIA H100 80GB HBM3",')
        cells = line[at:].replace('","', '" "').translate(swap).replace('" "', '","')
        return line[:at] + cells

    other = "\n".join([*log, names, units, *map(foreign, (one, two, three))]) + "\n"
    assert '"52.428.800"' in other
    assert '"0,38"' in other
    for table in ("kernel", "metric", "device"):
        expected = imported("ranges.csv")[1].scan(table).collect()
        assert imported(other)[1].scan(table).collect().equals(expected)


def test_counts_by_instruction_sum_up_to_those_of_the_launch(imported):
    _, trace = imported("stalls.csv")
    metrics = trace.scan("metric").collect()
    by_instruction = metrics.filter(pl.col("pc").is_not_null())
    key = ["pid", "launch_id", "name", "unit"]
    sums = by_instruction.group_by(key).agg(pl.col("value").sum())
    whole = metrics.filter(pl.col("pc").is_null()).select([*key, "value"])
    assert sums["name"].n_unique() == 4
    assert sums.height == 4 * 4
    assert sums.join(whole, on=[*key, "value"], how="anti").height == 0
    assert by_instruction["value"].min() > 0


def test_instructions_are_offsets_into_the_kernel_with_their_source_lines(imported):
    _, trace = imported("stalls.csv")
    metrics = trace.scan("metric").filter(pl.col("name") == "inst_executed").collect()
    first = metrics.filter(
        pl.col("pid") == 1525, pl.col("launch_id") == 1, pl.col("pc").is_not_null()
    ).sort("pc")
    assert first["pc"].to_list() == [16 * n for n in range(18)]
    assert first["value"].to_list() == [512.0] * 18
    lines = [int(source.removeprefix("/src/two.cu:")) for source in first["source"]]
    assert lines == [5, 6, 6, 6, 6, 6, 7, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8]
    without_lines = metrics.filter(pl.col("pid") == 1558, pl.col("pc").is_not_null())
    assert without_lines["source"].null_count() == without_lines.height == 2 * 17


def test_names_are_demangled(imported):
    _, trace = imported("stalls.csv")
    assert [name for (name,) in rows(trace, "kernel", "name")] == [
        "void scale<float, 3>(float*, float)",
        "void scale<double, 4>(double*, double)",
        *["vecadd(float const*, float const*, float*)"] * 2,
    ]


def test_lines_of_two_processes_at_one_address_are_doubtful(imported):
    def told(line):
        head = ["Line No", "Source", "Address", "Source"]
        return lines(["File Path", "/a.cu"], head, [line, "x", "-", "-"], ["", "", "0x1010", "LDG"])

    counters = {"launch__function_pcs": ("", "1 (0: 4096)"), "n": ("", "3 (0x1010: 3)")}
    for text, source in ((told("5"), "/a.cu:5"), (told("5") + told("6"), None)):
        _, trace = imported("==PROF== Connected to process 77 (/a)\n" + text + page(**counters))
        by_instruction = trace.scan("metric").filter(pl.col("pc").is_not_null()).collect()
        assert by_instruction.select("pc", "source", "value").rows() == [(16, source, 3.0)]


def test_numbers_of_launches_go_on_in_the_next_table(imported):
    text = page(a=("", "1")) + "==PROF== again\n" + page(a=("", "2"))
    _, trace = imported(text)
    assert rows(trace, "metric", "launch_id", "value") == [(1, 1.0), (2, 2.0)]


@pytest.mark.parametrize(
    ("unit", "value", "duration", "reason"),
    [
        ("ns", "2848", 2848, None),
        ("nsecond", "1,234,567", 1_234_567, None),
        ("us", "2.85", 2850, "durations printed in a larger unit than ns: as rounded by ncu"),
        ("ns", "2.85", None,
         "durations that are no whole number of ns: null; print with --print-units base"),
        ("ns", "n/a", None, NO_NUMBER),
    ],
)  # fmt: skip
def test_durations_are_whole_nanoseconds(imported, unit, value, duration, reason):
    report, trace = imported(page(**{"gpu__time_duration.sum": (unit, value)}))
    assert rows(trace, "kernel", "dur") == [(duration,)]
    assert losses(report) == ({} if reason is None else {reason: 1})


def test_sizes_in_larger_units_are_no_columns_of_the_kernel(imported):
    static = "launch__shared_mem_per_block_static"
    _, trace = imported(page(**{static: ("Kbyte/block", "32.77")}))
    assert rows(trace, "kernel", "static_shared") == [(None,)]
    assert rows(trace, "metric", "value", "unit") == [(32.77, "Kbyte/block")]


def test_a_table_without_units_has_none(imported):
    _, trace = imported(lines([*NAMES, "a"], [*ROW, "5"]))
    assert rows(trace, "metric", "value", "unit") == [(5.0, "")]


def test_counters_of_ranges_are_of_no_launch(imported):
    names = [name for name in NAMES if name not in ("Block Size", "Grid Size")]
    row = ["0", "77", "a.out", "host", "range", "1", "n/a", "0", "9.0"]
    report, trace = imported(lines([*names, "a"], [""] * 10, [*row, "5"]) + page(a=("", "6")))
    assert rows(trace, "metric", "value") == [(6.0,)]
    assert losses(report) == {
        "counters of whole ranges, which are of no single launch: left out": 1
    }


def test_cut_lines_are_counted(imported):
    text = page(a=("", "1")) + '"1","77","a.out","ho'
    report, _ = imported(text)
    cut = "lines of launches that have another number of fields than the table: left out"
    assert losses(report) == {cut: 1}
    assert report.warnings == [f"{report.path.parent / 'content'}: {cut}"]
    with pytest.raises(InputError, match=cut):
        imported(text, strict=True)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - The user does not have\n",
         "NVreg_RestrictProfilingToAdminUsers=0"),
        ("==PROF== Connected\n==WARNING== No kernels were profiled.\n", "ncu counted no launch"),
        (lines([*NAMES, "Section Name", "Metric Name", "Metric Unit", "Metric Value"]),
         "--page raw"),
    ],
)  # fmt: skip
def test_where_there_are_no_counters_one_line_says_why(imported, text, why):
    with pytest.raises(InputError) as error:
        imported(text)
    assert why in str(error.value)
    assert "\n" not in str(error.value)


def test_the_format_is_known_by_its_content():
    def recognises(head: bytes) -> bool:
        return NcuCsv().recognises(Source("page.csv", head, iter(()), len(head)))

    assert recognises(page(a=("", "1")).encode())
    assert recognises(b"\xef\xbb\xbf" + page(a=("", "1")).encode())
    assert recognises(b"output of the program\n" + page(a=("", "1")).encode())
    assert recognises(b"==PROF== Connected to process 77 (/a.out)\n")
    assert not recognises(b'{"traceEvents": []}')
    assert not recognises(b'"ID","Process","Name"\n')


def test_launches_whose_kernel_no_column_names_are_left_out(imported):
    report, trace = imported(page(a=("", "1")).replace(',"Kernel Name"', ""))
    assert trace.rows("kernel") == 0
    assert losses(report) == {
        "line of names that lacks the kernel's or the process's: its launches are left out": 1,
        "lines of launches that have another number of fields than the table: left out": 1,
    }


def test_columns_that_are_missing_are_unknown(imported):
    text = page(a=("", "1"))
    for name in ("Context", "Stream", "Device"):
        text = text.replace(f'"{name}"', '"other"')
    _, trace = imported(text)
    assert rows(trace, "kernel", "context", "stream", "device") == [(0, 0, 0)]


@pytest.mark.parametrize("number", ["9" * 25, "9" * 5000, "18446744073709551616"])
@pytest.mark.parametrize(
    ("place", "cell", "column"),
    [(5, "{}", "context"), (6, "{}", "stream"), (7, "({}, 1, 1)", "block_x"), (9, "{}", "device")],
)
def test_numbers_that_fit_no_column_are_unknown(imported, place, cell, column, number):
    row = [*ROW[:place], cell.format(number), *ROW[place + 1 :]]
    _, trace = imported(lines(NAMES, [""] * len(NAMES), row))
    assert rows(trace, "kernel", column)[0][0] in (None, 0)


@pytest.mark.parametrize("value", ["9" * 30, "-5", "9" * 100_000])
def test_durations_that_nobody_believes_are_unknown(imported, value):
    report, trace = imported(page(**{"gpu__time_duration.sum": ("ns", value)}))
    assert rows(trace, "kernel", "dur") == [(None,)]
    assert report.rows["kernel"] == 1


@pytest.mark.parametrize(
    "line", ['"Line No"', '"File Path"', '"Line No","Source","Address"\n"3","x","0xzz"', '"a\rb"']
)
def test_damaged_pages_of_source_lines_cost_nothing_else(imported, line):
    report, _ = imported(f"{line}\n{page(a=('', '1'))}")
    assert report.rows["metric"] == 1
