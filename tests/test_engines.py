"""Every shipped tool gives the same answer however its trace is cut into files and parts."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal

import pasta
from pasta.pipeline.engines.choice import ENGINES
from pasta.pipeline.engines.cpu import CpuEngine
from pasta.tools.shipped import SHIPPED_TRACE, shipped_tools
from pasta.trace import Trace
from tests.conftest import write_trace
from tests.tools.memory_run import ACCESSES, TABLES

ROWS_PER_FILE = 97
ROWS_PER_PART = 30
IMPORTED = ["tracelens_b200_eager_rank0of8", "tracelens_h100_bert_small"]
NEEDED = {
    "kernel_frequency": "kernel",
    "device_time": "kernel",
    "working_set": "touch",
    "working_set_by": "touch",
    "working_set_table": "touch",
    "hot_path": "kernel",
    "model_flops": "kernel",
    "system": "node",
    "pipeline_bubbles": "kernel",
    "expert_imbalance": "kernel",
    "data_loading": "kernel",
    "kernel_sequences": "kernel",
    "critical_path": "kernel",
    "samples": "sample",
    "overhead": "metric",
    "hot_memory": "touch",
    "kernel_memory": "touch",
    "launch_memory": "touch",
    "launch_windows": "touch",
    "launches": "kernel",
    "objects": "memory",
    "coalescing": "access",
    "reuse": "access",
    "reuse_pairs": "access",
    "byte_flow": "touch",
    "idle_tensors": "touch",
    "sector_heatmap": "access",
    "block_balance": "access",
    "mem_trace": "access",
    "touch_from_access": "access",
    "memory_timeline": "memory",
    "allocations": "memory",
    "allocation_uses": "memory",
    "peak_objects": "memory",
    "memory_savings": "memory",
    "memory_peak": "memory",
    "allocation_check": "memory",
    "memory_by_parallelism": "memory",
    "memory_timeline_diff": "memory",
    "paged_uses": "touch",
    "uvm_advisor": "touch",
    "uvm_simulate": "touch",
    "scaling": "thread",
    "copy_bandwidth": "copy",
    "variability": "kernel",
    "variability_outliers": "kernel",
    "variability_causes": "kernel",
    "library_time": "kernel",
    "idle_causes": "kernel",
    "host_bound": "kernel",
    "threads": "thread",
    "source": "frame",
    "cpu_roofline": "metric",
}


@pytest.fixture(scope="module")
def traces(samples, tmp_path_factory):
    """The shipped trace and real profiles, whole and cut into files of a few rows."""
    base = tmp_path_factory.mktemp("engines")
    whole = {name: pasta.open(samples / "kineto" / f"{name}.json.gz") for name in IMPORTED}
    whole["gpt_cpu"] = Trace.open(SHIPPED_TRACE)
    whole["memory_run"] = write_trace(base / "memory_run_whole", **TABLES, access=ACCESSES)
    return {name: (trace, cut(trace, base / name)) for name, trace in whole.items()}


def cut(trace: Trace, folder: Path) -> Trace:
    for table in trace.tables():
        (folder / table).mkdir(parents=True)
        rows = pq.read_table(trace.files(table)[0])
        for number, start in enumerate(range(0, rows.num_rows, ROWS_PER_FILE)):
            part = rows.slice(start, ROWS_PER_FILE)
            pq.write_table(part, folder / table / f"{number:06d}.parquet", row_group_size=10)
    (folder / "trace.json").write_text(json.dumps(trace.info))
    return Trace.open(folder)


@pytest.fixture
def tiny_parts(monkeypatch):
    """Have the cpu engine cut whatever it can run part after part."""
    monkeypatch.setitem(ENGINES, "cpu", lambda _options: CpuEngine(part_rows=ROWS_PER_PART))


@pytest.mark.parametrize("source", [*IMPORTED, "gpt_cpu", "memory_run"])
@pytest.mark.parametrize("tool", list(shipped_tools()))
@pytest.mark.usefixtures("tiny_parts")
def test_tiny_files_and_parts_change_nothing(traces, tool, source):
    whole, tiny = traces[source]
    if "/" in tool and source != "gpt_cpu":
        pytest.skip("tools of one folder share most of their graphs: one trace is enough")
    if NEEDED.get(tool, "span") not in whole.tables():
        pytest.skip(f"{source} has no table {NEEDED[tool]}")
    expected = pasta.run(tool, runs={source: whole}, engine="auto")
    found = pasta.run(tool, runs={source: tiny}, engine="cpu")
    assert found.facts == pytest.approx(expected.facts)
    assert list(found.tables) == list(expected.tables)
    for name, rows in expected.tables.items():
        columns = [column for column in rows.columns if column != "trace"]
        assert_frame_equal(found.tables[name].select(columns), rows.select(columns))
