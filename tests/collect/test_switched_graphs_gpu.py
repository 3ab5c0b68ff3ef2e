"""CUDA graphs under `--switch-patches`: made before, while and after launches are watched; on a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import pasta
from pasta.collect.toolkits import find_nvcc

SOURCE = Path(__file__).with_name("switched_graphs.cu")
ALL = 512
KERNELS = [1, 2, 1, 3, 1, 2, 3, 1, 2, 3, 2]
"""How many kernels each launch has: more than one has a graph."""

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    nvcc = find_nvcc()
    if nvcc is None or not Path("/dev/nvidiactl").exists():
        pytest.skip("there is no nvcc, or no NVIDIA GPU")
    made = tmp_path_factory.mktemp("graphs") / "switched_graphs"
    subprocess.run([nvcc, "-std=c++17", "-arch=native", "-o", made, SOURCE], check=True)
    return made


@pytest.mark.parametrize("level", ["touch", "counts"])
@pytest.mark.parametrize(
    ("first", "last"), [(0, 0), (0, 1), (1, 2), (3, 3), (5, 6), (4, 7), (10, 10), (0, 10), (50, 60)]
)
def test_launches_of_a_range_have_their_counts_and_others_none(
    program, tmp_path, first, last, level
):
    only = ["--switch-patches", "--launches", f"{first}:{last}"]
    collect = [
        "-m",
        "pasta",
        "collect",
        "--with",
        f"cuda.memory:{level}",
        *only,
        "-o",
        tmp_path / "t",
    ]
    command = [sys.executable, *collect, "--", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["right 1"]), done.stderr
    trace = pasta.open(tmp_path / "t")
    kernels = trace.scan("kernel").collect().sort("launch_id")
    names = ["add_one" if count == 1 else f"CUDA graph of {count} kernels" for count in KERNELS]
    assert kernels["name"].to_list() == names
    order = {launch: at for at, launch in enumerate(kernels["launch_id"])}
    found = {}
    if trace.files("touch"):
        rows = trace.scan("touch").filter(pl.col("object_id") == 0, space="global").collect()
        columns = ("launch_id", "reads", "writes", "unique_bytes")
        found = {order[row[0]]: row[1:] for row in rows.select(columns).rows()}
    watched = range(first, min(last + 1, len(KERNELS)))
    assert found == {at: (KERNELS[at] * ALL, KERNELS[at] * ALL, 4 * ALL) for at in watched}
    losses = dict(trace.losses().select("reason", "count").rows())
    left_out = [count for reason, count in losses.items() if "the selection leaves out" in reason]
    assert sum(left_out) == len(KERNELS) - len(watched)
    assert not any("another thread" in reason for reason in losses)
