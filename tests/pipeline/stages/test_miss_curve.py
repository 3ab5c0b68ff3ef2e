"""The stage `miss_curve` against simulating a cache of each size."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.errors import ConfigError
from pasta.pipeline.stages.miss_curve import miss_curve
from pasta.pipeline.stages.reuse_distance import reuse_distance
from pasta.pipeline.stages.sample import sample


def simulate(things, capacity):
    """The misses of a cache of `capacity` things that gives up the least recently used."""
    held, misses = [], 0
    for thing in things:
        if thing in held:
            held.remove(thing)
        else:
            misses += 1
            held = held[-(capacity - 1) :] if capacity > 1 else []
        held.append(thing)
    return misses


def with_distances(things, sampled=1.0):
    uses = pl.DataFrame({"sector": things, "at": range(len(things))}, {"sector": pl.Int64, "at": pl.Int64})  # fmt: skip
    kept = sample(uses.lazy(), by="sector", rate=sampled).collect()
    return reuse_distance(kept, by=[], of=["sector"], order=["at"], sampled=sampled)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=60))
def test_equals_simulated_caches(things):
    found = miss_curve(with_distances(things), by=[], size=32)
    sizes = found["cache_bytes"].to_list()
    assert sizes[0] == 32
    assert all(b == 2 * a for a, b in pairwise(sizes))
    assert found["misses"].to_list() == [simulate(things, size // 32) for size in sizes]
    assert found["uses"].to_list() == [len(things)] * len(sizes)
    assert found["misses"][-1] == len(set(things))
    assert found["miss_share"].to_list() == [m / len(things) for m in found["misses"]]
    assert found["error"].max() == 0


def test_groups_have_curves_of_their_own():
    uses = pl.DataFrame(
        {"name": ["b", "a", "b", "a", "b"], "distance": [None, None, 3, 0, 1]},
        schema={"name": pl.String, "distance": pl.Int64},
    )
    found = miss_curve(uses, by=["name"], size=64)
    assert found.select("name", "cache_bytes", "misses", "uses").rows() == [
        *(("a", 64 << k, 1, 2) for k in range(3)),
        *(("b", 64 << k, misses, 3) for k, misses in enumerate((3, 2, 1))),
    ]


def test_a_sample_is_as_near_as_its_error_says():
    """A hundred hot things in between a loop: 30 samples lie around the whole as they should."""
    random = np.random.default_rng(5)
    exact, far = None, []
    for _ in range(30):
        things = np.where(random.random(20_000) < 0.5, random.integers(0, 300, 20_000), random.integers(1000, 9000, 20_000))  # fmt: skip
        names = random.permutation(1 << 20)[:9000]
        whole = with_distances(names[things].tolist())
        exact = miss_curve(whole, by=[], size=1).filter(cache_bytes=4096)["miss_share"].item()
        found = miss_curve(with_distances(names[things].tolist(), 0.2), by=[], of=["sector"], size=1, sampled=0.2)  # fmt: skip
        row = found.filter(cache_bytes=4096).to_dicts()[0]
        assert 0 < row["error"] < 0.1
        far.append((row["miss_share"] - exact) / row["error"])
    assert 0.4 < np.std(far) < 1.8
    assert abs(np.mean(far)) < 1


def test_empty():
    assert miss_curve(with_distances([]), by=[], size=32).height == 0


@pytest.mark.parametrize(
    ("arguments", "path"),
    [({"size": 0}, "size"), ({"sampled": 0.0}, "sampled"), ({"sampled": 0.5}, "of")],
)
def test_mistakes(arguments, path):
    with pytest.raises(ConfigError) as error:
        miss_curve(with_distances([1]), **{"by": [], "size": 32, **arguments})
    assert error.value.path == path
