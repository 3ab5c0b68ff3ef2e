"""Which launches the memory collector watches, and what products of matrices read; with PyTorch on a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import pasta
from pasta.trace import Trace

torch = pytest.importorskip("torch", reason="needs PyTorch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs PyTorch with a GPU"),
]

ADDITIONS = """
import torch
a = torch.zeros(1 << 20, device="cuda")
for step in range(12):
    a.add_(1)
assert a.eq(12).all().item()
"""
IN_TURN = """
import pasta, torch
a = torch.zeros(1 << 20, device="cuda")
for step in range(12):
    if step % 4 == 0:
        pasta.start()
    if step % 4 == 2:
        pasta.stop()
    a.add_(1)
assert a.eq(12).all().item()
"""
QUEUED = """
import torch
a = torch.zeros(1 << 26, device="cuda")
for step in range(400):
    a.add_(1)
assert a.eq(400).all().item()
"""
GRAPH = """
import pasta, torch
a = torch.zeros(1 << 20, device="cuda")
a.add_(1)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    for _ in range(3):
        a.add_(1)
for replay in range(6):
    if replay == 2:
        pasta.start()
    if replay == 4:
        pasta.stop()
    graph.replay()
torch.cuda.synchronize()
assert a.eq(19).all().item()
"""
GRAPHS = """
import pasta, torch
a, b = (torch.zeros(1 << 20, device="cuda") for _ in range(2))
def graph_of(step):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph
first = graph_of(lambda: a.add_(1).add_(1).add_(1))
for turn in range(8):
    if turn in (2, 6):
        pasta.start()
    if turn == 3:
        second = graph_of(lambda: b.mul_(2).add_(1))
    if turn in (4, 7):
        pasta.stop()
    first.replay()
    if turn >= 3:
        second.replay()
    a.add_(1)
torch.cuda.synchronize()
assert a.eq(8 * 4).all().item() and b.eq(2 ** 5 - 1).all().item()
"""
PRODUCT = """
import torch
a, b = (torch.randn(4096, 4096, device="cuda").to(torch.bfloat16) for _ in range(2))
torch.cuda.synchronize()
c = a @ b
torch.cuda.synchronize()
print(a.data_ptr(), b.data_ptr(), c.data_ptr())
"""
PRODUCTS_OF_A_GRAPH = """
import torch
a = torch.randn(4096, 4096, device="cuda").to(torch.bfloat16)
torch.cuda.synchronize()
b = a @ a
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    c = a @ a
    d = c @ a
for _ in range(3):
    graph.replay()
