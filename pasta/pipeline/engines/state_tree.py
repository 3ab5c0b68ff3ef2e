"""States of shards combined in a tree whose shape depends on the order of the shards alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

FAN_IN = 8
"""States that are combined at once."""

State = TypeVar("State")


class StateTree(Generic[State]):
    """States, combined as they come.

    For given shards neither who runs them nor how many at a time matters. Fewer than `FAN_IN` states
    wait on each level of the tree.

    Args:
        combine: several states -> one.
    """

    def __init__(self, combine: Callable[[Sequence[State]], State]) -> None:
        self._combine = combine
        self._levels: list[list[State]] = [[]]

    def add(self, state: State, level: int = 0) -> None:
        """Hold the state of the next shard, and have a full block of states combined."""
        if level == len(self._levels):
            self._levels.append([])
        self._levels[level].append(state)
        if len(self._levels[level]) == FAN_IN:
            block, self._levels[level] = self._levels[level], []
            self.add(self._combine(block), level + 1)

    def held(self) -> list[State]:
        """Return all that is held, in the order of the shards."""
        return [state for level in reversed(self._levels) for state in level]

    def root(self) -> State | None:
        """Combine all that is held; `None` where there is nothing."""
        held = self.held()
        return self._combine(held) if held else None
