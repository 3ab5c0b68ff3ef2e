"""Sorting, searching and summing by group."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pasta.pipeline.kernels.ordering import (
    changes,
    distinct,
    group_sums,
    last_at_or_before,
    numbered,
    order_by,
    rows_with,
    run_sums,
    sorted_with,
)

SMALL = st.integers(-3, 3)
LARGE = st.integers(-(2**63), 2**63 - 1)
PAIRS = st.lists(st.tuples(st.integers(0, 3), SMALL | LARGE), max_size=30)


def columns(pairs):
    return (np.array([pair[i] for pair in pairs], dtype=np.int64) for i in (0, 1))


@given(PAIRS)
def test_order_is_by_the_first_key_then_the_next_then_the_row(pairs):
    found = order_by(*columns(pairs)).tolist()
    assert found == sorted(range(len(pairs)), key=lambda row: (*pairs[row], row))


@given(
    st.lists(
        st.tuples(SMALL, SMALL | LARGE, st.integers(0, 2**40), st.integers(0, 2**64 - 1), SMALL)
    )
)
def test_keys_are_packed_where_they_fit_and_left_where_not(rows):
    kinds = [np.int64, np.int64, np.int64, np.uint64, np.int64]
    keys = [np.array([row[i] for row in rows], dtype=kind) for i, kind in enumerate(kinds)]
    expected = sorted(range(len(rows)), key=lambda row: (*rows[row], row))
    assert order_by(*keys).tolist() == expected


@given(PAIRS)
def test_changes_are_where_any_key_differs(pairs):
    expected = [i == 0 or pairs[i] != pairs[i - 1] for i in range(len(pairs))]
    assert changes(*columns(pairs)).tolist() == expected


WIDE = st.sampled_from([0, 5, 2**50, 2**60, 2**61, 2**62]) | SMALL
IN_GROUPS = st.lists(st.tuples(st.integers(0, 9), WIDE), max_size=30)


@given(PAIRS | IN_GROUPS, PAIRS | IN_GROUPS)
def test_last_at_or_before_stays_in_its_group(pairs, questions):
    pairs.sort()
    found = last_at_or_before(*columns(pairs), *columns(questions))
    for (group, value), position in zip(questions, found.tolist(), strict=True):
        fitting = [i for i, (g, v) in enumerate(pairs) if g == group and v <= value]
        assert position == (fitting[-1] if fitting else -1)


IDS = st.integers(0, 5) | st.integers(2**61, 2**61 + 5) | st.integers(2**63 - 5, 2**63 - 1)


@given(st.lists(st.tuples(st.integers(0, 3), IDS), max_size=30), st.lists(st.tuples(st.integers(0, 4), IDS), max_size=30))  # fmt: skip
def test_rows_of_ids_that_lie_far_apart_and_close_together(known, wanted):
    groups, asking = (np.array([g for g, _ in of], dtype=np.int64) for of in (known, wanted))
    ids, asked = (np.array([i for _, i in of], dtype=np.int64) for of in (known, wanted))
    expected = [known.index(pair) if pair in known else -1 for pair in wanted]
    assert rows_with(groups, ids, asking, asked).tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-(2**50), 2**50)), max_size=30))
def test_group_sums(pairs):
    pairs.sort()
    found = group_sums(*columns(pairs), 4)
    assert found.tolist() == [sum(v for g, v in pairs if g == group) for group in range(4)]


@given(st.lists(st.lists(st.integers(-(2**50), 2**50), min_size=1), max_size=5))
def test_run_sums(runs):
    first = np.cumsum([0, *(len(run) for run in runs)])[:-1]
    values = np.array([value for run in runs for value in run], dtype=np.int64)
    assert run_sums(values, first).tolist() == [sum(run) for run in runs]


@given(st.lists(st.tuples(st.integers(0, 3) | st.integers(0, 2**63 - 1), SMALL | st.integers(0, 2**40)), max_size=30))  # fmt: skip
def test_amounts_go_with_their_keys(pairs):
    keys, amounts = sorted_with(*columns(pairs))
    assert keys.tolist() == sorted(key for key, _ in pairs)
    assert sorted(zip(keys.tolist(), amounts.tolist(), strict=True)) == sorted(pairs)


@given(st.lists(st.integers(-5, 5) | LARGE, max_size=20))
def test_distinct_and_numbered(values):
    array = np.array(values, dtype=np.int64)
    assert distinct(array).tolist() == sorted(set(values))
    found, places = numbered(array)
    assert found.tolist() == sorted(set(values))
    assert found[places].tolist() == values


@given(PAIRS, PAIRS)
def test_rows_with_an_id_in_a_group(pairs, wanted):
    found = rows_with(*columns(pairs), *columns(wanted)).tolist()
    assert found == [pairs.index(pair) if pair in pairs else -1 for pair in wanted]
