"""Tensor maps among the arguments of a launch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collect.native.threads_help import compiled, output_of

SOURCE = Path(__file__).with_name("launch_arguments.cpp")
FOUND = """\
no call:
another thread:
cuLaunchKernel: 0 4096 8192
asked again:
cuLaunchCooperativeKernel: 0 4096 8192
cuLaunchKernelEx, packed: 0 4096 8192
cuLaunchKernelEx: 0 4096 8192
at an odd address: 4096 8192
interleaved: 0 4096 8192
of no type: 4096 8192
of more than there is: 4096 8192
sized beyond its rank: 4096 8192
a box of no whole 16 bytes: 4096 8192
followed by something: 4096 8192
"""
pytestmark = pytest.mark.native


def test_maps_are_found_in_every_way_to_launch_and_nothing_else_is_taken_for_one(tmp_path):
    assert output_of(compiled(tmp_path, SOURCE, ())) == FOUND
