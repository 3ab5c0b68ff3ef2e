"""Modules bear patches while launches are watched, also where other threads load modules meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collect.native.threads_help import THREAD_SANITIZER, compiled, output_of

SOURCE = Path(__file__).with_name("patched_modules.cpp")
EXPECTED = """\
not watched: 0
watched: all 1
one more: all 2
no longer: none 0
of a new context: 1
one gone: all 2
at once: all 63
come and gone: 0
busy: asked 400 times, then 1, 0
idle at last: all 1
a graph while busy: some 0
without switching: 1
a graph when idle: all 1
a graph: all 1
and more: all 2
at work: 0
held up: 1
made meanwhile: some 1
without switching: 1
wrong: 0
"""
pytestmark = pytest.mark.native


@pytest.mark.parametrize("watched_by", [(), THREAD_SANITIZER], ids=["plain", "thread_sanitizer"])
def test_patches_are_set_and_removed_in_turn(tmp_path, watched_by):
    assert output_of(compiled(tmp_path, SOURCE, watched_by)) == EXPECTED
