"""What `perf script` prints becomes samples: a recording of this project, and lines by hand."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pasta.errors import InputError
from tests.collect.importers.import_help import imported_content, imported_file, losses, rows

RECORDED = Path(__file__).parent / "recorded" / "perf_script.txt"
SAMPLE = """\
my prog 3  1271/1273  [001]  40781.315462007:   10101010 cycles:u:
\t          276961 inner(int, std::function<void (int)>)+0x1f (/usr/lib/lib a.so (deleted))
\t          276900 outer (inlined)
\t    7f62d7456240 py::train:/home/a b/x.py (/tmp/perf-1271.map)
\t               0 [unknown] ([unknown])
\tffffffff82260286 exc_page_fault+0x176 ([kernel.kallsyms])

"""


@pytest.fixture
def imported(tmp_path):
    """A function that imports a text or a file, and gives report and trace."""

    def run(text, *, strict=False):
        if isinstance(text, Path):
            return imported_file(text, tmp_path, strict=strict)
        return imported_content(text, tmp_path, strict=strict)

    return run


def test_a_sample_and_its_stack(imported):
    report, trace = imported(SAMPLE)
    assert report.format == "Linux perf (perf script)"
    assert rows(trace, "sample", "pid", "tid", "ts", "dur", "kind", "weight") == [
        (1271, 1273, 40781315462007, None, "cycles", 10101010.0)
    ]
    assert rows(trace, "frame", "depth", "function", "file", "language", "library") == [
        (0, "exc_page_fault", "", "", "[kernel.kallsyms]"),
        (1, "[unknown]", "", "", ""),
        (2, "train", "/home/a b/x.py", "python", "/tmp/perf-1271.map"),
        (3, "outer", "", "", ""),
        (4, "inner(int, std::function<void (int)>)", "", "", "/usr/lib/lib a.so (deleted)"),
    ]
    assert trace.scan("frame").select(pl.col("stack_id").n_unique()).collect().item() == 1
    assert rows(trace, "thread", "pid", "tid", "name") == [(1271, 1273, "my prog 3")]
    assert report.losses == []


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("a 7/8 1.5: cpu-clock: ", (7, 8, 1_500_000_000, "on_cpu", None)),
        ("a     7 1.000001:        5 cycles: ", (7, 7, 1_000_001_000, "cycles", 5.0)),
        ("   a b  7 [003] 1.000001: 5 instructions:ppp: ", (7, 7, 1_000_001_000, "instructions:ppp", 5.0)),
        ("a 7/8 U  1.5: page-faults: ", (7, 8, 1_500_000_000, "page-faults", None)),
        ("a 7/8 [000] d.h1. 1.5: sched:sched_wakeup: comm=x pid=3", (7, 8, 1_500_000_000, "sched:sched_wakeup", None)),
        ("a 7/8 1.5: 9 cpu/event=0x3c,umask=1/u: ", (7, 8, 1_500_000_000, "cpu/event=0x3c,umask=1/u", 9.0)),
        ("a 7/8 1.5: 9 cpu_core/cycles/P: ", (7, 8, 1_500_000_000, "cpu_core/cycles/P", 9.0)),
        ("python 3 66512 1.5: cycles: ", (66512, 66512, 1_500_000_000, "cycles", None)),
        ("swapper 0/0 1.5: cycles: ", (0, 0, 1_500_000_000, "cycles", None)),
    ],
)  # fmt: skip
def test_heads_of_all_forms(imported, head, expected):
    _, trace = imported(f"{head}\n\tab f+0x1 (/x)\n\n")
    assert rows(trace, "sample", "pid", "tid", "ts", "kind", "weight") == [expected]
    assert rows(trace, "frame", "function", "library") == [("f", "/x")]


def test_a_single_frame_may_stand_behind_the_event(imported):
    _, trace = imported("a 7/7 1.5: 3 cpu-clock:   7fdbe9ed5a74 dl_main+0x1ab4 (/usr/lib/ld.so)\n")
    assert rows(trace, "frame", "depth", "function", "library") == [
        (0, "dl_main", "/usr/lib/ld.so")
    ]


def test_source_lines_below_frames(imported):
    text = "a 7/7 1.5: cycles: \n\t1da74 dl_main+0x1 (/ld.so)\n  rtld.c:1876\n\t2b f\n  ??:0\n\n"
    _, trace = imported(text)
    assert rows(trace, "frame", "function", "file", "line") == [
        ("f", "", 0),
        ("dl_main", "rtld.c", 1876),
    ]


def test_equal_stacks_are_stored_once_for_each_process(imported):
    other = SAMPLE.replace("1271/1273", "9/9")
    _, trace = imported(SAMPLE + other + SAMPLE)
    frames = trace.scan("frame").group_by("pid").len().sort("pid").collect().rows()
    assert frames == [(9, 5), (1271, 5)]
    assert trace.scan("sample").select(pl.col("stack_id").n_unique()).collect().item() == 1


def test_only_one_clock_is_time_on_the_cpu(imported):
    events = ("cycles:u", "cpu-clock", "task-clock:u")
    text = "".join(f"a 7/7 {n}.0: 1 {e}: \n\n" for n, e in enumerate(events, 1))
    _, trace = imported(text)
    assert rows(trace, "sample", "kind") == [("cycles",), ("on_cpu",), ("task-clock",)]


def test_switches_give_intervals_off_the_cpu(imported):
    text = """\
