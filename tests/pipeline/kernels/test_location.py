"""The location kernel against looking at every object."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pasta.pipeline.kernels.location import Objects, locate

NEVER = 2**63 - 1
OBJECTS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.integers(0, 20),
        st.integers(0, 12),
        st.integers(-1, 15),
        st.integers(0, 12) | st.just(NEVER),
    ),
    max_size=20,
)
QUESTIONS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 34), st.integers(-2, 30)), max_size=30
)


def arrays(rows, width):
    table = np.array(rows, dtype=np.int64).reshape(-1, width)
    return [table[:, column] for column in range(width)]


def objects(rows):
    groups, addresses, sizes, births, lives = arrays(rows, 5)
    deaths = np.where(lives == NEVER, NEVER, births + np.minimum(lives, 100))
    return Objects(
        groups, addresses.astype(np.uint64), (addresses + sizes).astype(np.uint64), births, deaths
    )


def walk(held, group, address, time):
    """The answer by going through the objects in order of birth; `time` None: whenever."""
    rows = [tuple(int(values[i]) for values in held) for i in range(len(held.births))]
    order = sorted(range(len(rows)), key=lambda i: (rows[i][3], -rows[i][4], i))
    last = -1
    for i in order:
        of, low, high, birth, death = rows[i]
        if (
            of == group
            and low <= address < high
            and birth < death
            and (time is None or birth <= time)
        ):
            last = i
    return last if last >= 0 and (time is None or time < rows[last][4]) else -1


@given(OBJECTS, QUESTIONS)
def test_equals_looking_at_every_object(rows, questions):
    held = objects(rows)
    groups, addresses, times = arrays(questions, 3)
    found = locate(held, groups, addresses.astype(np.uint64), times)
    assert found.tolist() == [walk(held, *question) for question in questions]
    found = locate(held, groups, addresses.astype(np.uint64), None)
    assert found.tolist() == [walk(held, group, at, None) for group, at, _ in questions]


def test_addresses_use_all_64_bits():
    top = np.array([2**64 - 256, 2**63], dtype=np.uint64)
    held = Objects(
        np.zeros(2, dtype=np.int64),
        top,
        top + np.array([255, 1024], dtype=np.uint64),
        np.array([5, 5]),
        np.array([NEVER, NEVER]),
    )
    asked = np.array([2**64 - 2, 2**64 - 1, 2**63 + 1023, 2**63 - 1], dtype=np.uint64)
    found = locate(held, np.zeros(4, dtype=np.int64), asked, np.full(4, 6))
    assert found.tolist() == [0, -1, 1, -1]
