"""`causal_graph` finds planted structures, and nothing in independent noise."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.errors import ConfigError
from pasta.pipeline.kernels.causality import Moments, partial_correlation
from pasta.pipeline.stage import STAGES
from pasta.pipeline.stages.causal_graph import causal_graph
from tests.pipeline.merging import assert_merges

ROWS, SEEDS = 1_000, 10
ABC = {"by": [], "block": ["block"], "columns": ["a", "b", "c"]}


def noise(seed, count=3):
    return np.random.default_rng(seed).standard_normal((count, ROWS))


def graph(a, b, c, **given_):
    rows = pl.DataFrame({"block": np.arange(ROWS) // 20, "a": a, "b": b, "c": c})
    return causal_graph(rows, **{**ABC, **given_})


def links(found):
    return {(row["first"], row["second"]): row["verdict"] for row in found.to_dicts()}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_chain_and_a_fork_leave_the_ends_unlinked(seed):
    """In a to b to c, and in b to both, b separates the others; which way, data cannot tell."""
    e1, e2, e3 = noise(seed)
    chain = graph(e1, e1 + e2, e1 + e2 + e3)
    fork = graph(e1 + e2, e1, e1 + e3)
    assert links(chain) == {("a", "b"): "linked", ("a", "c"): "none", ("b", "c"): "linked"}
    assert links(fork) == links(chain)
    row = chain.row(1, named=True)
    assert row["correlation"] == pytest.approx(3**-0.5, abs=0.08)
    assert abs(row["partial"]) < 0.12
    assert (row["rows"], row["blocks"]) == (ROWS, 50)


def test_a_collider_is_directed():
    """Never the wrong way; in some seeds chance links both causes in too many repetitions to tell."""
    found = []
    for seed in range(SEEDS):
        e1, e2, e3 = noise(seed)
        found.append(links(graph(e1, e2, e1 + e2 + 0.5 * e3)))
    directed = {("a", "b"): "none", ("a", "c"): "directed", ("b", "c"): "directed"}
    assert found.count(directed) >= 0.7 * SEEDS
    assert all(given.keys() == directed.keys() and given["a", "b"] == "none" for given in found)


def test_what_is_last_is_no_cause_and_what_is_first_has_none():
    e1, e2, e3 = noise(1)
    found = links(graph(e1, e1 + e2, e1 + e2 + e3, first=["c"], last=["a"]))
    assert found == {("b", "a"): "directed", ("a", "c"): "none", ("c", "b"): "directed"}


def test_independent_noise_has_no_links():
    for seed in range(100):
        verdicts = set(graph(*noise(seed), resamples=20)["verdict"])
        assert verdicts <= {"none", "unstable"}


def test_rows_that_are_alike_in_a_block_do_not_count_as_independent():
    """Fifty blocks of twenty equal rows are fifty observations, not a thousand."""
    for seed in range(30):
        drawn = np.random.default_rng(seed).standard_normal((3, 50)).repeat(20, axis=1)
        assert set(links(graph(*drawn, resamples=50)).values()) <= {"none", "unstable"}


def test_no_claim_without_data():
    e1, e2, _ = noise(3)
    same = links(graph(e1, e2, np.full(ROWS, 7.25)))
    assert same == {("a", "b"): "none", ("a", "c"): "no variance", ("b", "c"): "no variance"}
    assert links(graph(e1, 2 * e1 + 1, e2))["a", "b"] == "same"
    few = pl.DataFrame({"block": [1, 2], "a": [1.0, 2], "b": [2.0, 1], "c": [0.0, 5]})
    assert set(causal_graph(few, **ABC)["verdict"]) == {"too few rows"}
    assert set(graph(e1, e2, e1, block=["a"], fewest=2_000)["verdict"]) == {"too few rows"}
    whole = pl.DataFrame({"block": [1] * ROWS, "a": e1, "b": e2, "c": e1 + e2})
    assert set(causal_graph(whole, **ABC)["verdict"]) == {"too few blocks"}
    assert causal_graph(few.clear(), **ABC).height == 0


def test_groups_have_graphs_of_their_own():
    e1, e2, e3 = noise(5)
    one = pl.DataFrame({"t": "x", "block": np.arange(ROWS) // 20, "a": e1, "b": e1 + e2, "c": e3})
    other = one.with_columns(t=pl.lit("y"), b=pl.Series(e2))
    found = causal_graph(pl.concat([other, one]), **{**ABC, "by": ["t"]})
    assert found["t"].to_list() == ["x"] * 3 + ["y"] * 3
    assert found["verdict"].to_list() == ["linked", "none", "none", "none", "none", "none"]


def test_partial_correlation_is_that_of_residuals():
    x, y, z, w = noise(7, 4)
    x, y = x + z + w, y + z - w
    data = np.array([x, y, z, w])
    moments = Moments(np.array([float(ROWS)]), data.sum(axis=1)[None], (data @ data.T)[None])
    _, matrix = moments.correlations(np.ones(1))
    assert matrix == pytest.approx(np.corrcoef(data))
    others = np.array([np.ones(ROWS), z, w]).T
    left, right = (v - others @ np.linalg.lstsq(others, v, rcond=None)[0] for v in (x, y))
    expected = np.corrcoef(left, right)[0, 1]
    assert partial_correlation(matrix, 0, 1, (2, 3)) == pytest.approx(expected)


@given(st.data())
def test_merge_law(data):
    e1, e2, e3 = np.round(noise(2), 3)[:, :60]
    rows = pl.DataFrame({"block": np.arange(60) // 5, "a": e1, "b": e1 + e2, "c": e3})
    arguments = {**ABC, "first": [], "last": ["c"], "least": 0.05, "stable": 0.9}
    assert_merges("causal_graph", rows, {**arguments, "resamples": 5, "fewest": 50}, data)


def test_mistakes():
    assert STAGES.get("causal_graph").kind({}) == "mergeable"
    e1, e2, e3 = noise(1)
    with pytest.raises(ConfigError, match="columns: needs at least two"):
        graph(e1, e2, e3, columns=["a"])
    with pytest.raises(ConfigError, match="last: 'd' is none of columns"):
        graph(e1, e2, e3, last=["d"])