a 7/7 1.000000001: PERF_RECORD_SWITCH IN
a 7/7 1.000000010: PERF_RECORD_SWITCH OUT preempt
a 7/7 1.000000030: PERF_RECORD_SWITCH IN
a 7/8 1.000000050: PERF_RECORD_SWITCH_CPU_WIDE OUT          next pid/tid:     7/7
"""
    report, trace = imported(text)
    assert rows(trace, "sample", "tid", "ts", "dur", "kind", "weight", "stack_id") == [
        (7, 1_000_000_010, 20, "off_cpu", 20.0, 0)
    ]
    assert losses(report) == {"interval off the CPU without an end: left out": 1}


@pytest.mark.parametrize(
    "fields",
    [
        "prev_comm=a prev_pid={} prev_prio=120 prev_state=S ==> next_comm=b next_pid={} next_prio=1",
        "a:{} [120] S ==> b:{} [120]",
    ],
)
def test_tracepoints_of_switches_keep_the_stack(imported, fields):
    text = (
        f"a 7/7 [0] 1.000000010: sched:sched_switch: {fields.format(7, 8)}\n\tab wait (/x)\n\n"
        f"b 7/8 [0] 1.000000040: sched:sched_switch: {fields.format(8, 7)}\n\n"
        f"swapper 0/0 [0] 1.000000050: sched:sched_switch: {fields.format(0, 8)}\n\n"
    )
    report, trace = imported(text)
    assert rows(trace, "sample", "tid", "ts", "dur", "kind") == [
        (7, 1_000_000_010, 30, "off_cpu"),
        (8, 1_000_000_040, 10, "off_cpu"),
    ]
    [(stack,)] = rows(trace, "frame", "stack_id")
    assert rows(trace, "sample", "stack_id") == [(stack,), (0,)]
    assert report.losses == []


def test_processes_and_threads_from_perfs_own_records(imported):
    text = """\
