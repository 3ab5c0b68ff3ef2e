"""What tensor maps span of memory, and what is left beside it."""

from __future__ import annotations

from pathlib import Path

from tests.collect.native.threads_help import compiled_alone, output_of

SOURCE = Path(__file__).with_name("tensor_spans.cpp")


def test_spans_are_every_granule_of_every_element_and_count_once(tmp_path):
    told = output_of(compiled_alone(tmp_path, SOURCE))
    assert told == "maps 600, ranges 300, of many rows 1, beyond all addresses 0\n"
