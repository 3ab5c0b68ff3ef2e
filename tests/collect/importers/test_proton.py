"""Proton's tree of frames: what each call path took, without times."""

from __future__ import annotations

import json

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pasta.collect.containers import json_documents
from pasta.collect.importers import proton
from pasta.collect.importing import import_trace
from pasta.errors import InputError
from pasta.trace import Trace


def node(name, *children, **metrics):
    spelled = {key.replace("time", "time (ns)"): value for key, value in metrics.items()}
    return {
        "children": list(children),
        "frame": {"name": name, "type": "function"},
        "metrics": spelled,
    }


DEVICES = {
    "CUDA": {"0": {"arch": "90", "bus_width": 5120, "clock_rate": 1980000, "num_sms": 132}},
    "HIP": {"1": {"arch": "gfx942", "num_sms": 304}},
}
TREE = [
    node(
        "ROOT",
        node(
            "forward",
            node("gemm<64, 64>", count=3, time=1500, device_id="0", device_type="CUDA"),
            node("softmax", count=1, time=2**53 - 1, device_id="0", device_type="CUDA"),
            flops=12.5,
        ),
        node("gemm<64, 64>", count=2, time=700, device_id="1", device_type="HIP", note="x"),
        count=0,
        time=0,
    ),
    DEVICES,
]


@pytest.fixture
def imported(tmp_path):
    def run(content, *, strict=False):
        text = content if isinstance(content, bytes) else json.dumps(content, indent=1).encode()
        file = tmp_path / "proton.hatchet"
        file.write_bytes(text)
        out = tmp_path / f"t{len(list(tmp_path.iterdir()))}"
        report = import_trace([file], out, strict=strict)
        return report, Trace.open(out)

    return run


def by_path(trace):
    frames = trace.scan("frame").sort("depth").group_by("stack_id")
    paths = frames.agg(path=pl.col("function").str.join("/"))
    rows = trace.scan("sample").join(paths, on="stack_id", how="left").collect()
    return {(row["path"], row["kind"]): row["weight"] for row in rows.iter_rows(named=True)}


def test_metrics_by_call_path(imported):
    report, trace = imported(TREE)
    assert report.format == "Triton Proton (hatchet JSON)"
    assert by_path(trace) == {
        ("forward", "flops"): 12.5,
        ("forward/gemm<64, 64>", "device"): 1500.0,
        ("forward/gemm<64, 64>", "launches"): 3.0,
        ("forward/softmax", "device"): float(2**53 - 1),
        ("forward/softmax", "launches"): 1.0,
        ("gemm<64, 64>", "device"): 700.0,
        ("gemm<64, 64>", "launches"): 2.0,
    }
    assert trace.scan("sample").select(pl.col("ts").null_count()).collect().item() == 7
    devices = (
        trace.scan("device")
        .sort("device")
        .select("device", "vendor", "multiprocessors", "compute_capability")
    )
    assert devices.collect().rows() == [
        (0, "nvidia", 132, "9.0"),
        (1, "amd", 304, "gfx942"),
    ]
    assert [(reason, count) for _, reason, count, _ in report.losses] == [
        ("metric that is no number: left out", 1)
    ]


def test_a_cut_file_keeps_whole_frames(imported):
    text = json.dumps([node("ROOT", *(node(f"k{n}", time=n + 1) for n in range(50)))]).encode()
    report, trace = imported(text[: len(text) * 9 // 10])
    kept = by_path(trace)
    assert 40 < len(kept) < 50
    assert all(weight == int(path[1:]) + 1 for (path, _), weight in kept.items())
    assert "what stands before is kept" in report.losses[0][1]
    with pytest.raises(InputError, match="leave out --strict"):
        imported(text[: len(text) * 9 // 10], strict=True)


def test_deep_trees_are_read_or_refused(imported):
    deep = node("a", time=1)
    for _ in range(200):
        deep = node("a", deep)
    assert len(by_path(imported([deep])[1])) == 1
    text = b"[" + b'{"frame":{"name":"a"},"metrics":{},"children":[' * 50_000
    with pytest.raises(InputError, match=r"nested too deeply|damaged JSON"):
        imported(text)


@pytest.mark.parametrize("indent", [None, 2])
def test_large_trees_give_the_same(imported, monkeypatch, indent):
    tree = node(
        "ROOT", *(node(f"f{n % 3}", node(f"k{n}", node("x", time=n)), time=n) for n in range(9))
    )
    named = node('with "children": [', node("]}", time=3, note="{"), time=4)
    for content in (TREE, [tree, node("apart", time=7), named, DEVICES]):
        text = json.dumps(content, indent=indent).encode()
        report, whole = imported(text)
        with monkeypatch.context() as patch:
            patch.setattr(json_documents, "SMALL_BYTES_MAX", 0)
            patch.setattr(proton, "_BLOCK_NODES", 4)
            found, trace = imported(text)
        assert found.losses == report.losses
        for table in ("sample", "frame", "device", "process"):
            rows, known = (each.scan(table).collect() for each in (trace, whole))
            by = known.columns
            assert rows.sort(by, nulls_last=True).equals(known.sort(by, nulls_last=True)), table


def test_a_large_tree_that_is_cut(imported, monkeypatch):
    monkeypatch.setattr(json_documents, "SMALL_BYTES_MAX", 0)
    text = json.dumps(
        [node("ROOT", node("f", *(node(f"k{n}", time=n + 1) for n in range(50))))]
    ).encode()
    kept = by_path(imported(text[: len(text) * 9 // 10])[1])
    assert 40 < len(kept) < 50
    assert all(path.startswith("k") for path, _ in kept)  # the names of those around it are lost
    assert all(weight == int(path.rpartition("k")[2]) + 1 for (path, _), weight in kept.items())


def test_deep_large_trees_are_refused(imported, monkeypatch):
    monkeypatch.setattr(json_documents, "SMALL_BYTES_MAX", 0)
    with pytest.raises(InputError, match="nested too deeply"):
        imported(b"[" + b'{"frame":{"name":"a"},"metrics":{},"children":[' * 50_000)
    with pytest.raises(InputError, match="a node of more than 4 MiB"):
        imported(b'[{"children":[],"frame":{"name":"a"},"metrics":{"' + b"x" * (5 << 20))


@pytest.mark.parametrize("whole", [0, 1 << 20])
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_no_damage_escapes(imported, monkeypatch, whole, data):
    monkeypatch.setattr(json_documents, "SMALL_BYTES_MAX", whole)
    text = bytearray(json.dumps(TREE).encode())
    odd = [b"null", b"-1", b"1e400", b"[", b"}", b"\xff", b'"', b"9" * 30, b"{},", b"true"]
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(text)))
        text[at : at + data.draw(st.integers(0, 9))] = data.draw(st.sampled_from(odd))
    try:
        imported(bytes(text))
    except InputError:
        return
