"""Every kernel gives on cupy arrays what it gives on numpy arrays."""

from __future__ import annotations

import numpy as np
import pytest

from pasta.nesting import parents
from pasta.pipeline.kernels.enclosure import innermost, self_times
from pasta.pipeline.kernels.intervals import Intervals, complement, coverage, union
from pasta.pipeline.kernels.lifetimes import live_amounts, match, unused_ids
from pasta.pipeline.kernels.location import Objects, locate
from pasta.pipeline.kernels.ordering import (
    changes,
    highest_in_runs,
    order_by,
    rows_with,
    run_sums,
    sorted_with,
)
from pasta.pipeline.kernels.ranges import cut_at, cut_evenly
from pasta.pipeline.kernels.reuse import hits_below, last_before, previous_uses, reuse_distances
from pasta.pipeline.kernels.trees import paths, subtree_sums, sums_at, tree

pytestmark = pytest.mark.gpu

ROWS = 3000


def results(xp):
    """What each kernel answers on the same numbers, computed with `xp`."""
    random = np.random.default_rng(7)

    def draw(low, high, kind=np.int64):
        return xp.asarray(random.integers(low, high, ROWS).astype(kind))

    groups, starts, far = draw(0, 5), draw(0, 10**6), draw(-(2**62), 2**62)
    spans = Intervals(groups, starts, starts + draw(0, 500))
    merged = union(spans)
    yield from (order_by(groups, far), *merged, *complement(merged))
    pieces, covered = coverage([merged, union(Intervals(groups, draw(0, 10**6), starts))])
    yield from (*pieces, covered)
    times = draw(0, 10**6)
    yield from match(draw(0, 50), starts, draw(0, 2) == 1)
    yield unused_ids(draw(0, 4000, np.uint64), 2000)
    yield live_amounts(spans, far, groups, times)
    addresses, births = draw(0, 10**5, np.uint64), draw(0, 1000)
    ends, deaths = addresses + draw(0, 999, np.uint64), births + draw(0, 500)
    held = Objects(groups, addresses, ends, births, deaths)
    yield locate(held, groups, draw(0, 10**5, np.uint64), times % 1500)
    yield locate(held, groups, draw(0, 10**5, np.uint64), None)
    yield innermost(spans, groups, times)
    yield from (*cut_evenly(addresses, ends, 512), *cut_at(addresses, ends, xp.unique(ends)))
    runs = xp.sort(groups)
    yield highest_in_runs(far, xp.flatnonzero(changes(runs)))
    yield run_sums(far, xp.flatnonzero(changes(runs)))
    yield from sorted_with(groups * ROWS + xp.arange(ROWS), times)
    yield rows_with(groups, draw(0, 900), groups, draw(0, 900))
    yield rows_with(groups, far, groups, xp.roll(far, 5))
    distances = reuse_distances(previous_uses(groups * 1000 + times % 90))
    yield from (distances, hits_below(distances, groups, xp.asarray([1, 9, 50]), 5))
    yield last_before(runs, [times // 9], far > 0)
    above = parents(*spans)
    nested = tree(above)
    yield from (self_times(above, spans.starts, spans.ends), *nested[:2])
    yield from tree(draw(-1, ROWS))[:2]
    yield from (subtree_sums(nested, far), *paths(nested, draw(0, 3)), sums_at(groups, far, 5))


def test_cupy_agrees_with_numpy():
    cupy = pytest.importorskip("cupy")
    pairs = zip(results(cupy), results(np), strict=True)
    for number, (found, expected) in enumerate(pairs):
        assert found.dtype == expected.dtype, number
        assert found.tolist() == expected.tolist(), number
