"""How far another host's clock is from this one's, by messages that go there and back.

The answer's time lies between the question's and the answer's arrival, so of many rounds the shortest
says most: offset = answer - (asked + answered) / 2, which is wrong by at most half of that round
(Cristian, Probabilistic clock synchronization, 1989).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

from pasta.system.messages import Connection

ROUNDS = 100


class Reading(NamedTuple):
    """A look at another clock; all in ns.

    Attributes:
        at: when, on this host's monotonic clock.
        offset: the other monotonic clock less this one.
        error: the most by which `offset` can be wrong.
    """

    at: int
    offset: int
    error: int


class Round(NamedTuple):
    """One question: when it was asked and answered on this clock, and the other's time; in ns."""

    asked: int
    answered: int
    time: int


def read_clock(connection: Connection, rounds: int = ROUNDS) -> Reading:
    """Ask another host for its monotonic time.

    Raises:
        CollectError: it is gone.
    """
    found = []
    for _ in range(rounds):
        asked = time.monotonic_ns()
        connection.send(ask="time")
        told = int(connection.receive()["time"])
        found.append(Round(asked, time.monotonic_ns(), told))
    return best_of(found)


def best_of(rounds: Iterable[Round]) -> Reading:
    """Return what the shortest of some rounds tells."""
    asked, answered, told = min(rounds, key=lambda each: each.answered - each.asked)
    middle = (asked + answered) // 2
    return Reading(middle, told - middle, (answered - asked + 1) // 2)
