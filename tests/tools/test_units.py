"""Numbers for people."""

from __future__ import annotations

import pytest

from pasta.errors import ConfigError
from pasta.tools.units import fill_template, heading, human, shorten


@pytest.mark.parametrize(
    ("value", "column", "expected"),
    [
        (999, "dur", "999 ns"),
        (1_500, "busy_ns", "1.50 us"),
        (3_600_000_000_000, "span_ns", "1.00 h"),
        (1_536, "bytes", "1.50 KiB"),
        (5 * 2**30, "live_bytes", "5.00 GiB"),
        (0.1234, "busy_share", "12.3 %"),
        (0.0, "busy_share", "0.0 %"),
        (0.0004, "busy_share", "0.04 %"),
        (0.00024571, "busy_share", "0.025 %"),
        (3e-9, "busy_share", "3e-07 %"),
        (1_234_567, "calls", "1,234,567"),
        (1_234_567, "span_id", "1234567"),
        (1_900_000_000_000_000_000, "start_ts", "1900000000000000000"),
        (None, "dur", "-"),
        (0x7F00_0000_0200, "address", "0x7f0000000200"),
        (0x80, "pc", "0x80"),
        (0x80, "writer_pc", "0x80"),
        ([1, 2], "members", "1, 2"),
        (2.5, "ratio", "2.5"),
        (1.234e14, "flops_per_second", "123.40 Tflop/s"),
        (2_500_000_000, "bytes_per_second", "2.50 GB/s"),
        (12.5, "gigabytes_per_second", "12.5"),
        (999, "flops_per_second", "999 flop/s"),
        (4e13, "roof", "40.00 Tflop/s"),
    ],
)
def test_human(value, column, expected):
    assert human(value, column) == expected


def test_templates_take_columns_parameters_and_kinds():
    row = {"share": 0.25, "n": 5, "name": "k"}
    text = "{name} {share} {n:bytes} {top}"
    assert fill_template(text, row, "p", {"top": 3}) == "k 25.0 % 5 B 3"
    with pytest.raises(ConfigError, match="names 'nmae'; there are: share, n, name, top"):
        fill_template("{nmae}", row, "p", {"top": 3})


def test_templates_say_of_one_what_they_say_of_others_in_the_plural():
    text = "{n:launch takes|launches take} {least:time|times} as long"
    assert fill_template(text, {"n": 1}, "p", {"least": 2}) == "1 launch takes 2 times as long"
    assert fill_template(text, {"n": 1234}, "p", {"least": 1}) == (
        "1,234 launches take 1 time as long"
    )
    assert fill_template("{n:launch|launches}", {"n": None}, "p", {}) == "- launches"
    for number in (1.0, 0.99999, 1.00001):
        assert fill_template("{n:launch|launches}", {"n": number}, "p", {}) == "1 launch"
    for number, shown in ((0, "0"), (-1, "-1"), (1.01, "1.01"), (True, "True")):
        assert fill_template("{n:launch|launches}", {"n": number}, "p", {}) == f"{shown} launches"
    with pytest.raises(ConfigError, match="names 'm'; there are: n"):
        fill_template("{m:launch|launches}", {"n": 1}, "p", {})


def test_templates_evaluate_nothing():
    assert fill_template("{name.__class__} {0}", {"name": "k"}, "p", {}) == "{name.__class__} {0}"


def test_long_names_keep_both_ends():
    text = shorten("void " + "x" * 500 + "<end>", 30)
    assert len(text) == 30
    assert text.startswith("void ")
    assert text.endswith("<end>")


def test_headings_drop_units():
    assert heading("device_idle_ns") == "device idle"


def test_headings_of_a_table_differ():
    columns = ["cause", "cause_ns", "moved_ns", "moved_bytes", "dur"]
    found = [heading(column, columns) for column in columns]
    assert found == ["cause", "cause time", "moved time", "moved bytes", "dur"]
