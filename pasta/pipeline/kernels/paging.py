"""Pages of managed memory under an LRU device memory: which uses find them, and what moves.

A block is what is evicted, a page of it what is moved in; the pages of a block that a use covers are
the bits of a mask, u64. LRU keeps what was used last, so that a use finds its block if fewer distinct
others were used since its last use than the memory holds (Mattson et al. 1970). No page is followed
through time: distances tell the misses, and the k-th eviction is at the k-th miss after the memory
was full, of the k-th block in order of last uses among those that are evicted at all.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pasta.pipeline.kernels.namespace import array_namespace
from pasta.pipeline.kernels.ordering import changes, numbered, order_by
from pasta.pipeline.kernels.reuse import previous_uses, reuse_distances


class Uses(NamedTuple):
    """Uses of blocks, in order of groups and of time.

    Attributes:
        groups: the memory that each use is of, from 0 on.
        blocks: number of the block.
        pages: mask of the pages that are used, u64.
        prefetches: whether the pages are moved in before they are needed.
        held: whether the pages held data on the host before their first use.
    """

    groups: Any
    blocks: Any
    pages: Any
    prefetches: Any
    held: Any


class Moves(NamedTuple):
    """What each use causes, in pages; evictions, and what they cause, count at the miss behind them.

    Attributes:
        absent: pages used that were not in the memory.
        moved: those of them that come from the host; the others are used for the first time.
        first: pages used for the first time: those absent were the memory unlimited.
        first_moved: those of them that come from the host.
        evictions: blocks evicted.
        out: pages that are moved out.
        wasted: those of them that were prefetched and not used before they went.
    """

    absent: Any
    moved: Any
    first: Any
    first_moved: Any
    evictions: Any
    out: Any
    wasted: Any


def move(uses: Uses, capacities: Any) -> Moves:
    """Follow uses through memories of `capacities` blocks, one for each group, at least 1."""
    xp = array_namespace(uses.pages)
    things = _things(uses.groups, uses.blocks)
    distances = reuse_distances(previous_uses(things))
    misses = (distances < 0) | (distances >= capacities[uses.groups])
    order = order_by(things)
    of_thing = changes(things[order])
    stays = misses[order]
    pages, prefetches = uses.pages[order], uses.prefetches[order]
    present = or_in_runs(pages, stays)
    new = pages & ~_before(present, stays)
    first = pages & ~_before(or_in_runs(pages, of_thing), of_thing)
    from_host = xp.where(uses.held[order], pages, pages & ~first)
    nothing = xp.zeros_like(pages)
    fetched = or_in_runs(xp.where(prefetches, new, nothing), stays)
    used = or_in_runs(xp.where(prefetches, nothing, pages), stays)
    last = _last_of_runs(stays)
    ended = order[last]
    pages_out, pages_wasted = set_bits(present)[last], set_bits(fetched & ~used)[last]
    evicted, at = _evictions(uses.groups, misses, ended, capacities)
    counts = [xp.zeros(len(pages), dtype=xp.int64) for _ in range(3)]
    for count, amount in zip(
        counts, (xp.ones_like(at), pages_out[evicted], pages_wasted[evicted]), strict=True
    ):
        count[at] = amount
    caused = [new, new & from_host, first, first & from_host]
    placed = [xp.zeros(len(pages), dtype=xp.int64) for _ in caused]
    for amount, masks in zip(placed, caused, strict=True):
        amount[order] = set_bits(masks)
    return Moves(*placed, *counts)


def _things(groups: Any, blocks: Any) -> Any:
    """Number the blocks of all groups."""
    known, places = numbered(blocks)
    return numbered(groups * len(known) + places)[1]


def _evictions(groups: Any, misses: Any, ended: Any, capacities: Any) -> tuple[Any, Any]:
    """Return which stays are evicted, and the uses whose misses evict them.

    A stay begins at a miss, so that a group has as many stays as misses; its last ones, in order of
    their last uses, remain. Of the others the k-th goes at the miss k places after the memory was
    full.
    """
    xp = array_namespace(groups)
    missed = xp.flatnonzero(misses)
    stays = order_by(ended)
    of_miss = groups[missed]
    begins = changes(of_miss)
    start = xp.flatnonzero(begins)[xp.cumsum(begins) - 1] if len(missed) else missed
    place = xp.arange(len(missed)) - start
    evicting = place >= capacities[of_miss]
    at = xp.flatnonzero(evicting)
    return stays[at - capacities[of_miss[at]]], missed[at]


def or_in_runs(masks: Any, first: Any) -> Any:
    """Return each mask joined with those before it in its run; `first` marks where runs begin.

    In each pass a mask takes in twice as many others: as many passes as the logarithm of the
    longest run.
    """
    xp = array_namespace(masks)
    if not len(masks):
        return masks
    rows = xp.arange(len(masks))
    place = rows - xp.flatnonzero(first)[xp.cumsum(first) - 1]
    reach, longest = 1, int(place.max())
    while reach <= longest:
        joined = masks.copy()
        joined[reach:] |= xp.where(place[reach:] >= reach, masks[:-reach], xp.zeros_like(masks[:1]))
        masks, reach = joined, 2 * reach
    return masks


def _before(joined: Any, first: Any) -> Any:
    """Return of masks joined in runs what was joined before each."""
    xp = array_namespace(joined)
    before = xp.zeros_like(joined)
    before[1:] = joined[:-1]
    return xp.where(first, xp.zeros_like(joined), before)


def _last_of_runs(first: Any) -> Any:
    xp = array_namespace(first)
    return xp.flatnonzero(xp.append(first[1:], xp.ones(min(len(first), 1), dtype=bool)))


def set_bits(masks: Any) -> Any:
    """Return the number of bits that are set in each mask, u64, as int64."""
    xp = array_namespace(masks)
    if hasattr(xp, "bitwise_count"):  # numpy has it from version 2 on
        return xp.bitwise_count(masks).astype(xp.int64)
    pairs, fours, eights = (
        xp.uint64(pattern)
        for pattern in (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F)
    )
    one, two, four = xp.uint64(1), xp.uint64(2), xp.uint64(4)
    counts = masks - (masks >> one & pairs)
    counts = (counts & fours) + (counts >> two & fours)
    counts = counts + (counts >> four) & eights
    for shift in (8, 16, 32):
        counts = counts + (counts >> xp.uint64(shift))
    return (counts & xp.uint64(0x7F)).astype(xp.int64)
