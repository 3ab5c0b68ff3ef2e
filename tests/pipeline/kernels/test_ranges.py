"""Ranges cut into pieces, against loops."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pasta.pipeline.kernels.ranges import cut_at, cut_evenly

RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 25)), max_size=8)


def arrays(ranges):
    starts = np.array([start for start, _ in ranges], dtype=np.uint64)
    return starts, starts + np.array([length for _, length in ranges], dtype=np.uint64)


def pieces_by_loop(ranges, is_edge):
    found = []
    for row, (start, length) in enumerate(ranges):
        for address in range(start, start + length):
            if address == start or is_edge(address):
                found.append([row, address, address])
            found[-1][2] = address + 1
    return found


@given(RANGES, st.sampled_from([1, 4, 7]))
def test_cut_evenly(ranges, size):
    pieces = cut_evenly(*arrays(ranges), size)
    assert np.stack(pieces, axis=1).astype(int).tolist() == pieces_by_loop(
        ranges, lambda address: address % size == 0
    )


@given(RANGES, st.sets(st.integers(0, 90), max_size=6))
def test_cut_at_edges(ranges, edges):
    pieces = cut_at(*arrays(ranges), np.array(sorted(edges), dtype=np.uint64))
    assert np.stack(pieces, axis=1).astype(int).tolist() == pieces_by_loop(
        ranges, lambda address: address in edges
    )


def test_high_addresses_stay_exact():
    start = np.array([2**63 + 100], dtype=np.uint64)
    pieces = cut_evenly(start, start + np.uint64(600), 512)
    assert [int(value) for value in pieces.ends] == [2**63 + 512, 2**63 + 700]
