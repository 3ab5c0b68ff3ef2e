"""The memory collector on a GPU of compute capability 9.0: kernels of known counts, at each level."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

import pasta
from pasta.collect.toolkits import find_nvcc

SOURCE = Path(__file__).with_name("memory_kernels.cu")
WATCHED = "touch --tensor-loads watched"
LEVELS = ["touch", WATCHED, "counts", "access"]
COUNTS = ["reads", "writes", "atomics"]
BYTES = ["bytes_read", "bytes_written"]
UNIQUE = ["unique_read", "unique_written", "unique_bytes"]
ALL = 512  # threads of a launch, accesses of one instruction

pytestmark = pytest.mark.gpu


class Did(NamedTuple):
    """What a kernel does in global memory: counts, bytes, and what it reads and writes of `a` and `c`."""

    counts: tuple[int, int, int]
    bytes: tuple[int, int]
    a: tuple[int, int, int] | None = None  # unique bytes read, written, either
    c: tuple[int, int, int] | None = None


def copies(size: int, count: int = ALL) -> Did:
    moved = size * count
    unique = -(-moved // 512) * 512
    return Did((count, count, 0), (moved, moved), (unique, 0, unique), (0, unique, unique))


WRITES = Did((0, ALL, 0), (0, 2048), None, (0, 2048, 2048))
KINDS = {
    "copy_1": copies(1),
    "copy_2": copies(2),
    "copy_4": copies(4),
    "copy_8": copies(8),
    "copy_16": copies(16),
    "predicated": copies(4, 300),
    "exchange": Did((0, ALL, ALL), (2048, 4096), (2048, 2048, 2048), (0, 2048, 2048)),
    "reduce": Did((0, 0, ALL), (2048, 2048), None, (2048, 2048, 2048)),
    "generic": Did((256, ALL, 0), (1024, 2048), (2048, 0, 2048), (0, 2048, 2048)),
    "shared_memory": WRITES,
    "local_memory": copies(4),
    "async_copy": copies(16),
    "bulk_load": Did((4, ALL, 0), (2048, 2048), (2048, 0, 2048), (0, 2048, 2048)),
    "bulk_store": Did((0, 4, 0), (0, 2048), None, (0, 2048, 2048)),
    "bulk_reduce": Did((0, 0, 4), (2048, 2048), None, (2048, 2048, 2048)),
    "tensor_load": Did((4, ALL, 0), (2048, 2048), (2048, 0, 2048), (0, 2048, 2048)),
    "tensor_load_again": Did((40, ALL, 0), (18_432, 2048), (2048, 0, 2048), (0, 2048, 2048)),
    "tensor_store": Did((0, 0, 0), (0, 0)),  # not seen
    "remote_load": WRITES,
    "async_store": WRITES,
    "matrix_load": WRITES,
    "prefetch": WRITES,  # counts as no read
    "texture": WRITES,  # its reads are not seen
    "constant": WRITES,  # its reads are not seen
}
MAPPED = {
    "tensor_load": Did((0, ALL, 0), (0, 2048), (2048, 0, 2048), (0, 2048, 2048)),
    "tensor_load_again": Did((0, ALL, 0), (0, 2048), (2048, 0, 2048), (0, 2048, 2048)),
    "tensor_store": Did((0, 0, 0), (0, 0), None, (0, 2048, 2048)),
}
"""What is told of kernels whose tensor copies are not watched, by the map that each is given."""

NEAR = {
    ("generic", "shared"): (256, ALL, 0),
    ("shared_memory", "shared"): (ALL, ALL, 0),
    ("local_memory", "local"): (ALL, ALL, 0),
    ("async_copy", "shared"): (ALL, ALL, 0),
    ("remote_load", "shared"): (0, ALL, 0),
    ("remote_load", "remote_shared"): (ALL, 0, 0),
    ("async_store", "remote_shared"): (0, ALL, 0),
    ("matrix_load", "shared"): (ALL, ALL, 0),
}
SIZES = {"copy_1": 1, "copy_2": 2, "copy_8": 8, "copy_16": 16, "predicated": 4, "async_copy": 16}


class Run(NamedTuple):
    level: str
    told: list[str]
    folder: Path
    kernels: pl.DataFrame
    touch: pl.DataFrame  # with the launch's name and grid; rows of instructions left out
    memory: pl.DataFrame
    losses: dict[str, int]

    def objects(self, name: str) -> list[int]:
        """Return the ids of what the program called so, in order."""
        addresses = [int(line.split()[1]) for line in self.told if line.split()[0] == name]
        allocated = self.memory.filter(
            pl.col("event") == "allocate",
            pl.col("bytes") == ALL * 16,
            pl.col("address").is_in(addresses),
        )
        return allocated.sort("object_id")["object_id"].to_list()

    def did(self, name: str) -> Did:
        """Return what is told of a kernel at this level."""
        return (KINDS | MAPPED if self.level == "touch" else KINDS)[name]

    def of(self, name: str, **columns: Any) -> pl.DataFrame:
        """Return rows of whole objects of launches of a kernel."""
        return self.touch.filter(pl.col("block").is_null(), name=name, **columns)


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    nvcc = find_nvcc()
    if nvcc is None or not Path("/dev/nvidiactl").exists():
        pytest.skip("there is no nvcc, or no NVIDIA GPU")
    asked = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    capability = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
    if capability[:1] != ["9.0"]:
        pytest.skip("the kernels are for compute capability 9.0")
    made = tmp_path_factory.mktemp("memory") / "memory_kernels"
    subprocess.run([nvcc, "-std=c++17", "-arch=sm_90", "-o", made, SOURCE], check=True)
    return made


@pytest.fixture(scope="session", params=LEVELS)
def run(request, program, tmp_path_factory):
    """The program under one level."""
    folder = tmp_path_factory.mktemp(request.param) / "trace"
    level = f"cuda.memory:{request.param}".split()
    what = ["--with", *level, "--all-spaces", "--block", "512"]
    command = [sys.executable, "-m", "pasta", "collect", *what, "-o", folder, "--", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    trace = pasta.open(folder)
    kernels = trace.scan("kernel").collect().sort("launch_id")
    names = kernels.select("launch_id", "name", "grid_x", "graph_id")
    touch = trace.scan("touch").filter(pl.col("pc").is_null()).collect()
    losses = trace.scan("loss").collect() if trace.files("loss") else None
    told = {} if losses is None else dict(losses.select("reason", "count").rows())
    memory = trace.scan("memory").collect()
    touch = touch.join(names, on="launch_id", how="left")
    return Run(request.param, done.stdout.splitlines(), folder, kernels, touch, memory, told)


def test_results_are_right_and_every_launch_is_there_once(run):
    assert run.told[-1] == "right 1"
    launches = run.kernels.filter(grid_x=4).group_by("name").len().sort("name")
    expected = dict.fromkeys(KINDS, 1) | {"fill": 6, "waits_for_host": 1}
    expected |= {"of_threads": 200, "of_lives": 6, "CUDA graph of 3 kernels": 3}
    assert dict(launches.rows()) == expected
    assert run.kernels.filter(name="copy_4", grid_x=1).height == 300
    assert run.kernels["launch_id"].to_list() == list(range(1, run.kernels.height + 1))


def test_nothing_is_lost_but_what_is_said(run):
    found = sorted(
        (reason.partition(":")[0].partition(" (")[0], n) for reason, n in run.losses.items()
    )
    mapped = [("launches whose tensor copies", len(MAPPED))] if run.level == "touch" else []
    assert found == [("kernels of CUDA graphs", 9), *mapped]


@pytest.mark.parametrize("name", KINDS)
def test_a_kernel_has_its_counts_and_bytes(run, name):
    rows = run.of(name, space="global", grid_x=4)
    did = run.did(name)
    assert rows.select(COUNTS + BYTES).rows() == [did.counts + did.bytes]
    read, written, either = rows.select(UNIQUE).row(0)
    objects = [unique for unique in (did.a, did.c) if unique]
    assert read == sum(unique[0] for unique in objects)
    assert written == sum(unique[1] for unique in objects)
    assert either == sum(unique[2] for unique in objects)


@pytest.mark.parametrize("name", KINDS)
def test_a_kernel_touches_its_objects_and_no_other(run, name):
    rows = run.of(name, space="device", grid_x=4).sort("object_id")
    expected = []
    for place in ("a", "c"):
        unique = getattr(run.did(name), place)
        if unique:
            expected.append((*run.objects(place), 512, *unique))
    assert rows.select("object_id", "granularity", *UNIQUE).rows() == expected
    assert run.of(name, space="unknown").is_empty()
    sums = rows.select(pl.col(COUNTS).sum()).row(0)
    whole = (0, 0, 0) if run.level in ("touch", WATCHED) else KINDS[name].counts
    assert sums == whole


@pytest.mark.parametrize(("name", "space"), NEAR)
def test_other_spaces_are_counted(run, name, space):
    rows = run.of(name, space=space)
    assert rows.select(COUNTS).rows() == [NEAR[name, space]]
    assert rows.select(UNIQUE).rows() == [(None, None, None)]


@pytest.mark.parametrize("name", SIZES)
def test_accesses_are_counted_by_size(run, name):
    launch = run.kernels.filter(name=name, grid_x=4)["launch_id"].item()
    metrics = pasta.open(run.folder).scan("metric").filter(launch_id=launch).collect()
    told = dict(
        metrics.filter(pl.col("name").str.starts_with("global_")).select("name", "value").rows()
    )
    reads, writes, _ = KINDS[name].counts
    assert told == {f"global_reads_{SIZES[name]}": reads, f"global_writes_{SIZES[name]}": writes}


@pytest.mark.parametrize("space", ["managed", "pinned", "pool"])
def test_memory_of_every_kind_is_an_object_of_its_space(run, space):
    rows = run.of("fill", space=space)
    expected = (*run.objects(space), 0, 2048, 2048)
    assert rows.select("object_id", *UNIQUE).rows() == [expected]


def test_an_address_that_is_used_again_is_another_object(run):
    objects = run.objects("reused")
    assert len(objects) == 3
    rows = run.of("fill", space="device").sort("launch_id")
    expected = [(each, 0, 2048, 2048) for each in objects]
    assert rows.select("object_id", *UNIQUE).rows() == expected


def test_a_graph_counts_as_a_whole_each_time_it_is_launched(run):
    launches = run.of("CUDA graph of 3 kernels", space="global").sort("launch_id")
    assert launches.select(COUNTS).rows() == [(3 * ALL, 3 * ALL, 0)] * 3
    assert launches["graph_id"].n_unique() == 1
    touched = run.of("CUDA graph of 3 kernels", space="device").sort("launch_id", "object_id")
    a, c, d = (run.objects(name)[0] for name in "acd")
    assert touched["object_id"].to_list() == [a, c, a, c, a, d]  # the last one was updated


def test_a_kernel_that_waits_for_the_host_does_not_hold_the_others_up(run):
    waiting = run.of("waits_for_host", space="global")
    assert waiting["writes"].to_list() == [ALL]
    assert waiting["reads"].item() >= 4
    others = run.of("copy_4", space="global", grid_x=1)
    assert others.select(COUNTS).rows() == [(128, 128, 0)] * 300


def test_a_stream_that_gets_the_handle_of_another_is_another(run):
    launches = run.kernels.filter(name="of_lives").sort("launch_id")
    assert launches["stream"].value_counts()["count"].to_list() == [2] * 3


def test_threads_launch_beside_each_other(run):
    rows = run.of("of_threads", space="global")
    assert rows.select(COUNTS + UNIQUE).rows() == [(ALL, ALL, 0, 2048, 2048, 4096)] * 200
    objects = run.of("of_threads", space="device")
    assert objects.group_by("object_id").len()["len"].to_list() == [50] * 4
    launches = run.kernels.filter(name="of_threads")
    assert launches.group_by("stream").len()["len"].to_list() == [50] * 4
    calls = pasta.open(run.folder).scan("call").collect()
    assert calls["correlation"].sort().to_list() == launches_of(run)
    of_threads = calls.filter(pl.col("correlation").is_in(launches["correlation"].to_list()))
    assert of_threads.group_by("tid").len()["len"].to_list() == [50] * 4


def launches_of(run: Run) -> list[int]:
    return run.kernels["correlation"].sort().to_list()


def test_blocks_have_the_counts_of_their_objects(run):
    blocks = run.touch.filter(pl.col("block").is_not_null())
    if run.level in ("touch", WATCHED):
        assert blocks.is_empty()
        return
    [c] = run.objects("c")
    mine = blocks.filter(name="copy_4", grid_x=4, object_id=c).sort("block")
    assert mine.select("block", "granularity", *COUNTS).rows() == [
        (block, 512, 0, 128, 0) for block in range(4)
    ]
    by = ["launch_id", "space", "object_id"]
    whole = run.touch.filter(pl.col("block").is_null(), pl.col("object_id") > 0).select(
        *by, *COUNTS
    )
    sums = blocks.group_by(by).agg(pl.col(COUNTS).sum())
    assert sums.sort(by).equals(whole.sort(by))


def test_touch_computed_from_raw_accesses_is_touch_of_the_gpu(run):
    if run.level != "access":
        pytest.skip("this level has no raw accesses")
    command = [sys.executable, "-m", "pasta", "run", "touch_from_access", "--trace", run.folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = re.search(r"of ([\d,]+) rows ([\d,]+) are recorded as they are computed", done.stdout)
    assert said is not None, done.stdout
    assert said[1] == said[2], done.stdout
    assert int(said[1].replace(",", "")) > 1000
    assert re.search(r"only recorded +0 *\n *only computed +0 *\n", done.stdout), done.stdout


def test_raw_accesses_are_each_threads(run):
    if run.level != "access":
        pytest.skip("this level has no raw accesses")
    [launch] = run.kernels.filter(name="predicated")["launch_id"]
    accesses = pasta.open(run.folder).scan("access").filter(launch_id=launch).collect()
    [a], [c] = run.objects("a"), run.objects("c")
    begins = {row[0]: row[1] for row in run.memory.select("object_id", "address").rows()}
    told = (
        accesses.select("op", "address", "bytes", "block", "warp", "lane")
        .sort("op", "address")
        .rows()
    )
    expected = [
        (op, begins[which] + 4 * index, 4, index // 128, index % 128 // 32, index % 32)
        for op, which in ((0, a), (1, c))
        for index in range(300)
    ]
    assert told == expected
    assert accesses["pc"].n_unique() == 2
    assert accesses["request"].n_unique() == 2 * 10


def test_patches_go_while_a_kernel_waits_for_the_host(program, tmp_path):
    only = ["--match", "waits_for_host", "--launches", "0:0", "--switch-patches"]
    collect = ["-m", "pasta", "collect", "--with", "cuda.memory:touch", *only, "-o", tmp_path / "t"]
    command = [sys.executable, *collect, "--", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "right 1"), done.stderr
    touch = pasta.open(tmp_path / "t").scan("touch").filter(object_id=0, space="global").collect()
    assert touch["launch_id"].n_unique() == 1
    assert touch["writes"].to_list() == [ALL]
