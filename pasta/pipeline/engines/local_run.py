"""Shards run in this process, a few at a time: memory is that of a few shards and of what they leave."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import polars as pl

from pasta.pipeline.engines.shard_tasks import Frames, ShardWork
from pasta.pipeline.engines.state_tree import StateTree
from pasta.pipeline.shards import Shard

_LEAST_AT_ONCE, _MOST_AT_ONCE = 2, 8
"""Shards in flight: while array code works on one, which takes one core, another is read."""

_CORES_OF_A_SHARD = 2
"""That a shard keeps busy, about; docs/performance.md has what more in flight take and save."""


def shards_at_once() -> int:
    """Return how many shards this machine's cores work on beside each other."""
    wanted = pl.thread_pool_size() // _CORES_OF_A_SHARD
    return min(max(wanted, _LEAST_AT_ONCE), _MOST_AT_ONCE)


def run_in_turn(
    work: ShardWork, shards: Sequence[Shard], *, at_once: int | None = None
) -> tuple[dict[str, list[pl.DataFrame]], Frames]:
    """Run all shards, `at_once` of them beside each other, or as many as the machine has cores for.

    Returns:
        For each node that leaves rows its rows on each shard, in their order; for each combined node one
        state. Nodes that no shard reaches are absent.
    """
    rows: dict[str, list[pl.DataFrame]] = {}
    states = StateTree(work.combine)
    for left, state in _left_by(work, shards, at_once or shards_at_once()):
        for name, found in left.items():
            rows.setdefault(name, []).append(found)
        states.add(state)
    return rows, states.root() or {}


def _left_by(
    work: ShardWork, shards: Sequence[Shard], at_once: int
) -> Iterator[tuple[Frames, Frames]]:
    """Yield what each shard leaves, in their order."""
    running: deque[Future[tuple[Frames, Frames]]] = deque()
    with ThreadPoolExecutor(at_once) as pool:
        for place, shard in enumerate(shards):
            if len(running) == at_once:
                yield running.popleft().result()
            running.append(pool.submit(work.run, shard, place, None))
        while running:
            yield running.popleft().result()
