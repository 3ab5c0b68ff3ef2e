"""Call stacks of launches on a GPU: native ones in both kinds of run, below Python's."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

import pasta
from pasta.collect.toolkits import find_nvcc

SOURCE = Path(__file__).with_name("cuda_programs") / "stacks.cu"
TRAINS = """
import torch

def forward(a):
    return torch.nn.functional.relu(a)

forward(torch.ones(64, device="cuda"))
torch.cuda.synchronize()
"""

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="there is no NVIDIA GPU"),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    nvcc = find_nvcc()
    if nvcc is None:
        pytest.skip("there is no nvcc")
    made = tmp_path_factory.mktemp("programs") / "stacks"
    subprocess.run([nvcc, "-std=c++17", "-arch=native", "-o", made, SOURCE], check=True)
    return made


def recorded(folder, what, *command):
    collect = [sys.executable, "-m", "pasta", "collect", "--with", what, "--stacks"]
    done = subprocess.run(
        [*collect, "-o", folder, "--", *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return pasta.open(folder)


def launches(trace):
    """The functions of each launch's stack, outermost first."""
    calls = trace.scan("call").collect().filter(pl.col("name").str.contains("Launch")).sort("ts")
    frames = trace.scan("frame").collect().filter(language="c++").sort("depth")
    inside = "^libcuda[.]so|^libcupti|^libsanitizer|^cuda_(activity|memory)"
    assert not frames["library"].str.contains(inside).any()
    assert (calls["stack_id"] > 0).all()
    return [
        frames.filter(stack_id=stack_id)["function"].to_list() for stack_id in calls["stack_id"]
    ]


@pytest.mark.parametrize("what", ["cuda:kernels", "cuda:calls", "cuda.memory"])
def test_launches_have_the_functions_that_lead_to_them(tmp_path, program, what):
    stacks = launches(recorded(tmp_path / "t", what, program))
    ways = Counter(
        tuple(name for name in stack if name == "main" or name.startswith("places::"))
        for stack in stacks
    )
    first = ("main", "places::First::run(float*)", "places::launch(float*)")
    second = ("main", "places::second(float*)", "places::launch(float*)")
    assert ways.keys() == {first, second}
    assert ways[first] == ways[second] >= 2


@pytest.mark.parametrize("what", ["cuda:calls,torch:operators", "cuda.memory:counts,torch"])
def test_a_launch_in_pytorch_has_both_stacks(tmp_path, what):
    pytest.importorskip("torch", reason="needs PyTorch")
    trace = recorded(tmp_path / "t", what, sys.executable, "-c", TRAINS)
    report = pasta.run("launches", trace=trace, out=tmp_path / "o")
    assert report.findings
    rows = pl.concat(map(pl.read_parquet, (tmp_path / "o").rglob("launches*.parquet")))
    (launch,) = rows.filter(pl.col("operator").str.contains("relu|clamp_min")).to_dicts()
    frames = trace.scan("frame").collect().sort("depth")
    python = frames.filter(stack_id=launch["operator_stack"])["function"].to_list()
    native = frames.filter(stack_id=launch["stack_id"])["function"].to_list()
    assert python[-2:] == ["forward", "relu"]
    assert any("at::" in name for name in native)
