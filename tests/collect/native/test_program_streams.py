"""The numbers of streams, and whether something still runs in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collect.native.threads_help import compiled, output_of

SOURCE = Path(__file__).with_name("program_streams.cpp")
EXPECTED = """\
1
2
3
2
4
5
idle 0 1 1, of no stream 1
asked while captured: 0, relaxed 1, as before 1
"""
pytestmark = pytest.mark.native


def test_a_stream_that_gets_the_handle_of_another_is_another(tmp_path):
    assert output_of(compiled(tmp_path, SOURCE, ())) == EXPECTED
