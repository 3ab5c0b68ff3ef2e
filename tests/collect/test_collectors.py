from __future__ import annotations

import pytest

from pasta.collect.collectors import ALWAYS, COLLECTORS, DEFAULT, collectors_for, parse_with
from pasta.errors import CollectError
from pasta.schema import TABLES


def test_a_collector_without_a_level_is_at_its_first():
    assert parse_with(["torch"]) == {"torch": next(iter(COLLECTORS["torch"].levels))}
    assert parse_with([" torch:touch "]) == {"torch": "touch"}
    assert parse_with([]) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("torhc", "Did you mean 'torch'"),
        ("torch:tuch", "has no level 'tuch'"),
        ("torch,torch:touch", "given twice"),
        ("", "no collector ''"),
        ("torch,", "no collector ''"),
    ],
)
def test_what_there_is_not_is_refused(text, message):
    with pytest.raises(CollectError, match=message) as caught:
        parse_with([text])
    assert "\n" not in str(caught.value)


def test_every_level_fills_tables_that_exist():
    for collector in COLLECTORS.values():
        for level in collector.levels.values():
            assert level.tables | level.maybe | ALWAYS <= set(TABLES)
            assert level.cost
            assert level.loses


def test_nothing_special_is_the_default():
    assert collectors_for([], []) == DEFAULT
    assert collectors_for(["process", "loss"], ["thread"]) == DEFAULT


def test_the_cheapest_level_that_fills_all_is_chosen():
    assert collectors_for(["span", "memory"], []) == {"torch": "operators"}
    assert collectors_for(["touch", "span"], []) == {"torch": "touch"}


def test_what_no_collector_fills_is_one_line():
    with pytest.raises(CollectError, match="pc_sample") as caught:
        collectors_for(["pc_sample", "touch"], [])
    assert "\n" not in str(caught.value)


def test_on_nvidia_cards_cuda_comes_before_the_profiler_of_pytorch():
    assert collectors_for(["kernel"], [], nvidia=True) == {"cuda": "kernels", "torch": "operators"}
    assert collectors_for(["kernel", "sync"], [], nvidia=True)["cuda"] == "calls"
    assert collectors_for(["touch", "memory"], [], nvidia=True) == {
        "cuda.memory": "touch",
        "torch": "operators",
    }
    assert collectors_for(["access"], [], nvidia=True)["cuda.memory"] == "access"
    assert collectors_for(["span", "memory"], [], nvidia=True) == DEFAULT
    assert collectors_for(["kernel"], []) == {"torch": "timeline"}


def test_samples_of_the_cpu_come_from_the_best_rung():
    assert collectors_for(["sample"], ["frame"]) == {"cpu": "best"}
    assert collectors_for(["sample"], [], nvidia=True) == {"cpu": "best"}
