"""Every real trace there is imports, with the rows that its origin says it has."""

from __future__ import annotations

import gzip
import json
import pickle
import sqlite3
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pasta.collect.importing import import_trace
from pasta.errors import InputError

CATEGORIES = {
    "cpu_op": "span", "Operator": "span", "user_annotation": "span", "python_function": "span",
    "cuda_runtime": "call", "cuda_driver": "call", "mtia_runtime": "call", "Runtime": "call",
    "kernel": "kernel", "Kernel": "kernel",
    "gpu_memcpy": "copy", "gpu_memset": "copy", "Memcpy": "copy", "Memset": "copy",
    "cuda_sync": "sync",
}  # fmt: skip
Rows = dict[str, int]


def documents(path: Path) -> Iterator[Any]:
    """Yield what a JSON file, or each in an archive, holds."""
    if path.name.endswith(".tar.gz"):
        with tarfile.open(path) as archive:
            files = [archive.extractfile(member) for member in archive if member.isfile()]
            yield from (json.load(file) for file in files if file is not None)
        return
    data = path.read_bytes()
    yield json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


def kineto(path: Path) -> Rows:
    counts: Counter[str] = Counter()
    for document in documents(path):
        events = document if isinstance(document, list) else document["traceEvents"]
        complete = [event for event in events if event.get("ph") == "X"]
        counts.update(CATEGORIES[e["cat"]] for e in complete if e.get("cat") in CATEGORIES)
        counts.update("memory" for event in events if event.get("name") == "[memory]")
    return dict(counts)


def sqlite(tables: dict[str, list[str]]) -> Callable[[Path], Rows]:
    """Return a count of rows: table of the trace -> tables of the file, those that it has."""

    def count(path: Path) -> Rows:
        connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
        there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        found = {
            table: sum(
                connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]
                for name in names
                if name in there
            )
            for table, names in tables.items()
        }
        connection.close()
        return {table: rows for table, rows in found.items() if rows}

    return count


ACTIVITY = "CUPTI_ACTIVITY_KIND_"
nsys = sqlite(
    {
        "kernel": [f"{ACTIVITY}KERNEL"],
        "copy": [f"{ACTIVITY}MEMCPY", f"{ACTIVITY}MEMSET"],
        "call": [f"{ACTIVITY}RUNTIME"],
        "span": ["NVTX_EVENTS", "OSRT_API"],
    }
)


def rocprofv3(path: Path) -> Rows:
    (document,) = documents(path)
    (tool,) = document["rocprofiler-sdk-tool"]
    return {"kernel": len(tool["buffer_records"]["kernel_dispatch"])}


class Refusing(pickle.Unpickler):
    """Reads plain data only."""

    def find_class(self, module: str, name: str) -> Any:
        raise AssertionError(f"{module}.{name}")


def snapshot(path: Path) -> Rows:
    """Allocations and releases of the history, and what was live before it."""
    with path.open("rb") as stream:
        document = Refusing(stream).load()
    actions = Counter(entry["action"] for trace in document["device_traces"] for entry in trace)
    blocks = [block for segment in document["segments"] for block in segment["blocks"]]
    live = sum(block["state"] == "active_allocated" for block in blocks)
    before = live - actions["alloc"] + actions["free_requested"] + len(document["segments"])
    return {"device": 1, "memory": actions["alloc"] + actions["free_requested"] + before}


def memory_timeline(path: Path) -> Rows:
    preexisting, create, destroy = 1, 2, 4
    (entries,) = documents(path)
    kinds = Counter(action for _, action, _, _ in entries)
    return {"memory": kinds[preexisting] + kinds[create] + kinds[destroy]}


def triton_log(path: Path) -> Rows:
    """Compilations and the parts of them that took time."""
    times = [json.loads(line)["payload"]["times"] for line in path.read_text().splitlines()]
    parts = sum(len(t["lowering_stages"]) + (t["ir_initialization"] > 0) for t in times)
    return {"span": len(times) + parts}


def aiu(path: Path) -> Rows:
    (document,) = documents(path)
    begun = [event for event in document if event["ph"] == "B"]
    copies = sum(event["name"].endswith(("DmaI", "DmaO")) for event in begun)
    return {"kernel": len(begun) - copies, "copy": copies}


COUNTS: dict[str, Callable[[Path], Rows]] = {
    "kineto/*": kineto,
    "kineto_multirank/hta_*": kineto,
    "kineto_multirank/*_kineto.tar.gz": kineto,
    "nsys_sqlite/*": nsys,
    "rocprofv3/*": rocprofv3,
    "rpd/*": sqlite({"kernel": ["rocpd_kernelapi"], "call": ["rocpd_api"]}),
    "rocprof_compute/*.csv": lambda path: {"kernel": len(path.read_text().splitlines()) - 1},
    "torch_memory/*.pickle": snapshot,
    "torch_memory/*.raw.gz": memory_timeline,
    "triton/*": triton_log,
    "other/*": aiu,
}
"""How many rows each file gives, counted without pasta."""
REFUSED = {"kineto_multirank/*_et.tar.gz": "which has no times; give the Kineto file"}
OTHERWISE = {"rocprof_compute/*.db"}
"""A database of counters, no timeline: `test_counters_without_a_timeline`."""


def files(samples: Path) -> list[str]:
    found = (path for path in samples.rglob("*") if path.is_file() and path.name != "README.md")
    return sorted(str(path.relative_to(samples)) for path in found if path.parent.name != "golden")


def fitting(name: str, patterns: Any) -> list[str]:
    return [pattern for pattern in patterns if Path(name).match(pattern)]


def test_every_file_is_looked_at(samples: Path) -> None:
    for name in files(samples):
        assert len(fitting(name, [*COUNTS, *REFUSED, *OTHERWISE])) == 1, name


@pytest.mark.parametrize("pattern", list(COUNTS))
def test_files_import_with_the_rows_that_they_hold(
    samples: Path, pattern: str, tmp_path: Path
) -> None:
    chosen = [name for name in files(samples) if fitting(name, [pattern])]
    assert chosen
    for name in chosen:
        report = import_trace([samples / name], tmp_path / name.replace("/", "-"))
        expected = COUNTS[pattern](samples / name)
        assert {table: report.rows.get(table, 0) for table in expected} == expected, name
        assert sum(expected.values()) > 0, name


@pytest.mark.parametrize("pattern", list(REFUSED))
def test_files_that_are_no_timeline_are_told_why(
    samples: Path, pattern: str, tmp_path: Path
) -> None:
    for name in files(samples):
        if fitting(name, [pattern]):
            with pytest.raises(InputError, match=REFUSED[pattern]):
                import_trace([samples / name], tmp_path / "t")


def test_counters_without_a_timeline(samples: Path, tmp_path: Path) -> None:
    report = import_trace([samples / "rocprof_compute/roc_optiq_23ed6f36.db"], tmp_path / "t")
    assert report.rows["metric"] > 0
    assert report.rows["kernel"] > 0


def test_execution_traces_complete_their_twins(samples: Path, tmp_path: Path) -> None:
    folder = samples / "kineto_multirank"
    both = [folder / f"param_dlrm_8rank_{kind}.tar.gz" for kind in ("et", "kineto")]
    report = import_trace(both, tmp_path / "t")
    expected = kineto(both[1])
    assert {table: report.rows.get(table, 0) for table in expected} == expected
    assert report.rows["touch"] > 0
    assert report.ranks == list(range(8))
