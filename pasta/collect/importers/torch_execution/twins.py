"""Which node of an execution trace is which operator of its Kineto twin.

Both list the operators of a thread in order of their begin, under the same names and autograd's
sequence numbers, but number operators and threads differently. So threads are paired by what runs
on them, and their operators by the order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

_DIFFED_MAX = 1 << 11
_THREADS_MAX = 1 << 8
_SURE = 0.9
_SAME_THREAD = 0.5
_ITSELF_TWICE = 2
TWIN_LEVELS = ("run", "step", "phase", "annotation", "operator")
"""The levels of spans that may be a node's."""


class Twins(NamedTuple):
    """The pairs found.

    Attributes:
        nodes: rows of the nodes.
        spans: rows of the spans, one for each of `nodes`.
        ambiguous: nodes of threads whose order fits in more than one way, which are left out.
        alike: nodes of threads that fit several others as well, paired in order of first begin.
    """

    nodes: NDArray[np.int64]
    spans: NDArray[np.int64]
    ambiguous: int
    alike: int


class _Thread(NamedTuple):
    """What runs on one thread, in order of begin.

    Attributes:
        rows: of the table.
        keys: what tells one operator from another, as a number.
        numbered: whether the operator has a sequence number.
    """

    rows: NDArray[np.int64]
    keys: NDArray[np.int64]
    numbered: NDArray[np.bool_]


def in_order(spans: pl.DataFrame) -> pl.DataFrame:
    """Return spans in order of begin on their thread.

    Args:
        spans: with `tid`, `ts`, `dur`, `external_id`.
    """
    keys = spans.select("tid", "ts", "external_id", "dur").with_row_index("at")
    order = ["tid", "ts", "external_id", "dur"]
    descending = [False, False, False, True]
    return spans[keys.sort(order, descending=descending, maintain_order=True)["at"]]


def pair(nodes: pl.DataFrame, spans: pl.DataFrame) -> Twins:
    """Pair nodes and spans, by sequence numbers where those agree, else by names alone.

    Args:
        nodes: `tid`, `name`, `sequence` (null: none) and `begin`, any number that grows with the
            time, in its order. A name may be any value that stands for it on both sides.
        spans: the same, as `in_order` returns them.
    """
    by_number = _pair(nodes, spans, ["name", "sequence"])
    by_name = _pair(nodes, spans, ["name"])
    return by_number if len(by_number.nodes) >= len(by_name.nodes) else by_name


def _pair(nodes: pl.DataFrame, spans: pl.DataFrame, key: list[str]) -> Twins:
    left, right = _threads(nodes, key), _threads(spans, key)
    pairs = []
    ambiguous = 0
    paired, alike = _paired_threads(left, right)
    for one, other in paired:
        found = _align(one.keys, other.keys)
        numbered = "sequence" in key and bool(one.numbered[found[:, 0]].any())
        if numbered or len(found) >= _SURE * max(len(one.rows), len(other.rows)):
            pairs.append(np.stack([one.rows[found[:, 0]], other.rows[found[:, 1]]], axis=1))
        else:
            ambiguous += len(one.rows)
    joined = np.concatenate([np.zeros((0, 2), dtype=np.int64), *pairs])
    return Twins(joined[:, 0], joined[:, 1], ambiguous, alike)


def _threads(frame: pl.DataFrame, key: list[str]) -> list[_Thread]:
    """Return the threads in order of their first begin.

    Keys are digests of 64 bits, which fit both sides without a list of all that there are.
    """
    keys = frame.select(pl.struct(key).hash()).to_series().to_numpy().view(np.int64)
    numbered = frame["sequence"].is_not_null().to_numpy()
    begins = frame["begin"].to_numpy()
    found = []
    for group in frame.select("tid").with_row_index("row").partition_by("tid", maintain_order=True):
        rows = group["row"].to_numpy().astype(np.int64)
        found.append(_Thread(rows, keys[rows], numbered[rows]))
    return sorted(found, key=lambda thread: int(begins[thread.rows[0]]))[:_THREADS_MAX]


