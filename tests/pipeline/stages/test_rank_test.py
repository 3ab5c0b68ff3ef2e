"""Stage `rank_test` against counting every way in which values can fall into two samples."""

from __future__ import annotations

from itertools import combinations, product
from math import comb

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.errors import ConfigError
from pasta.pipeline.kernels.rank_sums import MOST_PAIRS, likelihood
from pasta.pipeline.stages.rank_test import rank_test

VALUES = st.lists(st.integers(-3, 3), min_size=1, max_size=4)


def tables(groups, first, second):
    """Rows of values of each group, and members of samples; zeros are left out."""
    rows = [
        {"item": item, "after": after, "ns": value}
        for item, samples in groups.items()
        for after, values in zip((False, True), samples, strict=True)
        for value in values
        if value
    ]
    members = [{"after": False}] * first + [{"after": True}] * second
    schema = {"item": pl.String, "after": pl.Boolean, "ns": pl.Int64}
    return pl.DataFrame(rows, schema), pl.DataFrame(members, {"after": pl.Boolean})


def run(groups, first, second):
    values, members = tables(groups, first, second)
    return rank_test(values, members, by=["item"], value="ns", second="after")


def counted(first, second):
    """The p-value by counting orders; equal values stand as speaks least for a difference."""
    size, pairs = len(first), len(first) * len(second)
    above = sum(y > x for x, y in product(first, second))
    below = sum(y < x for x, y in product(first, second))
    fewest = pairs - max(above, below)
    places = range(size + len(second))
    found = [
        sum(y < x for x in chosen for y in places if y not in chosen)
        for chosen in combinations(places, size)
    ]
    return min(1.0, 2 * sum(number <= fewest for number in found) / len(found))


@given(VALUES, VALUES)
def test_equals_counting(first, second):
    if not any(first) and not any(second):
        return
    [p] = run({"a": (first, second)}, len(first), len(second))["p"]
    assert p == pytest.approx(
        counted(first, second) if 2 * fewest(first, second) < len(first) * len(second) else 1.0
    )


def fewest(first, second):
    above = sum(y > x for x, y in product(first, second))
    below = sum(y < x for x, y in product(first, second))
    return len(first) * len(second) - max(above, below)


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(1, 9), min_size=3, max_size=3),
            st.lists(st.integers(1, 9), min_size=4, max_size=4),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_groups_are_apart_and_holm_is_by_hand(groups):
    named = {chr(97 + n): samples for n, samples in enumerate(groups)}
    found = run(named, 3, 4)
    alone = [run({name: samples}, 3, 4)["p"].item() for name, samples in named.items()]
    assert found["p"].to_list() == alone
    highest, wanted = 0.0, {}
    for place, (p, name) in enumerate(sorted(zip(alone, named, strict=True))):
        highest = max(highest, min(1.0, p * (len(alone) - place)))
        wanted[name] = highest
    assert dict(found.select("item", "p_adjusted").rows()) == pytest.approx(wanted)
    assert found["p_least"].to_list() == [
        pytest.approx(min(1.0, 2 / comb(7, 3) * len(alone)))
    ] * len(alone)


def test_what_is_absent_counts_as_nothing():
    """Of 4 and 4 steps the group is in the last 4 only: 2 of 70 orders are so clear."""
    [row] = run({"a": ([], [5, 6, 7, 8])}, 4, 4).to_dicts()
    assert row["p"] == 2 / 70
    assert row["larger"] == 16


def test_larger_tells_in_which_direction_most_pairs_differ():
    """Pairs (1, 2), (1, 1), (5, 2), (5, 1): one larger, one equal, two smaller."""
    assert run({"a": ([1, 5], [2, 1])}, 2, 2)["larger"].to_list() == [-1]


def test_an_empty_sample_and_no_values_claim_nothing():
    assert run({"a": ([1, 2, 3], [])}, 3, 0)["p"].to_list() == [1.0]
    assert run({}, 3, 3).columns == [
        "item",
        "p",
        "p_adjusted",
        "p_least",
        "first_size",
        "second_size",
        "larger",
    ]


def test_more_values_than_members_are_refused():
    with pytest.raises(ConfigError, match="more values than its sample has members"):
        run({"a": ([1, 2], [3])}, 1, 1)


def test_the_approximation_continues_the_exact_distribution():
    """At 64 and 64 values it is exact, at 64 and 65 approximate; p is nearly the same there."""
    assert MOST_PAIRS == 64 * 64
    for share in (0.55, 0.6, 0.7):
        exact, near = (
            likelihood(round(share * 64 * n), 64 * n - round(share * 64 * n), 64, n)
            for n in (64, 65)
        )
        assert near == pytest.approx(exact, rel=0.25)


def test_where_all_is_chance_it_claims_as_seldom_as_it_says():
    """4000 pairs of skewed samples of 8: p is at most 0.05 in at most 5 % of them, give or take 1 %."""
    numbers = np.random.default_rng(1)
    drawn = (numbers.lognormal(10, 0.5, (4000, 16))).astype(np.int64)
    groups = {f"{n:04d}": (row[:8].tolist(), row[8:].tolist()) for n, row in enumerate(drawn)}
    found = run(groups, 8, 8)["p"]
    assert 0.03 < (found <= 0.05).mean() < 0.06
