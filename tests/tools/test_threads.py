"""`threads` on two processes whose every nanosecond is known."""

from __future__ import annotations

import polars as pl
import pytest

import pasta


def stack(number, *functions, pid=1):
    """A stack of frames `function` of the program, `library!function` of a library, or `file:function`."""
    rows = []
    for depth, text in enumerate(functions):
        library, _, name = text.rpartition("!")
        file, _, function = name.rpartition(":")
        rows.append({"pid": pid, "stack_id": number, "depth": depth, "function": function, "file": file or ("" if library else "app.py"), "line": 7, "language": "c" if library else "python", "library": library})  # fmt: skip
    return rows


def off(stack_id, ts, dur, tid=1, pid=1):
    return {"pid": pid, "tid": tid, "ts": ts, "dur": dur, "kind": "off_cpu", "weight": float(dur), "stack_id": stack_id}  # fmt: skip


def on(ts, tid=1, weight=10.0, pid=1):
    return {"pid": pid, "tid": tid, "ts": ts, "kind": "on_cpu", "weight": weight, "stack_id": 1}


PROCESSES = [
    {"pid": 1, "parent_pid": 0, "command": "train.py", "started": 0, "ended": 1_000, "exit_code": 0},
    {"pid": 2, "parent_pid": 1, "command": "loader", "started": 200, "ended": 900, "exit_code": -9, "stack_id": 0},
]  # fmt: skip
THREADS = [
    {"pid": 1, "tid": 1, "name": "main", "started": 0, "ended": 1_000},
    {"pid": 1, "tid": 11, "name": "worker", "started": 100, "ended": 600, "stack_id": 5},
    {"pid": 2, "tid": 2, "name": "loader", "started": 200, "ended": 900},
]
FRAMES = [
    *stack(1, "main", "compute"),
    *stack(2, "main", "pause", "libc.so.6!clock_nanosleep", "[kernel]!do_nanosleep", "[kernel]!schedule"),
    *stack(3, "main", "get", "/usr/lib/python3.11/threading.py:wait", "libc.so.6!sem_clockwait", "[kernel]!futex_wait"),
    *stack(4, "main", "finish", "libcudart.so!cudaStreamSynchronize", "libc.so.6!poll"),
    *stack(5, "main", "spawn_workers"),
    *stack(1, "loop", "fetch", "libc.so.6!__read", "[kernel]!pipe_read", pid=2),
]  # fmt: skip
SAMPLES = [
    *(on(ts) for ts in range(110, 301, 10)),
    off(2, 300, 400),
    off(4, 700, 100),
    *(on(ts) for ts in range(810, 1_001, 10)),
    off(3, 150, 450, tid=11),
    on(130, tid=11, weight=20.0),
    off(1, 200, 690, tid=2, pid=2),
]


@pytest.fixture
def report(make_trace):
    tables = {"thread": THREADS, "process": PROCESSES, "frame": FRAMES, "sample": SAMPLES}
    return pasta.run("threads", trace=make_trace(**tables))


def test_times_of_threads(report):
    """Main lives 1,000 ns: 500 off the CPU, and samples say 400 on it, 100 less than remain."""
    columns = [
        "thread",
        "lived_ns",
        "on_cpu_ns",
        "off_cpu_ns",
        "waits_for",
        "wait_ns",
        "spawned_at",
    ]
    assert report.tables["threads"].select(columns).rows() == [
        ("main 1, pid 1", 1_000, 400, 500, "sleep", 400, None),
        ("worker 11, pid 1", 500, 20, 450, "condition", 450, "main (app.py:7) > spawn_workers (app.py:7)"),
        ("loader 2, pid 2", 700, 0, 690, "input and output", 690, None),
    ]  # fmt: skip


def test_waits_have_the_reason_that_their_frames_tell(report):
    waits = (
        report.tables["waits"].select("place", "waits_for", "wait_ns", "times", "threads").rows()
    )
    assert waits == [
        ("fetch (app.py:7)", "input and output", 690, 1, 1),
        ("get (app.py:7)", "condition", 450, 1, 1),
        ("pause (app.py:7)", "sleep", 400, 1, 1),
        ("finish (app.py:7)", "device", 100, 1, 1),
    ]
    assert report.tables["of.reasons"]["share"].sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("functions", "reason"),
    [
        (["libc.so.6!__lll_lock_wait", "[kernel]!futex_wait"], "lock"),
        (["libc.so.6!pthread_cond_wait@@GLIBC_2.3.2", "[kernel]!futex_wait"], "condition"),
        (["python!take_gil", "libc.so.6!pthread_cond_timedwait"], "interpreter lock"),
        (["libc.so.6!epoll_wait", "[kernel]!do_epoll_wait", "[kernel]!schedule"], "poll"),
        (["[kernel]!do_sys_poll", "[kernel]!schedule_hrtimeout_range"], "poll"),
        (["libc.so.6!wait4", "[kernel]!do_wait"], "child process"),
        (["libhip.so!hipDeviceSynchronize", "libhsa.so!hsa_signal_wait_scacquire"], "device"),
        (["[kernel]!futex_wait", "[kernel]!schedule"], "lock or condition"),
        (["[kernel]!io_schedule", "[kernel]!schedule"], "input and output"),
        (["[kernel]!irqentry_exit_to_user_mode", "[kernel]!schedule"], "preempted"),
        (["a.out!multiply"], "unknown"),
        (["/x/site-packages/torch/cuda/__init__.py:synchronize"], "device"),
        (["a.out!readiness_of_pollen"], "unknown"),
    ],
)
def test_reasons(make_trace, functions, reason):
    trace = make_trace(thread=THREADS[:1], frame=stack(9, "main", *functions), sample=[off(9, 0, 10)])  # fmt: skip
    assert pasta.run("threads", trace=trace).tables["waits"]["waits_for"].to_list() == [reason]


