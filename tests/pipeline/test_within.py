"""Stages that work within keys give, on parts that do not cut the keys, what they give on all."""

from __future__ import annotations

from inspect import signature
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from pasta.pipeline.expressions import parse, parse_measure, window_keys
from pasta.pipeline.stage import STAGES

SMALL = st.integers(0, 3)
TYPES = {
    "trace": pl.String,
    "rank": pl.Int32,
    "pid": pl.Int64,
    "tid": pl.Int64,
    "device": pl.Int32,
    "ts": pl.Int64,
    "dur": pl.Int64,
    "end": pl.Int64,
    "name": pl.String,
    "level": pl.String,
    "span_id": pl.UInt64,
    "parent_id": pl.UInt64,
    "correlation": pl.UInt64,
    "launch_id": pl.UInt64,
    "object_id": pl.UInt64,
    "stack_id": pl.UInt64,
    "address": pl.UInt64,
    "bytes": pl.Int64,
    "space": pl.String,
    "event": pl.String,
    "total_allocated": pl.Int64,
    "live_bytes": pl.Int64,
    "before_bytes": pl.Int64,
    "depth": pl.Int32,
}
VALUES = {name: st.none() | SMALL if kind == pl.Int64 else SMALL for name, kind in TYPES.items()}
VALUES |= {
    "trace": st.sampled_from("ba"),
    "rank": st.integers(0, 1),
    "pid": st.integers(1, 2),
    "tid": st.integers(1, 2),
    "ts": st.none() | st.integers(0, 20),
    "name": st.sampled_from("xyz"),
    "level": st.sampled_from(["step", "operator"]),
    "space": st.sampled_from(["device", "tensor"]),
    "event": st.sampled_from(["allocate", "release"]),
    "bytes": st.integers(0, 9),
}
TABLE = st.lists(st.fixed_dictionaries(VALUES), max_size=14).map(
    lambda rows: pl.DataFrame(rows, schema=TYPES).sort("trace", "rank", maintain_order=True)
)
RANK = ["trace", "rank"]
MEASURES = {"n": "count(*)", "middle": "median(dur)", "most": "max(ts) - min(ts)"}
CASES: dict[str, tuple[str, int, dict[str, Any]]] = {
    "added_time": ("added_time", 1, {"by": [*RANK, "device"], "column": "added_ns"}),
    "aggregate": ("aggregate", 1, {"by": [*RANK, "name"], "measures": {n: parse_measure(m, "", {}) for n, m in MEASURES.items()}}),
    "busy": ("busy", 1, {"by": ["device", *RANK], "start": "ts", "duration": "dur"}),
    "gaps": ("busy", 1, {"by": [*RANK, "device"], "start": "ts", "duration": "dur", "gaps": True}),
    "ancestors": ("ancestors", 1, {"of": "end_id"}),
    "call_paths": ("call_paths", 2, {"by": [*RANK, "level"], "values": ["dur"], "caused_values": {"late": "ts"}, "self_time": True}),
    "chain": ("chain", 1, {"by": RANK, "on": {"parent_id": "span_id", "dur": "end"}, "where": parse("bytes > 6", "", {})}),
    "circles": ("circles", 1, {}),
    "containment": ("correlate", 2, {"by": "containment", "columns": {"range": "name"}}),
    "correlation": ("correlate", 2, {"by": "correlation", "columns": {"call_ts": "ts"}}),
    "enclosing": ("containment", 1, {}),
    "coverage": ("coverage", 1, {"by": [*RANK, "device"], "kind": "level", "kinds": ["step", "operator"], "start": "ts", "duration": "dur"}),
    "cut": ("cut", 2, {"by": [*RANK, "device"]}),
    "dedupe": ("dedupe", 1, {"by": ["name", *RANK], "order": ["ts"]}),
    "derive": ("derive", 1, {"columns": {"place": parse("rank() over (partition by trace, rank, pid order by bytes) + max(dur) over (partition by rank, trace)", "", {})}}),
    "enclose": ("enclose", 2, {}),
    "filter": ("filter", 1, {"where": parse("bytes = max(bytes) over (partition by trace, rank)", "", {})}),
    "held_at_peak": ("held_at_peak", 1, {}),
    "join": ("join", 2, {"on": ["rank", "pid", "launch_id"], "columns": ["name"], "how": "left"}),
    "lifetimes": ("lifetimes", 1, {}),
    "live": ("live", 2, {"by": [*RANK, "space"], "column": "found"}),
    "live_totals": ("live_totals", 1, {}),
    "locate": ("locate", 2, {"by": None}),
    "nearest": ("nearest", 1, {"by": [*RANK, "object_id"], "order": ["ts", "launch_id"], "where": parse("bytes > 3", "", {}), "columns": {"found": "dur"}}),
    "nest": ("nest", 1, {"by": None}),
    "overlap": ("overlap", 2, {"by": [*RANK, "device"], "start": "ts", "duration": "dur"}),
    "path_ids": ("path_ids", 1, {}),
    "prune": ("prune", 1, {"keep": parse("level <> 'step'", "", {})}),
    "reuse_distance": ("reuse_distance", 1, {"by": RANK, "of": ["address"], "order": ["ts", "bytes"], "columns": {"before": "dur"}}),
    "rollup": ("rollup", 1, {"values": ["dur"]}),
    "shared_time": ("shared_time", 2, {"by": [*RANK, "device"], "column": "shared_ns", "at_least": 2}),
    "window": ("window", 2, {}),
}  # fmt: skip
ELSEWHERE = {
    "spread": "its counts are above 0: test_groups_apart_give_what_all_give, with a tick",
    "managed_memory": "its input marks uses: test_each_device_is_simulated_for_itself",
    "call_stacks": "its input holds texts of frames: test_call_stacks_of_each_process",
    "touch_from_access": "its inputs are three tables: tests/pipeline/engines/test_dask.py",
}


