"""Real traces: every event of the raw file is in a table or counted, times and ids are exact."""

import gzip
import json
import shutil
from collections import Counter
from decimal import Decimal

import polars as pl
import pytest

from pasta.collect.importing import import_trace
from pasta.trace import Trace

FILES = [
    "hta_alexnet_critical_path.json.gz",
    "hta_backward_thread.json",
    "hta_cpu_only_rank34.json.gz",
    "hta_cuda_event_sync_multi_stream.json.gz",
    "hta_large_integer_rank70.json.gz",
    "hta_mi250_minitoy_rocm6.2.json.gz",
    "hta_mtia_inference_rank0.json.gz",
    "hta_nccl_data.json.gz",
    "hta_ns_resolution_rank0.json.gz",
    "kineto_resnet50_workers4_2021.json.gz",
    "tracelens_b200_eager_rank0of8.json.gz",
    "tracelens_h100_bert_small.json.gz",
    "tracelens_mi210_gpu_only.json.gz",
    "tracelens_mi300_bert_small.json.gz",
    "tracelens_sglang_decode_hipgraph.json.gz",
    "tracelens_torch_compile_triton.json.gz",
]
TABLE_OF = {
    "cpu_op": "span",
    "Operator": "span",
    "user_annotation": "span",
    "python_function": "span",
    "cuda_runtime": "call",
    "cuda_driver": "call",
    "mtia_runtime": "call",
    "Runtime": "call",
    "kernel": "kernel",
    "Kernel": "kernel",
    "gpu_memcpy": "copy",
    "Memcpy": "copy",
    "gpu_memset": "copy",
    "Memset": "copy",
    "cuda_sync": "sync",
}
MTIA = {"dma_request": "copy", "event_record": "sync", "event_wait": "sync"}
AMD = [name for name in FILES if any(mark in name for mark in ("mi2", "mi3", "hip", "triton"))]


def raw(samples, name, **options):
    data = (samples / "kineto" / name).read_bytes()
    return json.loads(gzip.decompress(data) if name.endswith("gz") else data, **options)


def table_of(event):
    if event["ph"] == "X":
        if event.get("cat") == "mtia_ccp_events":
            return MTIA.get(event["name"], "kernel")
        return TABLE_OF.get(event.get("cat"))
    return "memory" if event["name"] == "[memory]" else None


@pytest.fixture
def imported(samples, tmp_path):
    def run(name):
        report = import_trace([samples / "kineto" / name], tmp_path / "out")
        return Trace.open(tmp_path / "out"), report

    return run


@pytest.mark.parametrize("name", FILES)
def test_every_event_is_in_a_table_or_counted(samples, imported, name):
    events = raw(samples, name)["traceEvents"]
    expected = Counter(table for table in map(table_of, events) if table)
    trace, report = imported(name)
    assert {table: trace.rows(table) for table in expected} == dict(expected)
    left_out = sum(count for _, reason, count, _ in report.losses if reason.endswith(": left out"))
    assert left_out == sum(table_of(e) is None and e["ph"] not in "Mstf" for e in events)
    assert report.warnings == []


@pytest.mark.parametrize("name", FILES)
def test_times_are_those_of_the_decimal_text(samples, imported, name):
    document = raw(samples, name, parse_float=Decimal)
    base = document.get("baseTimeNanoseconds", 0)
    expected = {}
    for event in document["traceEvents"]:
        if table := table_of(event):
            expected.setdefault(table, []).append(
                (int(event["ts"] * 1000) + base, int(event.get("dur", 0) * 1000), event["name"])
            )
    trace, _ = imported(name)
    for table, rows in expected.items():
        frame = trace.scan(table).collect()
        assert frame["ts"].to_list() == sorted(ts for ts, _, _ in rows)
        if table in ("span", "call", "kernel"):
            assert sorted(frame.select("ts", "dur", "name").rows()) == sorted(rows)


@pytest.mark.parametrize("name", [*AMD, "tracelens_h100_bert_small.json.gz"])
def test_every_kernel_with_a_launch_in_the_file_finds_it(samples, imported, name):
    events = raw(samples, name)["traceEvents"]
    calls = {
        e["args"]["correlation"] for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver")
    }
    kernels = [e["args"]["correlation"] for e in events if e.get("cat") == "kernel"]
    trace, _ = imported(name)
    joined = trace.scan("kernel").join(
        trace.scan("call").filter(pl.col("correlation") != 0),
        on=["rank", "pid", "correlation"],
    )
    found = joined.select("launch_id").unique().collect().height
    assert found == sum(correlation in calls for correlation in kernels) > 0


@pytest.mark.parametrize("name", FILES)
def test_parents_enclose_their_children(imported, name):
    trace, _ = imported(name)
    if "span" not in trace.tables():
        pytest.skip("no span in this trace")
    spans = trace.scan("span").collect()
    assert spans["span_id"].to_list() == list(range(1, spans.height + 1))
    pairs = spans.join(spans, left_on="parent_id", right_on="span_id", suffix="_parent")
    outside = pairs.filter(
        (pl.col("ts") < pl.col("ts_parent"))
        | (pl.col("ts") + pl.col("dur") >= pl.col("ts_parent") + pl.col("dur_parent") + 1000)
        | (pl.col("tid") != pl.col("tid_parent"))
    )
    assert outside.height == 0
    assert pairs.height == spans.filter(pl.col("parent_id") != 0).height


def test_python_functions_have_the_parents_that_the_profiler_recorded(samples, imported):
    name = "tracelens_h100_bert_small.json.gz"
    events = [e for e in raw(samples, name)["traceEvents"] if e.get("cat") == "python_function"]
    names = {e["args"]["Python id"]: e["name"] for e in events}
    recorded = Counter((e["name"], names.get(e["args"]["Python parent id"])) for e in events)
    trace, _ = imported(name)
    functions = trace.scan("span").filter(pl.col("level").is_in(["function", "module"])).collect()
    by_id = dict(functions.select("span_id", "name").rows())
    inferred = Counter(
        (child, by_id.get(parent)) for child, parent in functions.select("name", "parent_id").rows()
    )
    differing = sum((recorded - inferred).values())
    assert differing <= 0.01 * len(events)


def test_eight_ranks_from_an_archive(samples, tmp_path):
    archive = samples / "kineto_multirank" / "param_dlrm_8rank_kineto.tar.gz"
    report = import_trace([archive], tmp_path / "out")
    assert report.ranks == list(range(8))
    trace = Trace.open(tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / "rank-00004")
    ranks = Trace.open(tmp_path / "out").scan("kernel").collect()["rank"].unique().sort().to_list()
    assert ranks == [0, 1, 2, 3, 5, 6, 7]
    assert trace.info["ranks"] == list(range(8))


def test_a_duplicate_rank_is_refused(samples, tmp_path):
    file = samples / "kineto_multirank" / "hta_sampled_rank0.json.gz"
    with pytest.raises(Exception, match="import one file for each rank"):
        import_trace([file, file], tmp_path / "out")
