"""A model trained by DDP over NCCL on two GPUs, or on one that both ranks share, under every level.

It ends, and with the losses that it has without pasta.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

import pasta

RANKS = 2
STEPS = 5
TRAINS = f"""
import os
import torch
import torch.distributed as dist

rank = int(os.environ["LOCAL_RANK"])
gpu = rank % torch.cuda.device_count()
if torch.cuda.device_count() < {RANKS}:
    os.environ["NCCL_HOSTID"] = str(rank)  # of one host it refuses two ranks on one GPU
torch.cuda.set_device(gpu)
torch.manual_seed(rank)
dist.init_process_group("nccl")
layers = [torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 16)]
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers).cuda(), [gpu])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = torch.zeros((), device="cuda")
for step in range({STEPS}):
    optimizer.zero_grad()
    loss = model(torch.randn(32, 256, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    total += loss.detach()
dist.all_reduce(total)
if rank == 0:
    print(f"losses {{total.item():.12g}}", flush=True)
dist.destroy_process_group()
"""
LEVELS = [
    "torch:operators",
    "torch:timeline",
    "cuda:kernels",
    "cuda:calls",
    "cuda.memory:touch",
    "cuda.memory:counts",
    "cuda.memory:access",
    "cuda,cuda.memory:touch,torch",
]

pytestmark = pytest.mark.gpu
pytest.importorskip("torch", reason="PyTorch is not installed")


def losses(folder, *before):
    """What the training prints; `before` goes before its command."""
    (folder / "trains.py").write_text(TRAINS)
    trains = [*("-m", "torch.distributed.run"), "--standalone", f"--nproc-per-node={RANKS}"]
    command = [sys.executable, *before, sys.executable, *trains, folder / "trains.py"]
    command = command if before else command[1:]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith("losses")]


@pytest.fixture(scope="module")
def without_pasta(tmp_path_factory):
    return losses(tmp_path_factory.mktemp("bare"))


@pytest.mark.parametrize("level", LEVELS)
def test_training_ends_with_the_losses_that_it_has_without_pasta(tmp_path, without_pasta, level):
    collect = ["-m", "pasta", "collect", "--with", level, "-o", tmp_path / "t", "--"]
    assert len(without_pasta) == 1
    runs = 2 if "cuda.memory:touch," in level else 1
    assert losses(tmp_path, *collect) == without_pasta * runs
    trace = pasta.open(tmp_path / "t")
    table = "span" if level == "torch:operators" else "kernel"
    ranks = trace.scan(table).select("rank").unique().collect()["rank"]
    assert sorted(ranks) == list(range(RANKS))
    if table == "kernel":
        names = trace.scan("kernel").select("name").unique().collect()["name"]
        assert names.str.contains("nccl").any()