torch.cuda.synchronize()
print(a.data_ptr(), c.data_ptr(), d.data_ptr())
"""
MATRIX = 4096 * 4096 * 2


SWITCHED = "--switch-patches"


def recorded(folder: Path, program: str, *options: str) -> tuple[Trace, str]:
    """The trace of a program that has to end well, and what it printed."""
    script = folder / "program.py"
    script.write_text(program, encoding="utf-8")
    collect = [sys.executable, "-m", "pasta", "collect", *options, "-o", folder / "trace", "--"]
    done = subprocess.run(
        [*collect, sys.executable, script], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return pasta.open(folder / "trace"), done.stdout


def watched(trace: Trace) -> list[int]:
    """Which of the additions were watched, by their order; each read and wrote every element once."""
    kernels = trace.scan("kernel").collect().sort("launch_id")
    name = kernels.group_by("name").len().sort("len").row(-1)[0]
    additions = kernels.filter(name=name)["launch_id"].to_list()
    rows = trace.scan("touch").filter(pl.col("object_id") == 0, pl.col("reads") > 0).collect()
    of_launch = {row[0]: row[1:] for row in rows.select("launch_id", "reads", "writes").rows()}
    found = [order for order, launch in enumerate(additions) if launch in of_launch]
    assert len({of_launch[additions[order]] for order in found}) == 1
    reads, writes = of_launch[additions[found[0]]]
    assert reads == writes
    return found


def test_launches_of_a_range_bear_patches_and_no_others(tmp_path):
    match = ("--match", "CUDAFunctorOnSelf_add|CUDAFunctor_add")
    trace, _ = recorded(
        tmp_path, ADDITIONS, "--with", "cuda.memory:touch", *match, SWITCHED, "--launches", "3:5"
    )
    assert watched(trace) == [3, 4, 5]


def test_patches_come_and_go_while_the_program_runs(tmp_path):
    trace, _ = recorded(tmp_path, IN_TURN, "--with", "cuda.memory:counts", "--idle", SWITCHED)
    assert watched(trace) == [0, 1, 4, 5, 8, 9]


def test_instructions_are_where_they_are_without_a_range(tmp_path):
    match = ("--match", "CUDAFunctorOnSelf_add|CUDAFunctor_add", "--instructions")
    found = []
    for name, options in (("all", ()), ("range", ("--launches", "3:5", SWITCHED))):
        folder = tmp_path / name
        folder.mkdir()
        trace, _ = recorded(folder, ADDITIONS, "--with", "cuda.memory:counts", *match, *options)
        rows = trace.scan("touch").filter(pl.col("pc").is_not_null()).collect()
        assert rows["launch_id"].n_unique() == (12 if name == "all" else 3)
        found.append(rows.select("pc", "reads", "writes").unique().sort("pc", "reads").rows())
    assert found[0] == found[1]
    assert max(pc for pc, _, _ in found[0]) < 1 << 16


def test_patches_go_while_watched_launches_are_still_queued(tmp_path):
    match = ("--match", "CUDAFunctorOnSelf_add|CUDAFunctor_add")
    trace, _ = recorded(
        tmp_path, QUEUED, "--with", "cuda.memory:touch", *match, SWITCHED, "--launches", "0:199"
    )
    assert watched(trace) == list(range(200))


def test_graphs_are_watched_where_patches_stay(tmp_path):
    trace, _ = recorded(tmp_path, GRAPH, "--with", "cuda.memory:counts", "--idle")
    kernels = trace.scan("kernel").filter(pl.col("name").str.contains("CUDA graph")).collect()
    launches = kernels.sort("launch_id")["launch_id"].to_list()
    assert len(launches) == 6
    rows = trace.scan("touch").filter(
        pl.col("launch_id").is_in(launches), pl.col("object_id") == 0, pl.col("reads") > 0
    )
    found = rows.select("launch_id", "reads", "writes").sort("launch_id").collect()
    assert found["launch_id"].to_list() == launches[2:4]
    assert found["reads"].n_unique() == found["writes"].n_unique() == 1
    assert found["reads"].equals(found["writes"])


def replays(trace: Trace) -> dict[str, dict[int, tuple[int, int, int]]]:
    """By kernel, which of its launches were watched, by their order, and what each did."""
    kernels = trace.scan("kernel").collect().sort("launch_id")
    rows = trace.scan("touch").filter(pl.col("object_id") == 0, pl.col("block").is_null())
    columns = ("launch_id", "reads", "writes", "unique_bytes")
    did = {row[0]: row[1:] for row in rows.filter(space="global").select(columns).collect().rows()}
    found: dict[str, dict[int, tuple[int, int, int]]] = {}
    for (name,), launches in kernels.group_by("name", maintain_order=True):
        of_launch = enumerate(launches["launch_id"])
        found[str(name)] = {order: did[launch] for order, launch in of_launch if launch in did}
    return found


def test_graphs_of_before_and_while_launches_are_watched_live_with_switched_patches(tmp_path):
    found = {}
    for name, options in (("switched", [SWITCHED]), ("stay", [])):
        folder = tmp_path / name
        folder.mkdir()
        trace, _ = recorded(folder, GRAPHS, "--with", "cuda.memory:counts", "--idle", *options)
        found[name] = replays(trace)
        losses = dict(trace.losses().select("reason", "count").rows())
        assert not any("another thread" in reason for reason in losses)
    assert found["switched"] == found["stay"]
    first, second = (found["switched"][f"CUDA graph of {count} kernels"] for count in (3, 2))
    assert list(first) == [2, 3, 6]
    assert list(second) == [0, 3]  # of turns 3 to 7
    alone = next(did for name, did in found["switched"].items() if "add" in name and did)
    assert list(alone) == [2, 3, 6]
    reads, writes, unique = alone[2]
    assert set(alone.values()) == {(reads, writes, unique)} == {(reads, reads, 4 << 20)}
    assert set(first.values()) == {(3 * reads, 3 * reads, unique)}
    assert len(set(second.values())) == 1


def test_a_graph_of_before_is_watched_under_switched_patches(tmp_path):
    trace, _ = recorded(tmp_path, GRAPH, "--with", "cuda.memory:counts", "--idle", SWITCHED)
    found = replays(trace)["CUDA graph of 3 kernels"]
    assert list(found) == [2, 3]
    assert len(set(found.values())) == 1


def of_last_launch(trace: Trace, told: str) -> list[dict[str, int | None]]:
    """What the last launch touched of the allocations at the addresses that the program printed."""
    last = trace.scan("kernel").collect().sort("launch_id").row(-1, named=True)
    allocations = trace.scan("memory").filter(pl.col("event") == "allocate").collect()
    rows = trace.scan("touch").filter(
        pl.col("launch_id") == last["launch_id"], pl.col("block").is_null()
    )
    touched = {row["object_id"]: row for row in rows.collect().rows(named=True)}
    addresses = dict(allocations.select("address", "object_id").rows())
    return [touched[addresses[int(address)]] for address in told.split()]


@pytest.mark.parametrize("level", ["touch", "counts"])
def test_a_product_of_matrices_reads_both_and_writes_its_own(tmp_path, level):
    watched = ("--with", f"cuda.memory:{level}", "--tensor-loads", "watched")
    trace, told = recorded(tmp_path, PRODUCT, *watched)
    losses = dict(trace.losses().select("reason", "count").rows())
    if any(reason.startswith("Compute Sanitizer: patch:") for reason in losses):
        pytest.skip("this Compute Sanitizer does not see tensor copies")
    assert not any("tensor copies" in reason for reason in losses)
    of_first, of_second, of_result = of_last_launch(trace, told)
    assert (of_first["unique_read"], of_second["unique_read"]) == (MATRIX, MATRIX)
    assert of_result["unique_written"] <= MATRIX  # tensor copies to memory are not seen


def test_a_product_of_matrices_touches_what_its_tensor_maps_span(tmp_path):
    trace, told = recorded(tmp_path, PRODUCT, "--with", "cuda.memory:touch")
    losses = dict(trace.losses().select("reason", "count").rows())
    assert sum(n for reason, n in losses.items() if "told by the tensor maps" in reason) == 1
    *read, written = (row["unique_bytes"] for row in of_last_launch(trace, told))
    assert read == [MATRIX] * 2
    assert MATRIX <= written <= MATRIX + 4096  # its allocation may have counters of the kernel, too


def test_a_graph_touches_what_the_tensor_maps_of_its_kernels_span(tmp_path):
    trace, told = recorded(tmp_path, PRODUCTS_OF_A_GRAPH, "--with", "cuda.memory:touch")
    losses = dict(trace.losses().select("reason", "count").rows())
    assert sum(n for reason, n in losses.items() if "told by the tensor maps" in reason) == 1 + 3
    assert not any("no tensor map among" in reason for reason in losses)
    read, *written = (row["unique_bytes"] for row in of_last_launch(trace, told))
    assert read == MATRIX
    assert 2 * MATRIX <= sum(written) <= 2 * MATRIX + 8192
