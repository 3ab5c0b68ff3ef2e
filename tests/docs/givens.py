"""What pages take for granted: the traces, profiles and programs that their commands name.

All are made here, small, of the traces that ship and of the seeds of fuzzing, once a session; a
page gets what its commands read, by name. Its own `yaml` blocks serve as the files they stand for.
"""

from __future__ import annotations

import gzip
import io
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from random import Random

from pasta import api
from pasta.testing import write_trace
from pasta.tools.shipped import SHIPPED_TRACE
from tests.docs.pages import Block
from tests.fuzz.seeds import SEEDS
from tests.fuzz.seeds.pytorch import execution_twin
from tests.tools.test_overhead import METRICS
from tests.tools.test_scaling import a_run, span
from tests.tools.warps import BASE, KERNELS, request, row_of
from tests.trace_join.two_runs import memory_run, program, timeline_run

CPU_TRACE = SHIPPED_TRACE.parent / "gpt_cpu"

PROGRAM = """
import pasta
try:
    import torch
except ImportError:
    torch = None
for number in range(6):
    pasta.step()
    with pasta.annotate("forward"):
        if torch is not None:
            weight = torch.ones(64, 64, requires_grad=True)
            torch.mm(weight, weight).sum().backward()
"""


def seed(importer: str, number: int = 0) -> bytes:
    """Return a small valid file of a format."""
    (data,) = SEEDS[importer]()[number].files.values()
    return data


def raw_accesses(folder: Path) -> None:
    """Write a trace of raw accesses: three launches of warps that read and write two buffers."""
    rows: list[dict[str, object]] = []
    for launch in (1, 2, 3):
        for number in range(8):
            start = BASE + 4096 * (number % 4) + 128 * launch
            stride = 4 if number % 2 else 64
            rows += request(
                number,
                row_of(start, stride=stride),
                launch=launch,
                op=number % 2,
                pc=16 * number,
                warp=number % 4,
                block=number % 2,
            )
    own = {"tid": 1, "ts": 0, "event": "allocation", "space": "device", "device": 0}
    memory = [{**own, "object_id": 1, "address": BASE, "bytes": 1 << 15}]
    kernels = [{**row, "block_x": 128, "block_y": 1, "block_z": 1} for row in KERNELS]
    write_trace(folder, access=rows, kernel=kernels, memory=memory)


def rank_profile(rank: int) -> bytes:
    """Return a Kineto file of one of two ranks that meet in twelve collectives."""
    events = []
    for place in range(12):
        common = {"ph": "X", "tid": 7, "ts": 10_000 * place + 500 * rank, "dur": 5_000 - 500 * rank}
        group = {"Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Seq": place}
        details = {"Collective name": "allreduce", "In msg nelems": 8, "dtype": "Float", **group}
        device = {"device": 0, "stream": 7, "correlation": place + 1, "context": 1}
        kernel = {"cat": "kernel", "pid": 0, "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL"}
        events.append({**common, **kernel, "args": {**details, **device}})
    world = {"backend": "nccl", "rank": rank, "world_size": 2}
    return json.dumps(
        {"schemaVersion": 1, "distributedInfo": world, "traceEvents": events}
    ).encode()


def archive(files: dict[str, bytes]) -> bytes:
    """Return a packed archive."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as packed:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            packed.addfile(member, io.BytesIO(data))
    return made.getvalue()


def shipped_profile(path: Path) -> None:
    """Write the shipped trace as PyTorch's profiler would have."""
    plain = path.with_name("profile.json")
    api.export(SHIPPED_TRACE, "chrome", plain)
    path.write_bytes(gzip.compress(plain.read_bytes(), 1))
    plain.unlink()


