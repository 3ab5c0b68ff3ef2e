"""Which process or stream of one run is which of another: pairs that keep their order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def pair_in_order(common: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return pairs (row, column), both ascending, that together have most in common.

    Where both sides have the same members that is the first with the first, the second with the
    second and so on; a member that one side lacks does not shift the ones after it.

    Args:
        common: how much each member of one side (row) has in common with each of the other
            (column); those with nothing in common are not paired.
    """
    rows, columns = common.shape
    best = np.zeros((rows + 1, columns + 1), dtype=np.int64)
    for row in range(rows):
        paired = best[row, :-1] + common[row]
        best[row + 1, 1:] = np.maximum.accumulate(np.maximum(paired, best[row, 1:]))
    pairs = []
    row, column = rows, columns
    while row and column:
        most = best[row, column]
        if (
            common[row - 1, column - 1]
            and most == best[row - 1, column - 1] + common[row - 1, column - 1]
        ):
            row, column = row - 1, column - 1
            pairs.append((row, column))
        elif most == best[row - 1, column]:
            row -= 1
        else:
            column -= 1
    return pairs[::-1]
