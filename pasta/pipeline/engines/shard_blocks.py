"""Which worker runs which shard, so that states that are combined together are where they were made."""

from __future__ import annotations

from collections import deque

from pasta.pipeline.engines.state_tree import FAN_IN


class ShardBlocks:
    """Shards that have not been given to a worker yet, in blocks whose states are combined first.

    A worker runs block after block. When none is left that has not begun, it helps with the one of which
    most is left.

    Args:
        shards: how many there are.
    """

    def __init__(self, shards: int) -> None:
        places = range(shards)
        self._waiting = deque(deque(places[n : n + FAN_IN]) for n in range(0, shards, FAN_IN))
        self._begun: dict[str | None, deque[int]] = {}

    def __bool__(self) -> bool:
        """Whether any shard is left."""
        return bool(self._waiting) or any(self._begun.values())

    def take(self, worker: str | None) -> int:
        """Return the place of the shard that a worker, or any worker, runs next."""
        if not self._begun.get(worker):
            left = max(self._begun.values(), key=len, default=deque[int]())
            self._begun[worker] = self._waiting.popleft() if self._waiting else left
        return self._begun[worker].popleft()
