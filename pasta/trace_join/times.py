"""From one run's clock to another's, through the launches that both have."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

_EXACT_BITS = 62


class TimeMap:
    """Times of one run as times of another.

    Between two launches that both runs have it is linear and rounded up, so that what happened
    after one launch and up to the next does so in the other run as well; before the first and
    after the last it is shifted as these are. It never decreases. Of launches that stand in
    different order in the two runs, the longest sequence in one order counts.

    Args:
        theirs: times of launches in the run to translate from, ns.
        ours: times of the same launches in the run to translate to, ns.
        shift: ns to add where there is no launch.

    Attributes:
        out_of_order: launches that do not count.
    """

    def __init__(self, theirs: Integers, ours: Integers, shift: int) -> None:
        order = np.lexsort((-ours, theirs))
        kept = order[_longest_increasing(ours[order])]
        self.out_of_order = len(order) - len(kept)
        self._from, self._to = theirs[kept], ours[kept]
        self._shift = shift

    def __call__(self, times: Integers) -> Integers:
        """Return `times` of the one run, ns, as times of the other."""
        if not len(self._from):
            return times + self._shift
        last = len(self._from) - 1
        segment = np.searchsorted(self._from, times, side="right") - 1
        anchor = np.maximum(segment, 0)
        result = times - self._from[anchor] + self._to[anchor]
        between = np.flatnonzero((segment >= 0) & (segment < last))
        segment = segment[between]
        begin = self._from[segment]
        result[between] = self._to[segment] + _scaled_up(
            times[between] - begin,
            self._to[segment + 1] - self._to[segment],
            self._from[segment + 1] - begin,
        )
        return result


def _scaled_up(value: Integers, numerator: Integers, denominator: Integers) -> Integers:
    """Return value * numerator / denominator, rounded up; exact however large the product is."""
    result = -(-value * numerator // denominator)
    large = np.log2(numerator) + np.log2(denominator) > _EXACT_BITS
    if large.any():
        v, n, d = (part[large].astype(object) for part in (value, numerator, denominator))
        result[large] = -(-v * n // d)
    return result


def _longest_increasing(values: Integers) -> Integers:
    """Return the places of a longest strictly increasing subsequence."""
    if (np.diff(values) > 0).all():
        return np.arange(len(values))
    ends: list[int] = []  # of subsequences of each length, the least last value
    places: list[int] = []
    before = np.full(len(values), -1, dtype=np.int64)
    for place, value in enumerate(values.tolist()):
        length = len(ends) if not ends or value > ends[-1] else bisect_left(ends, value)
        if length == len(ends):
            ends.append(value)
            places.append(place)
        else:
            ends[length], places[length] = value, place
        before[place] = places[length - 1] if length else -1
    chain = []
    place = places[-1] if places else -1
    while place >= 0:
        chain.append(place)
        place = int(before[place])
    return np.array(chain[::-1], dtype=np.int64)
