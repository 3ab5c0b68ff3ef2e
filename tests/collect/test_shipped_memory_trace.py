"""The trace of a GPU that ships with pasta: what its kernels touched follows from the model's sizes."""

from __future__ import annotations

import polars as pl
import pytest

import pasta
from pasta.tools.shipped import SHIPPED_TRACE
from pasta.trace import Trace

FLOAT = 4
TOKENS, WIDTH, VOCABULARY = 4 * 64, 128, 1000


@pytest.fixture(scope="module")
def trace():
    return Trace.open(SHIPPED_TRACE)


def launched_by(trace: Trace, operator: str, first_shape: str) -> pl.DataFrame:
    """Launches within operators of that name and shape, one row each, with the operator's span."""
    spans = trace.scan("span").filter(
        pl.col("name") == operator, pl.col("input_shapes").list.first() == first_shape
    )
    calls = trace.scan("call").select("correlation", call_ts="ts")
    kernels = trace.scan("kernel").join(calls, on="correlation")
    return (
        kernels.join(spans.select("span_id", span_ts="ts", span_dur="dur"), how="cross")
        .filter(
            pl.col("call_ts").is_between(pl.col("span_ts"), pl.col("span_ts") + pl.col("span_dur"))
        )
        .select("launch_id", "span_id", "dur")
        .collect()
    )


def test_is_small_complete_and_names_no_machine(trace):
    files = [file for file in SHIPPED_TRACE.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < 2_000_000
    assert trace.info["state"] == "complete"
    assert trace.info["command"] == "python examples/train_small_gpt.py"
    assert trace.scan("process").collect()["host"].to_list() == [""]


def test_every_launch_of_the_memory_run_is_matched_with_one_of_the_timeline(trace):
    kernels = trace.scan("kernel").collect()
    assert kernels["dur"].null_count() == 0
    touched = trace.scan("touch").filter(pl.col("space") == "global").collect()
    assert sorted(touched["launch_id"]) == sorted(kernels["launch_id"])


def test_the_output_projection_touches_what_its_shapes_say(trace):
    """hidden (256x128) times weight (128x1000) plus bias (1000) gives logits (256x1000)."""
    launches = launched_by(trace, "aten::addmm", str(VOCABULARY))
    assert launches["span_id"].n_unique() == 3
    objects = trace.scan("memory").filter(pl.col("space") == "tensor").unique("object_id")
    touches = (
        trace.scan("touch")
        .filter(pl.col("space") == "tensor")
        .join(launches.lazy(), on="launch_id")
        .join(objects.select("object_id", "bytes"), on="object_id")
        .collect()
    )
    read = touches.filter(pl.col("unique_read") > 0)["unique_read"].unique().sort().to_list()
    padded_bias = -(-VOCABULARY * FLOAT // 512) * 512
    assert read == [padded_bias, TOKENS * WIDTH * FLOAT, WIDTH * VOCABULARY * FLOAT]
    written = touches.filter(pl.col("unique_written") > 0)
    assert written["unique_written"].unique().to_list() == [TOKENS * VOCABULARY * FLOAT]
    assert (touches["unique_bytes"] <= touches["bytes"]).all()


def test_tensors_lie_within_the_allocations_that_were_touched(trace):
    by_space = (
        trace.scan("touch")
        .filter(pl.col("space").is_in(["device", "tensor", "global"]))
        .group_by("launch_id", "space")
        .agg(pl.col("unique_bytes").sum())
        .collect()
        .pivot("space", index="launch_id", values="unique_bytes")
        .fill_null(0)
    )
    assert by_space.filter(pl.col("tensor") > pl.col("device")).is_empty()
    assert by_space.filter(pl.col("device") > pl.col("global")).is_empty()


def test_the_working_set_tool_runs_on_it_where_no_trace_is_named():
    report = pasta.run("working_set")
    assert report.facts["kind"] == "kernel launches"
    assert report.facts["space"] == "tensor"
    assert report.facts["units"] == 456
