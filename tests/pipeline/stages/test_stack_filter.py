"""`stack_filter` judges stacks by their frames, and cuts frames."""

import polars as pl
import pytest

from pasta.errors import ConfigError
from pasta.pipeline.stages.stack_filter import stack_filter

FRAMES = pl.LazyFrame(
    {
        "stack": [1, 1, 2, 2, 3],
        "symbol": ["main", "cuLaunch", "main", "idle", "main"],
        "library": ["a.out", "libcuda.so.1", "a.out", None, "a.out"],
        "module": ["", "", "", "torch.cuda", ""],
    }
)


def judged(**patterns):
    found = stack_filter(FRAMES, on=["stack"], **patterns).collect()
    allowed = found.filter("allowed")["stack"].unique().sort().to_list()
    return allowed, found.filter("cut")["symbol"].to_list()


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ({}, ([1, 2, 3], [])),
        ({"allow": "^library:libcuda"}, ([1], [])),
        ({"deny": "^module:torch[.]|^symbol:cu"}, ([3], [])),
        ({"allow": "cuda", "deny": "idle"}, ([1], [])),
        ({"cut": "^symbol:main$"}, ([1, 2, 3], ["main"] * 3)),
        ({"allow": "^symbol:mai$"}, ([], [])),
    ],
)
def test_patterns(patterns, expected):
    assert judged(**patterns) == expected


def test_a_mistaken_pattern_is_named():
    with pytest.raises(ConfigError, match=r"deny: '\(' is no regular expression"):
        judged(deny="(")
