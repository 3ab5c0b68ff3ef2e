"""What the sampler of Python's stacks does at addresses that are none, with a log that is full, and at threads that end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collect.native.threads_help import compiled_alone, output_of

SOURCE = Path(__file__).with_name("python_sampling.cpp")
pytestmark = pytest.mark.native


def test_what_is_not_there_is_neither_read_nor_taken_away(tmp_path):
    assert output_of(compiled_alone(tmp_path, SOURCE)).splitlines() == [
        "found 1 42, nowhere 0",
        "of a full log 31775 and 0 bytes, lost 993",
        "one ended: asked 2, deleted 0, refused 0",
        "it is another: asked 3, deleted 0, refused 0",
        "nothing new: asked 3, deleted 0, refused 0",
        "both are others: asked 5, deleted 2, refused 0",
        "deleted 4",
    ]