# hostname : node7
perf-exec  0/0  0.000000000: PERF_RECORD_COMM: perf-exec:5/5
sh  5/5  1.000000001: PERF_RECORD_COMM exec: sh:5/5
sh  5/5  1.000000002: PERF_RECORD_FORK(9:9):(5:5)
sh  9/9  1.000000003: PERF_RECORD_MMAP2 9/9: [0x1(0x2) @ 0 fe:00 1 0]: r-xp /bin/true
true  9/9  1.000000004: PERF_RECORD_COMM exec: true:9/9
true  9/9  1.000000005: PERF_RECORD_FORK(9:10):(9:9)
true  9/9  1.000000009: PERF_RECORD_EXIT(9:9):(5:5)
"""
    report, trace = imported(text)
    assert rows(trace, "process", "pid", "parent_pid", "host", "command", "started", "ended") == [
        (5, None, "node7", "sh", 1_000_000_001, 1_000_000_002),
        (9, 5, "node7", "true", 1_000_000_002, 1_000_000_009),
    ]
    assert rows(trace, "thread", "pid", "tid", "started", "ended") == [
        (5, 5, 1_000_000_001, None),
        (9, 9, 1_000_000_002, 1_000_000_009),
        (9, 10, 1_000_000_005, None),
    ]
    assert (report.first_ts, report.last_ts) == (1_000_000_001, 1_000_000_009)


def test_a_thread_whose_process_is_not_printed_is_counted(imported):
    report, trace = imported("a 8 1.5: cycles: \n\na 8 1.6: cycles: \n\n")
    assert rows(trace, "sample", "pid") == [(8,), (8,)]
    assert [(r[:36], n) for r, n in losses(report).items()] == [
        ("thread whose process is not printed:", 1)
    ]
    text = "a 8 1.4: PERF_RECORD_MMAP2 7/8: [0x1(0x2) @ 0 0 1 0]: r-xp /x\na 8 1.5: cycles: \n\n"
    report, trace = imported(text)
    assert rows(trace, "sample", "pid") == [(7,)]
    assert report.losses == []


def test_the_recording(imported):
    """Counts by other means: lines of heads, and switches of each thread paired one by one."""
    report, trace = imported(RECORDED)
    text = RECORDED.read_text()
    assert report.losses == []
    kinds = dict(trace.scan("sample").group_by("kind").len().collect().rows())
    assert kinds == {
        "on_cpu": len(re.findall(r"cpu-clock:", text)),
        "off_cpu": len(re.findall(r"SWITCH OUT", text)),
    }
    assert kinds["on_cpu"] > 5
    weights = trace.scan("sample").filter(kind="on_cpu").select(pl.col("weight").unique())
    assert weights.collect().item() == 3344481.0
    frames = sum(line.startswith("\t") for line in text.splitlines())
    stacks = trace.scan("frame").group_by("stack_id").len()
    samples = trace.scan("sample").filter(pl.col("stack_id") > 0)
    assert samples.join(stacks, on="stack_id").select(pl.sum("len")).collect().item() == frames


def test_a_cut_file_loses_its_last_sample(imported):
    report, trace = imported(SAMPLE + SAMPLE[:200])
    assert len(rows(trace, "sample", "ts")) == 1
    assert losses(report) == {
        "the file ends within a line: the last sample is left out": 1,
    }
    with pytest.raises(InputError, match="ends within a line"):
        imported(SAMPLE + SAMPLE[:200], strict=True)


def test_lines_of_no_known_form_are_counted(imported):
    report, trace = imported(SAMPLE + "Warning: something\n" + SAMPLE)
    assert len(rows(trace, "sample", "ts")) == 2
    assert losses(report) == {"line of no known form: left out": 1}
    with pytest.raises(InputError, match="at 'Warning: something'"):
        imported("Warning: something\n" + SAMPLE, strict=True)


def test_perfs_own_recording_is_told_what_to_do(imported):
    with pytest.raises(InputError, match="perf script --ns"):
        imported(b"PERFILE2\x68\0\0\0")


def test_long_lines_take_no_time_out_of_proportion(imported):
    for line in (
        "a " * 100_000,
        "a" + " " * 200_000,
        "\tab " + "(" * 200_000,
        "\tab " + "()" * 90_000,
    ):
        imported(f"{SAMPLE[:-1]}{line}\n\n{SAMPLE}")


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_no_damage_escapes(imported, data):
    text = bytearray(RECORDED.read_bytes()[:2500])
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(text)))
        text[at : at + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=12))
    try:
        _, trace = imported(bytes(text))
    except InputError:
        return
    assert trace.scan("sample").filter(pl.col("dur") < 0).collect().is_empty()