def timings(folder: Path, workers: int) -> None:
    """Write what workers did when, as `--timings` does."""
    spans = [span("compute", 1000, 80 // workers, worker) for worker in range(workers)]
    a_run(folder, workers, 100 // workers, spans)


def sampled(folder: Path) -> None:
    """Write a trace of samples of call stacks."""
    file = folder.with_name("perf.txt")
    file.write_bytes(seed("perf_script"))
    api.import_files([file], folder)


Maker = Callable[[Path], object]


def _text(data: bytes | str) -> Maker:
    return lambda path: path.write_bytes(data if isinstance(data, bytes) else data.encode())


def _trace(source: Path) -> Maker:
    return lambda path: path.symlink_to(source, target_is_directory=True)


def _folder_of_rocprofv3(path: Path) -> None:
    path.mkdir()
    for name, data in SEEDS["rocprofv3_csv"]()[-1].files.items():
        (path / name.replace("77_", "908_")).write_bytes(data)


_TWIN = execution_twin()
_EXECUTION = seed("torch_execution")
_ROW = "gemm,{},{},0,{}\n"
GIVEN: dict[str, Maker] = {
    **dict.fromkeys(("t", "t1", "TRACE", "run", "many", "a", "d", "p", "main", "branch"), _trace(SHIPPED_TRACE)),
    **dict.fromkeys(("t2", "b"), _trace(CPU_TRACE)),
    **dict.fromkeys(("operators", "touch"), lambda folder: write_trace(folder, metric=METRICS)),
    "TIMELINE": lambda folder: timeline_run(folder, program(Random(1))),
    "MEMORY": lambda folder: memory_run(folder, program(Random(1))),
    **dict.fromkeys(("resnet18", "resnet18-train"), _trace(CPU_TRACE)),
    "one": lambda folder: timings(folder, 1),
    "two": lambda folder: timings(folder, 2),
    **dict.fromkeys(("h100.json.gz", "mi300.json.gz"), _text(gzip.compress(seed("kineto")))),
    "train.py": _text(PROGRAM),
    "profile.json.gz": shipped_profile,
    "rank0.json.gz": _text(gzip.compress(rank_profile(0))),
    "rank1.json.gz": _text(gzip.compress(rank_profile(1))),
    "a.json": _text(rank_profile(0)),
    "b.json": _text(rank_profile(1)),
    "all_ranks.tar.gz": _text(archive({f"rank{n}.json": rank_profile(n) for n in (0, 1)})),
    "kineto.json": _text(_TWIN),
    "execution_trace.json": _text(_EXECUTION),
    "kineto_of_all_ranks.tar.gz": _text(archive({"rank0.json": _TWIN})),
    "execution_traces_of_all_ranks.tar.gz": _text(archive({"rank0.json": _EXECUTION})),
    "snapshot.pickle": _text(seed("torch_memory", 2)),
    "timeline.raw.json.gz": _text(gzip.compress(seed("torch_memory_timeline"))),
    "samples.txt": _text(seed("perf_script")),
    "perf.txt": _text(seed("perf_script")),
    "counters.csv": _text(seed("ncu_csv")),
    "908_results.json": _text(seed("rocprofv3_json")),
    "host": _folder_of_rocprofv3,
    "launches.csv": _text("kernel,start,stop,gpu,id\n" + "".join(_ROW.format(9 * n, 9 * n + 5, n) for n in (1, 2, 3))),
}  # fmt: skip
"""By the name that commands have for it, whatever the page."""

_ACCESSES = ("block_balance", "coalescing", "mem_trace", "reuse", "reuse_pairs", "sector_heatmap")
GIVEN_TO: dict[tuple[str, str], Maker] = {
    **{(f"docs/tools/{tool}.md", "t"): raw_accesses for tool in (*_ACCESSES, "touch_from_access")},
    ("docs/tools/samples.md", "t"): sampled,
    ("docs/reports.md", "t"): raw_accesses,
}
"""By page and name, where the page says more of it."""


class Givens:
    """Gives a page what its commands read, in the folder where they run."""

    def __init__(self, page: str, blocks: list[Block], folder: Path) -> None:
        self._page = page
        self._folder = folder
        yaml = [block for block in blocks if block.language == "yaml"]
        self._yaml = "\n".join(yaml[0].lines) + "\n" if yaml else ""

    def provide(self, words: list[str]) -> None:
        """Make what the words of a command name and is not there yet."""
        for word in words:
            for name in self._names(word.rpartition("=")[2]):
                maker = self._maker(name)
                if maker is not None and not (self._folder / name).exists():
                    maker(self._folder / name)

    def _names(self, word: str) -> list[str]:
        """Return the given names that a word means: a pattern means several."""
        if "*" in word and " " not in word:
            return [name for name in GIVEN if Path(name).match(word)] + word.split("/")[:1]
        return [word.partition("/")[0] if "/" in word else word]

    def _maker(self, name: str) -> Maker | None:
        if name.endswith(".yaml") and self._yaml:
            return _text(self._yaml)
        return GIVEN_TO.get((self._page, name)) or GIVEN.get(name)

    def clear(self, output: str) -> None:
        """Remove what a command is about to write: pages list alternatives under one name."""
        path = self._folder / output
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif path.is_dir():
            shutil.rmtree(path)