def test_every_stage_that_works_within_keys_is_tried():
    declared = {name for name in STAGES if STAGES.get(name).within is not None}
    assert declared == {stage for stage, _, _ in CASES.values()} | ELSEWHERE.keys()


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=20, deadline=None)
@given(tables=st.tuples(TABLE, TABLE))
def test_parts_by_rank_give_what_all_rows_give(case, tables):
    name, inputs, arguments = CASES[case]
    assert_works_within(name, list(tables[:inputs]), arguments)


def assert_works_within(name: str, tables: list[pl.DataFrame], arguments: dict[str, Any]) -> None:
    stage = STAGES.get(name)
    assert stage.within is not None
    assert set(RANK) <= set(stage.within.keys(arguments))

    def run(rows: list[pl.DataFrame]) -> pl.DataFrame:
        given_rows = rows if stage.array else [table.lazy() for table in rows]
        return stage.function(*given_rows, **arguments).lazy().collect()

    keys = pl.concat([table.select(RANK) for table in tables]).unique().sort(RANK)
    parts = [
        run([table.filter(trace=trace, rank=rank) for table in tables])
        for trace, rank in keys.iter_rows()
    ]
    found = pl.concat([*parts, run([table.head(0) for table in tables])])
    if stage.within.gather is not None:
        found = stage.within.gather(found.lazy(), **arguments).collect()
    assert_frame_equal(found, run(tables), check_row_order=stage.order != "undefined")


def test_call_stacks_of_each_process():
    frames = pl.DataFrame(
        {
            "trace": ["b", "a", "a", "a"],
            "rank": [0, 1, 0, 1],
            "pid": [1, 1, 1, 1],
            "stack_id": [4, 2, 3, 2],
            "depth": [0, 1, 0, 0],
            "function": ["f", "g", "h", "i"],
            "file": ["f.py"] * 4,
            "line": [1, 2, 3, 4],
            "language": ["python"] * 4,
            "library": [None] * 4,
        },
        schema_overrides={"stack_id": pl.UInt64, "library": pl.String},
    )
    assert_works_within("call_stacks", [frames], {})


@pytest.mark.parametrize(
    ("texts", "keys"),
    [
        (["sum(dur) over (partition by trace, rank)"], {"trace", "rank"}),
        (["sum(dur) over (partition by trace, rank)", "ts + 1"], {"trace", "rank"}),
        (["sum(dur) over (partition by trace) + max(ts) over (partition by trace, rank)"], {"trace"}),
        (["dur / sum(dur)"], set()),
        (["dur / sum(dur) + max(ts) over (partition by rank)"], set()),
        (["sum(dur) over (order by ts)"], set()),
        (["rank() over (partition by trace, rank order by sum(ts) over (partition by name))"], set()),
    ],
)  # fmt: skip
def test_the_columns_that_all_windows_partition_by(texts, keys):
    assert window_keys([parse(text, "", {}) for text in texts]) == keys


@pytest.mark.parametrize("name", [name for name in STAGES if STAGES.get(name).within])
def test_what_gathers_takes_the_arguments_of_its_stage(name):
    gather, parameters = STAGES.get(name).within.gather, signature(STAGES.get(name).function).parameters  # fmt: skip
    options = [each.name for each in parameters.values() if each.kind is each.KEYWORD_ONLY]
    if gather is not None:
        signature(gather).bind(None, **dict.fromkeys(options))
