"""Replaying a plan: the right tensors before the right calls, and never more than fits."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import polars as pl
import pytest

from pasta import api
from pasta.collect.target.torch.prefetch import BYTES, CALLS, NOT_LIVE, NOT_REACHED, Prefetcher
from pasta.collect.torch_prefetch import ReadPlan, check_fits, read_plan, replay
from pasta.errors import CollectError

ROW = {
    "rank": 0, "pid": 7, "device": 0, "granularity": "tensor", "advice": "prefetch",
    "operator": "aten::mm", "occurrence": 1, "place": 0, "object_id": 1, "bytes": 100,
}  # fmt: skip


def plan_file(folder, *rows):
    path = folder / "plan.parquet"
    pl.DataFrame([{**ROW, **row} for row in rows]).write_parquet(path)
    return path


def test_a_plan_says_what_goes_before_which_call(tmp_path):
    path = plan_file(
        tmp_path,
        {},
        {"object_id": 2},
        {"occurrence": 2, "place": 3},
        {"operator": "aten::add", "place": 5, "object_id": 3},
        {"advice": "evict", "object_id": 9},
        {"granularity": "allocation", "object_id": 9},
        {"rank": 1, "pid": 8, "object_id": 9},
    )
    plan = read_plan(path)
    assert {key: sorted(ids) for key, ids in plan.calls.items()} == {
        ("aten::mm", 1): [1, 2],
        ("aten::mm", 2): [1],
        ("aten::add", 1): [3],
    }
    assert plan.device == 0


@pytest.mark.parametrize(
    ("uses", "peak"),
    [
        ([(1, 0, 100), (2, 0, 50), (1, 3, 100)], 150),
        ([(1, 0, 100), (2, 1, 50), (3, 2, 70)], 100),
        ([(1, 0, 100), (1, 4, 100), (2, 2, 50), (3, 3, 70), (3, 4, 70)], 170),
    ],
)
def test_the_peak_counts_tensors_from_their_first_to_their_last_use(tmp_path, uses, peak):
    rows = [{"object_id": number, "place": place, "bytes": size} for number, place, size in uses]
    assert read_plan(plan_file(tmp_path, *rows)).peak_bytes == peak


def test_a_plan_that_does_not_fit_is_refused():
    plan = ReadPlan({}, 0, 900)
    assert check_fits(plan, 1000) == 900
    with pytest.raises(CollectError, match=r"holds 900 bytes at once.* may take 899"):
        check_fits(plan, 999)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"rank": 1}], "no prefetch of tensors on rank 0"),
        ([{}, {"pid": 8}], "several processes or devices"),
        ([{}, {"device": 1}], "several processes or devices"),
    ],
)
def test_plans_that_cannot_be_replayed(tmp_path, rows, message):
    with pytest.raises(CollectError, match=message):
        read_plan(plan_file(tmp_path, *rows))


def test_what_is_no_plan(tmp_path):
    (tmp_path / "x").write_text("no")
    for path in (tmp_path / "x", tmp_path / "absent"):
        with pytest.raises(CollectError, match="no plan of uvm_advisor"):
            read_plan(path)
    with (
        pytest.raises(CollectError, match="host memory"),
        replay(plan_file(tmp_path, {"device": -1}), "run"),
    ):
        pass


class Calls:
    """Stands in for the driver."""

    def __init__(self):
        self.made = []

    def prefetch(self, address, size, device):
        self.made.append((address, size, device))


torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

from tests.collect.target.torch.inside import record  # noqa: E402


def train():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(32, 64)).square().mean().backward()
        optimizer.step()


def numbered_calls(trace):
    """Return the operators that touched something, with the ordinal of each among those of its name."""
    touched = trace.scan("touch").select("span_id").unique()
    spans = trace.scan("span").filter(level="operator").join(touched, on="span_id")
    call = pl.col("ts").rank("ordinal").over("name").cast(pl.Int64)
    return spans.select("span_id", "name", "ts", call=call).collect()


@pytest.mark.torch
def test_a_replay_prefetches_before_each_call_what_that_call_touches(tmp_path):
    with record("first", tmp_path / "a") as first:
        train()
    api.run("uvm_advisor", trace=first.trace(), out=tmp_path / "out", fault_ns=10_000_000)
    plan = read_plan(tmp_path / "out" / "plan.parquet")
    assert len(plan.calls) > 30
    driver = Calls()
    with record("second", tmp_path / "b") as second:
        prefetcher = Prefetcher(plan.calls, driver, plan.device, second.session)
        second.session.collectors[0].listen(prefetcher)
        train()
        prefetcher.finish()
    trace = second.trace()
    objects = trace.scan("memory").filter(event="allocate", space="tensor").collect()
    born = {row["object_id"]: row for row in objects.to_dicts()}
    touches = trace.scan("touch").select("span_id", "object_id").collect().rows()
    expected, unborn = [], 0
    for call in numbered_calls(trace).sort("ts").to_dicts():
        for object_id in plan.calls.get((call["name"], call["call"]), []):
            assert (call["span_id"], object_id) in touches
            if born[object_id]["ts"] < call["ts"]:
                expected.append((born[object_id]["address"], born[object_id]["bytes"], -1))
            else:
                unborn += 1
    assert expected
    assert driver.made == expected
    losses = dict(trace.losses().select("reason", "count").rows())
    assert losses[NOT_LIVE] == unborn
    assert NOT_REACHED not in losses
    metrics = trace.scan("metric").filter(pl.col("name").is_in([BYTES, CALLS])).collect()
    totals = dict(metrics.group_by("name").agg(pl.col("value").sum()).rows())
    assert totals == {BYTES: sum(size for _, size, _ in expected), CALLS: len(expected)}


@pytest.mark.torch
def test_calls_that_never_come_are_counted_and_a_driver_that_fails_stops_nothing(tmp_path):
    class Failing(Calls):
        def prefetch(self, *_):
            raise OSError("no")

    with record("run", tmp_path / "t") as recording:
        plan = {("aten::relu", 1): [1], ("aten::relu", 9): [1, 2]}
        prefetcher = Prefetcher(plan, Failing(), -1, recording.session)
        recording.session.collectors[0].listen(prefetcher)
        torch.ones(4).relu()
        torch.ones(4).relu()
        prefetcher.finish()
    losses = dict(recording.trace().losses().select("reason", "count").rows())
    assert losses[NOT_REACHED] == 2
    assert any("listener hook failed" in reason for reason in losses)
    assert recording.trace().scan("span").filter(name="aten::relu").collect().height == 2


PROGRAM = """
import sys, torch
import pasta.collect.torch, pasta.collect.torch_prefetch

def train():
    model = torch.nn.Linear(4096, 4096, device="cuda")
    for _ in range(3):
        model(torch.ones(256, 4096, device="cuda")).square().mean().backward()
    torch.cuda.synchronize()

if sys.argv[1] == "plan":
    with pasta.collect.torch.record("plan", sys.argv[2]):
        train()
else:
    with pasta.collect.torch_prefetch.replay(sys.argv[3], "replay", sys.argv[2]):
        train()
"""


@pytest.mark.gpu
@pytest.mark.torch
def test_a_replay_on_a_gpu_moves_the_bytes_of_the_plan(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def run(*arguments):
        subprocess.run(
            [sys.executable, str(script), *map(str, arguments)], env=environment, check=True
        )

    run("plan", tmp_path / "a")
    api.run("uvm_advisor", trace=tmp_path / "a", out=tmp_path / "out")
    run("replay", tmp_path / "b", tmp_path / "out" / "plan.parquet")
    metrics = api.open(tmp_path / "b").scan("metric").filter(name=BYTES).collect()
    assert metrics["value"].sum() > 4096 * 4096 * 4
