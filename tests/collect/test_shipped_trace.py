"""The trace that ships with pasta: its numbers follow from the sizes of the model in `examples`."""

from __future__ import annotations

import socket
from pathlib import Path

import polars as pl
import pytest

import pasta
from pasta.trace import Trace

PATH = Path(pasta.__file__).parent / "traces" / "gpt_cpu"
FLOAT = 4
TOKENS, WIDTH, VOCABULARY = 4 * 64, 128, 1000


@pytest.fixture(scope="module")
def trace():
    return Trace.open(PATH)


@pytest.fixture(scope="module")
def spans(trace):
    return trace.scan("span").collect()


@pytest.fixture(scope="module")
def objects(trace):
    allocations = trace.scan("memory").filter(pl.col("event") == "allocate")
    return allocations.select("object_id", "bytes").collect()


def test_is_small_complete_and_names_no_machine(trace):
    files = [file for file in PATH.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < 2_000_000
    assert trace.info["state"] == "complete"
    assert trace.info["command"] == "python examples/record_training_step.py"
    assert trace.scan("process").collect()["host"].to_list() == [""]
    assert all(
        socket.gethostname().encode() not in f.read_bytes() for f in files if f.suffix == ".json"
    )


def test_has_three_steps_of_three_phases(spans):
    steps = spans.filter(pl.col("level") == "step").sort("ts")
    assert steps["name"].to_list() == ["step 0", "step 1", "step 2"]
    phases = spans.filter(pl.col("level") == "phase").sort("ts")
    assert phases["name"].to_list() == ["forward", "backward", "optimizer"] * 3
    assert phases["parent_id"].to_list() == [i for i in steps["span_id"] for _ in range(3)]


def test_the_output_projection_touches_what_its_shapes_say(trace, spans, objects):
    """hidden (256x128) times weight (128x1000, a view of 1000x128) plus bias (1000)."""
    projections = spans.filter(
        pl.col("name") == "aten::addmm",
        pl.col("input_shapes").list.first() == "1000",
    )
    assert projections["input_shapes"].list.head(3).unique().to_list() == [
        ["1000", "256x128", "128x1000"]
    ]
    assert projections.height == 3
    touches = trace.scan("touch").collect().join(objects, on="object_id")
    for span_id in projections["span_id"]:
        rows = touches.filter(pl.col("span_id") == span_id)
        written = rows.filter(pl.col("writes") > 0)
        assert written.select("bytes_written", "unique_written", "bytes").rows() == [
            (TOKENS * VOCABULARY * FLOAT,) * 3
        ]
        read = rows.filter(pl.col("reads") > 0)
        expected = [VOCABULARY * FLOAT, TOKENS * WIDTH * FLOAT, WIDTH * VOCABULARY * FLOAT]
        assert sorted(read["bytes_read"]) == sorted(read["unique_read"]) == expected
        assert rows["bytes"].sum() == 1_671_072


def test_the_largest_working_set_is_the_softmax_of_the_logits(trace, spans, objects):
    """Its backward holds three tensors of the size of the logits."""
    touches = trace.scan("touch").collect().join(objects, on="object_id")
    sets = touches.group_by("span_id").agg(pl.col("bytes").sum()).join(spans, on="span_id")
    largest = sets.filter(pl.col("bytes") == pl.col("bytes").max())
    assert largest["name"].unique().to_list() == ["aten::_log_softmax_backward_data"]
    assert largest["bytes"].unique().to_list() == [3 * TOKENS * VOCABULARY * FLOAT]


def test_live_bytes_are_at_least_the_training_state(trace):
    """Parameters, gradients and the two moments of AdamW stay from the first step on."""
    block = 4 * WIDTH + (WIDTH * 3 * WIDTH + 3 * WIDTH) + (WIDTH * WIDTH + WIDTH)
    block += (WIDTH * 4 * WIDTH + 4 * WIDTH) + (4 * WIDTH * WIDTH + WIDTH)
    embeddings = VOCABULARY * WIDTH + 64 * WIDTH
    parameters = embeddings + 2 * block + 2 * WIDTH + (WIDTH * VOCABULARY + VOCABULARY)
    state = 4 * parameters * FLOAT
    memory = trace.scan("memory").collect()
    totals = memory["total_allocated"]
    assert state < totals.max() < 2 * state
    assert state <= totals[-1] < state + 2 * TOKENS * VOCABULARY * FLOAT
    change = pl.when(pl.col("event") == "allocate").then("bytes").otherwise(-pl.col("bytes"))
    assert memory.select(change.cum_sum()).to_series().to_list() == totals.to_list()
