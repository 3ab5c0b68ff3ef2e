"""`pipeline_bubbles` on a pipeline whose bubbles are planted, on one without, and on what only looks like one."""

from __future__ import annotations

from typing import Any

import pytest

import pasta
from pasta.testing import write_trace
from tests.tools.pipeline_run import KERNEL, NAME, PASS, pipeline_run


@pytest.mark.parametrize("stages", [2, 3, 4, 5])
def test_planted_bubbles_are_found_stage_by_stage_in_every_seed(tmp_path, stages):
    """A hundred seeds, a quarter with each number of stages."""
    runs = {seed: pipeline_run(seed, bubbles=True, stages=stages) for seed in range(stages, 100 + stages, 4)}  # fmt: skip
    traces = [write_trace(tmp_path / str(seed), **run) for seed, run in runs.items()]
    report = pasta.run("pipeline_bubbles", trace=traces, top=10**6)
    step = (6 + stages - 1) * (KERNEL + PASS)
    rows = report.tables["ranks"].to_dicts()
    assert len(rows) == 25 * stages
    for row in rows:
        assert row["step_ns"] == 3 * step
        assert row["bubble_ns"] == 3 * (step - 6 * KERNEL)
        assert row["idle_ns"] == row["hidden_ns"] == 0
        assert row["after_ns"] == row["rank"] * (KERNEL + PASS)
    one = pasta.run("pipeline_bubbles", trace=traces[0])
    assert one.findings[0].startswith("devices compute nothing while they send or receive for")
    assert len(one.findings) == 1 + stages


def test_nothing_is_found_where_computation_hides_what_is_passed(tmp_path):
    traces = [write_trace(tmp_path / str(seed), **pipeline_run(seed, bubbles=False)) for seed in range(100)]  # fmt: skip
    report = pasta.run("pipeline_bubbles", trace=traces)
    assert report.findings == []
    assert report.tables["ranks"]["hidden_ns"].to_list() == [3 * KERNEL] * 400


NONE = "no send and no receive that the program asked for was recorded in a step: of a pipeline nothing can be said"  # fmt: skip


def sends_in(asked: str | None) -> dict[str, list[dict[str, Any]]]:
    """Return two kernels that send and receive, launched in a range of PyTorch of this name."""
    kernels = [{"device": 0, "launch_id": n, "correlation": n, "ts": 100 * n, "dur": 60, "stream": 20, "name": NAME} for n in (1, 2)]  # fmt: skip
    collectives = [{"device": 0, "launch_id": n, "correlation": n, "ts": 100 * n, "dur": 60, "operation": "sendrecv", "sequence": n} for n in (1, 2)]  # fmt: skip
    calls = [{"tid": 1, "ts": 50 + n, "dur": 1, "correlation": n, "name": "cudaLaunchKernelExC"} for n in (1, 2)]  # fmt: skip
    spans = [{"tid": 1, "ts": 40, "dur": 20, "span_id": 1, "level": "annotation", "name": asked}]
    return {"kernel": kernels, "collective": collectives, "call": calls, "span": spans if asked else []}  # fmt: skip


@pytest.mark.parametrize("asked", ["nccl:all_to_all", "nccl:all_reduce", "nccl:gather"])
def test_a_collective_made_of_sends_is_no_pipeline(make_trace, asked):
    report = pasta.run("pipeline_bubbles", trace=make_trace(**sends_in(asked)))
    assert report.findings == [NONE]
    assert report.tables["ranks"]["bubble_ns"].to_list() == [0]


@pytest.mark.parametrize("asked", ["nccl:send 0->1", "nccl:recv 0<-1", "nccl:coalesced"])
def test_what_the_program_asked_for_is_a_pipeline(make_trace, asked):
    report = pasta.run("pipeline_bubbles", trace=make_trace(**sends_in(asked)))
    assert (report.facts["passes"], report.facts["bubble_ns"]) == (2, 120)
    assert report.findings[1].endswith("of its steps; it computes in none")


def test_sends_of_which_nothing_tells_what_was_asked_for_are_not_counted(make_trace):
    report = pasta.run("pipeline_bubbles", trace=make_trace(**sends_in(None)))
    assert report.findings[0] == NONE
    assert report.findings[1].startswith("2 kernels of sends and receives are not counted")
    assert report.facts["bubble_ns"] == 0


def test_a_real_profile_whose_collectives_are_made_of_sends_has_none(samples):
    """Of 80 kernels 75 are launched in ranges of collectives, 5 in none."""
    trace = samples / "kineto" / "hta_negative_queue_cudagraph_rank0.json.gz"
    report = pasta.run("pipeline_bubbles", trace=trace)
    assert report.findings[0] == NONE
    assert report.findings[1].startswith("5 kernels of sends and receives are not counted")
    assert (report.facts["passes"], report.facts["bubble_ns"]) == (0, 0)