@pytest.mark.parametrize(
    ("state", "functions", "reason"),
    [
        ("preempted", ["libc.so.6!__read"], "preempted"),
        ("uninterruptible", ["libc.so.6!__read"], "input and output"),
        ("uninterruptible", ["a.out!touch_pages"], "uninterruptible"),
        ("sleeping", ["a.out!touch_pages"], "unknown"),
    ],
)
def test_the_state_that_the_kernel_tells(make_trace, state, functions, reason):
    sample = {**off(9, 0, 10), "state": state}
    trace = make_trace(thread=THREADS[:1], frame=stack(9, "main", *functions), sample=[sample])
    assert pasta.run("threads", trace=trace).tables["waits"]["waits_for"].to_list() == [reason]


def test_processes_and_who_spawned_them(report):
    rows = report.tables["tree"].select("pid", "parent_pid", "command", "after_ns", "lived_ns", "exit_code", "threads").rows()  # fmt: skip
    assert rows == [(1, 0, "train.py", 0, 1_000, 0, 2), (2, 1, "loader", 200, 700, -9, 1)]


def test_samples_that_miss_the_exact_time_are_warned_of(make_trace, report):
    """Main misses 100 ns of 1,000, the worker 30 of 500 and the loader 10 of 700; a period is 10 ns."""
    assert not any("do not trust" in text for text in report.findings)
    tables = {"thread": THREADS, "process": PROCESSES, "frame": FRAMES, "sample": SAMPLES}
    strict = pasta.run("threads", trace=make_trace("strict", **tables), differ=0.01)
    assert [text for text in strict.findings if "do not trust" in text] == [
        "samples of main 1, pid 1 stand for 400 ns on the CPU, but it lived for 1.00 us of which it was off it for 500 ns: off by 10.0 % of its life; do not trust its shares"
    ]  # fmt: skip


def test_the_timeline_holds_each_life_once(make_trace, tmp_path):
    tables = {"thread": THREADS, "process": PROCESSES, "frame": FRAMES, "sample": SAMPLES}
    pasta.run("threads", trace=make_trace(**tables), out=tmp_path / "out")
    pieces = pl.read_parquet(next((tmp_path / "out").rglob("timeline*.parquet")))
    lengths = {
        row["thread"]: row["dur"]
        for row in pieces.group_by("thread").agg(pl.col("dur").sum()).to_dicts()
    }
    assert lengths == {"main 1, pid 1": 1_000, "worker 11, pid 1": 500, "loader 2, pid 2": 700}
    main = (
        pieces.filter(thread="main 1, pid 1").select("at_ns", "dur", "activity", "waits_for").rows()
    )
    assert main == [
        (0, 100, "unknown", None),
        (100, 200, "on the CPU", None),
        (300, 400, "off the CPU", "sleep"),
        (700, 100, "off the CPU", "device"),
        (800, 200, "on the CPU", None),
    ]


def test_nothing_is_said_without_samples_and_times(make_trace):
    report = pasta.run("threads", trace=make_trace(thread=[{"tid": 1, "name": "main"}]))
    assert len(report.findings) == 1
    assert report.findings[0].startswith("neither samples nor time off the CPU")


def test_time_of_the_recording_is_not_told_as_the_programs(make_trace):
    """py-spy stops a thread for 60 of the 100 ns that it is off the CPU."""
    samples = [{**off(2, 100, 60), "state": "traced"}, {**off(2, 300, 40), "state": "sleeping"}]
    report = pasta.run("threads", trace=make_trace(thread=THREADS, sample=samples, frame=FRAMES))
    stopped = (
        "a tracer stops threads for 60 ns, 60.0 % of all time off the CPU, as py-spy does for each sample: that is the"
        " recording, not the program (--with cpu:fp stops nothing)"
    )
    assert report.findings[1:] == [
        "pause (app.py:7) is off the CPU for 40 ns in 1 thread, 40.0 % of all such time: sleep",
        stopped,
    ]
