"""Counters of `perf stat -j`, of a whole run and of intervals, whole and damaged."""

from __future__ import annotations

import pytest

import pasta
from pasta.collect.importing import import_trace
from pasta.errors import InputError


def line(event, value, unit="", running=100.0, **more):
    fields = {**more, "counter-value": value, "unit": unit, "event": event, "event-runtime": 770_968, "pcnt-running": running}  # fmt: skip
    parts = [f'"{name}" : {text if name in ("interval", "event-runtime", "pcnt-running") else chr(34) + str(text) + chr(34)}' for name, text in fields.items()]  # fmt: skip
    return "{" + ", ".join(parts) + "}\n"


def imported(tmp_path, text):
    file = tmp_path / "stat.json"
    file.write_text(text)
    report = import_trace([file], tmp_path / "t")
    rows = pasta.open(tmp_path / "t").scan("metric").select("ts", "dur", "name", "value", "unit")
    return rows.sort("ts", "name").collect().rows(), {reason: count for _, reason, count, _ in report.losses}  # fmt: skip


def test_a_whole_run_lasts_as_long_as_it_says(tmp_path):
    text = "# started on Sun Nov 29 2026\n\n" + line("task-clock", "0.770968", "msec") + line("duration_time", "54289225.000000", "ns")  # fmt: skip
    rows, losses = imported(tmp_path, text)
    assert rows == [
        (0, 54_289_225, "duration_time", 54_289_225.0, "ns"),
        (0, 54_289_225, "task-clock", 0.770968, "msec"),
    ]
    assert losses == {}


def test_without_a_duration_the_time_is_that_on_the_cpu(tmp_path):
    rows, losses = imported(tmp_path, line("page-faults", "75.000000"))
    assert rows == [(0, 770_968, "page-faults", 75.0, "")]
    assert list(losses.values()) == [1]
    assert next(iter(losses)).startswith("counter without an interval")


def test_intervals_are_exact_and_follow_each_other(tmp_path):
    text = "".join(
        line(event, value, interval=end)
        for end, event, value in [
            ("0.103521360", "cycles", "10"),
            ("0.103521360", "instructions", "20"),
            ("0.211542574", "cycles", "<not counted>"),
            ("0.211542574", "instructions", "5"),
            ("1000000.000000001", "cycles", "1"),
            ("0.5", "cycles", "9"),
        ]
    )
    rows, losses = imported(tmp_path, text)
    assert rows == [
        (0, 103_521_360, "cycles", 10.0, ""),
        (0, 103_521_360, "instructions", 20.0, ""),
        (103_521_360, 108_021_214, "instructions", 5.0, ""),
        (211_542_574, 1_000_000_000_000_001 - 211_542_574, "cycles", 1.0, ""),
    ]
    assert losses == {
        "counter that was not counted: left out": 1,
        "interval that ends before the one before it: left out": 1,
    }


def test_what_is_scaled_or_damaged_is_counted(tmp_path):
    text = line("cycles", "10", running=49.5, interval="1") + "nonsense\n" + line("cycles", "<not supported>", interval="1")  # fmt: skip
    rows, losses = imported(tmp_path, text)
    assert len(rows) == 1
    assert losses == {
        "counter that had to share its hardware: perf scaled it up": 1,
        "line that is no counter: left out": 1,
        "counter that was not supported: left out": 1,
    }


def test_a_file_without_a_counter_is_refused(tmp_path):
    file = tmp_path / "stat.json"
    file.write_text('{"counter-value" : 5\n')
    with pytest.raises(InputError, match="no line is a counter"):
        import_trace([file], tmp_path / "t")
