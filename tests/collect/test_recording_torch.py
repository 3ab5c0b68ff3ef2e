from __future__ import annotations

import sys

import polars as pl
import pytest

from tests.collect.recorded_programs import (
    ROOT,
    WRITTEN,
    annotations,
    losses,
    python,
    recorded,
    table,
)

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

pytestmark = pytest.mark.torch

TRAIN = """
import sys, torch
import pasta
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(5, 8)).square().mean().backward()
        optimizer.step()
"""


@pytest.fixture(autouse=True)
def _pasta_in_programs(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "trace"


def operators(spans: pl.DataFrame) -> dict[str, int]:
    calls = spans.filter(pl.col("level") == "operator")
    return dict(calls.group_by("name").len().rows())


def test_torchrun_makes_one_trace_of_all_ranks(out, tmp_path):
    program = tmp_path / "train.py"
    program.write_text(
        TRAIN
        + "import torch.distributed as dist\n"
        + "dist.init_process_group('gloo')\n"
        + "with pasta.annotate(f'rank {dist.get_rank()} of {dist.get_world_size()}'):\n"
        + "    train(1 + dist.get_rank())\n"
        + "    total = torch.full((3,), 1.0 + dist.get_rank())\n"
        + "    dist.all_reduce(total)\n"
        + "    assert total.tolist() == [3, 3, 3]\n"
        + "dist.destroy_process_group()\n"
    )
    torchrun = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
    ]
    done, trace = recorded(out, [*torchrun, str(program)])
    assert str(done.end) == "exit 0"
    assert trace.info["ranks"] == [0, 1]
    assert {folder.name for folder in out.glob("rank-*")} == {"rank-00000", "rank-00001"}
    spans = table(trace, "span")
    named = spans.filter(pl.col("level") == "annotation").sort("rank")
    assert named.select("rank", "name").rows() == [(0, "rank 0 of 2"), (1, "rank 1 of 2")]
    workers = dict(named.select("rank", "pid").rows())
    for rank, pid in workers.items():
        mine = (pl.col("rank") == rank) & (pl.col("pid") == pid)
        own = spans.filter(mine)
        assert operators(own)["aten::addmm"] == 2 * (1 + rank)
        steps = own.filter(pl.col("level") == "phase", pl.col("name") == "optimizer")
        assert steps.height == 1 + rank
        touches = table(trace, "touch").filter(mine)
        assert set(touches["span_id"]) <= set(own["span_id"])
        objects = table(trace, "memory").filter(mine, pl.col("event") == "allocate")
        assert objects["object_id"].is_unique().all()
        assert set(touches["object_id"]) <= set(objects["object_id"])
    ids = spans.filter(pl.col("span_id") > 0).select("rank", "pid", "span_id")
    assert ids.is_unique().all()
    processes = table(trace, "process")
    assert processes.select("rank", "pid").is_unique().all()
    sizes = dict(processes.select("pid", "world_size").rows())
    assert [sizes[pid] for pid in workers.values()] == [2, 2]


def test_a_script_by_its_path_is_recorded_with_the_selected_steps(out, tmp_path):
    script = tmp_path / "a script.py"
    script.write_text(TRAIN + "train(5)\n")
    _, trace = recorded(out, [sys.executable, str(script)], steps=(1, 3, 2))
    spans = table(trace, "span")
    steps = spans.filter(pl.col("level") == "step").sort("ts")
    assert steps["name"].to_list() == ["step 1", "step 3"]
    assert operators(spans)["aten::addmm"] == 4
    optimizers = spans.filter(pl.col("name") == "optimizer").sort("ts")
    assert optimizers["parent_id"].to_list() == steps["span_id"].to_list()


def test_a_module_is_recorded_with_its_phases(out, tmp_path, monkeypatch):
    (tmp_path / "training.py").write_text(TRAIN + "train(2)\n")
    monkeypatch.chdir(tmp_path)
    _, trace = recorded(out, [sys.executable, "-m", "training"])
    spans = table(trace, "span")
    phases = spans.filter(pl.col("level") == "phase").sort("ts")
    assert phases["name"].to_list() == ["forward", "backward", "optimizer"] * 2
    names = dict(spans.select("span_id", "name").rows())
    products = spans.filter(pl.col("name") == "aten::addmm").sort("ts")
    assert [names[parent] for parent in products["parent_id"]] == ["0 (Linear)", "2 (Linear)"] * 2


def test_a_kill_leaves_every_batch_that_was_committed(out):
    source = (
        WRITTEN
        + TRAIN
        + "train(2)\n"
        + "torch.full((7,), 1.0)\n"
        + "wait_until_written()\n"
        + "session()._flushing.acquire()\n"  # from here on nothing is written
        + "train(1)\n"
        + "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done, trace = recorded(out, python(source))
    assert done.end.code == -9
    assert trace.info["ended"] == "signal 9 (SIGKILL)"
    spans = table(trace, "span")
    calls = operators(spans)
    assert (calls["aten::full"], calls["aten::addmm"]) == (1, 4)
    last = spans.filter(pl.col("name") == "aten::full")["span_id"][0]
    touched = table(trace, "touch").filter(pl.col("span_id") == last)
    assert touched["bytes_written"].to_list() == [28]
    known = {"span_id": spans["span_id"].to_list()}
    assert table(trace, "touch").join(pl.DataFrame(known), on="span_id", how="anti").is_empty()
    assert not [reason for reason in losses(trace) if "text" in reason or "ring" in reason]


def test_annotations_and_operators_share_one_tree(out):
    source = TRAIN + "with pasta.annotate('mine'):\n    torch.ones(3)\n"
    _, trace = recorded(out, python(source))
    assert annotations(trace) == ["mine"]
    spans = table(trace, "span")
    mine = spans.filter(pl.col("name") == "mine")["span_id"][0]
    inside = spans.filter(pl.col("parent_id") == mine)
    assert inside["name"].to_list() == ["aten::ones"]
