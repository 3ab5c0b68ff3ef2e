"""How far another clock is off, by messages with delays that are known."""

from __future__ import annotations

import random

from pasta.system.clocks import Round, best_of


def rounds(offset: int, seed: int, count: int = 50) -> list[Round]:
    """Return rounds of which each way takes its own random time."""
    chance = random.Random(seed)
    made = []
    for start in range(0, count * 10**6, 10**6):
        there, back = (chance.randint(5_000, 500_000) for _ in range(2))
        made.append(Round(start, start + there + back, start + there + offset))
    return made


def test_the_offset_is_within_its_error_whatever_the_delays():
    for seed in range(200):
        offset = random.Random(seed).randint(-(10**15), 10**15)
        given = rounds(offset, seed)
        found = best_of(given)
        assert abs(found.offset - offset) <= found.error
        assert found.error == min((each.answered - each.asked + 1) // 2 for each in given)


def test_equal_delays_leave_no_error():
    assert best_of([Round(100, 300, 200 + 77)]).offset == 77