def _paired_threads(
    left: Sequence[_Thread], right: Sequence[_Thread]
) -> tuple[list[tuple[_Thread, _Thread]], int]:
    """Pair the threads that have most operators in common.

    Returns:
        The pairs, and the operators of threads that have as many in common with another one.
    """
    counted = [np.unique(thread.keys, return_counts=True) for thread in left]
    others = [np.unique(thread.keys, return_counts=True) for thread in right]
    common = np.zeros((len(left), len(right)), dtype=np.int64)
    for at, one in enumerate(counted):
        for place, other in enumerate(others):
            common[at, place] = _in_common(*one, *other)
    told = common.copy()
    pairs = []
    alike = 0
    while common.size and common.max() > 0:
        at, place = divmod(int(common.argmax()), len(right))
        best = common[at, place]
        smaller = min(len(left[at].rows), len(right[place].rows))
        if best > _SAME_THREAD * smaller:
            rivals = (told[at] == best).sum() + (told[:, place] == best).sum()
            alike += len(left[at].rows) if rivals > _ITSELF_TWICE else 0
            pairs.append((left[at], right[place]))
            common[at], common[:, place] = 0, 0
        else:
            common[at, place] = 0
    return pairs, alike


def _in_common(
    keys: NDArray[np.int64],
    counts: NDArray[np.int64],
    other_keys: NDArray[np.int64],
    other_counts: NDArray[np.int64],
) -> int:
    """Return how many of two multisets, each of distinct keys in order, are in both."""
    place = np.minimum(np.searchsorted(other_keys, keys), len(other_keys) - 1)
    both = other_keys[place] == keys
    return int(np.minimum(counts, other_counts[place])[both].sum())


def _align(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the pairs of places that hold the same in both, in order."""
    head, tail = _common_ends(one, other)
    start, end = len(head), len(tail)
    middle = _align_middle(one[start : len(one) - end], other[start : len(other) - end])
    return np.concatenate([head, middle + start, tail])


def _common_ends(
    one: NDArray[np.int64], other: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the pairs of places at the start that hold the same, and those at the end."""
    shorter = min(len(one), len(other))
    differing = np.flatnonzero(one[:shorter] != other[:shorter])
    start = int(differing[0]) if len(differing) else shorter
    shorter -= start
    differing = np.flatnonzero(one[::-1][:shorter] != other[::-1][:shorter])
    end = int(differing[0]) if len(differing) else shorter
    head, tail = np.arange(start), np.arange(-end, 0)
    return (
        np.stack([head, head], axis=1),
        np.stack([len(one) + tail, len(other) + tail], axis=1),
    )


def _align_middle(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """Align around what stands once on either side, else by the longest common runs."""
    nothing = np.zeros((0, 2), dtype=np.int64)
    if not len(one) or not len(other):
        return nothing
    anchors = _anchors(one, other)
    if not len(anchors):
        if max(len(one), len(other)) > _DIFFED_MAX:
            return nothing
        matcher = SequenceMatcher(None, one.tolist(), other.tolist(), autojunk=False)
        blocks = matcher.get_matching_blocks()
        same = [(block.a + at, block.b + at) for block in blocks for at in range(block.size)]
        return np.array(same, dtype=np.int64).reshape(-1, 2)
    pieces = []
    before = np.array([-1, -1])
    for anchor in [*anchors, np.array([len(one), len(other)])]:
        (first, place), (last, stop) = before + 1, anchor
        ends = np.concatenate(_common_ends(one[first:last], other[place:stop]))
        pieces += [ends + before + 1, anchor[None, :]]
        before = anchor
    return np.concatenate([nothing, *pieces[:-1]])


def _anchors(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places of what stands once on either side, where the order is the same."""
    places = []
    for side in (one, other):
        keys, first, counts = np.unique(side, return_index=True, return_counts=True)
        places.append((keys[counts == 1], first[counts == 1]))
    (left, left_at), (right, right_at) = places
    _, chosen, chosen_other = np.intersect1d(left, right, return_indices=True)
    found = np.stack([left_at[chosen], right_at[chosen_other]], axis=1)
    found = found[np.argsort(found[:, 0])]
    return found[_increasing(found[:, 1])]


def _increasing(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places of a longest increasing subsequence."""
    ends: list[int] = []
    end_values: list[int] = []
    before = np.full(len(values), -1)
    for at, value in enumerate(values.tolist()):
        length = bisect_left(end_values, value)
        before[at] = ends[length - 1] if length else -1
        ends[length : length + 1] = [at]
        end_values[length : length + 1] = [value]
    found = []
    at = ends[-1] if ends else -1
    while at >= 0:
        found.append(at)
        at = int(before[at])
    return np.array(found[::-1], dtype=np.int64)
