"""Stages that look rows up give, on parts of their first input, what they give on all of it."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from pasta.pipeline.stage import STAGES
from tests.pipeline.test_within import CASES, TABLE

OF_OBJECTS = {"by": ["trace", "rank", "pid", "space"], "time": "ts"}
JOINED = {"on": ["rank", "launch_id"], "columns": {"other": "name"}}
GIVEN: dict[str, tuple[str, dict[str, Any]]] = {
    **{case: (CASES[case][0], CASES[case][2]) for case in ("containment", "correlation")},
    "address": ("correlate", {"by": "address", "columns": {"object": "object_id"}}),
    "locate": ("locate", OF_OBJECTS),
    "inner": ("join", JOINED),
    "left": ("join", JOINED | {"how": "left"}),
    "semi": ("join", {"on": ["rank", "launch_id"], "how": "semi"}),
    "anti": ("join", {"on": ["rank", "launch_id"], "how": "anti"}),
}


def test_every_such_stage_has_a_case():
    assert {name for name, _ in GIVEN.values()} == {
        name for name in STAGES if STAGES.get(name).looks_up
    }


@pytest.mark.parametrize("case", list(GIVEN))
@settings(max_examples=40, deadline=None)
@given(rows=TABLE, others=TABLE, cut=st.integers(0, 14))
def test_parts_of_the_first_input_give_parts_of_the_result(case, rows, others, cut):
    name, arguments = GIVEN[case]
    stage = STAGES.get(name)

    def run(part: pl.DataFrame) -> pl.DataFrame:
        frames = (part, others) if stage.array else (part.lazy(), others.lazy())
        return stage.function(*frames, **arguments).lazy().collect()

    both = pl.concat([run(rows[:cut]), run(rows[cut:])])
    assert_frame_equal(both, run(rows), check_row_order=stage.order != "undefined")
