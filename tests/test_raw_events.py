"""Tools give what the raw events of real traces say, counted by code that shares nothing with them."""

from __future__ import annotations

import tarfile

import pytest

from benchmarks.hta_figures import ours, raw
from benchmarks.hta_figures.figures import FIGURES, Row
from benchmarks.hta_figures.together import path, stragglers
from pasta.collect.importing import import_trace

FILES = [
    "hta_alexnet_critical_path.json.gz",
    "hta_cuda_event_sync_multi_stream.json.gz",
    "hta_mi250_minitoy_rocm6.2.json.gz",
    "hta_triton_example.json.gz",
    "tracelens_h100_bert_small.json.gz",
    "tracelens_mi210_gpu_only.json.gz",
    "tracelens_mi300_bert_small.json.gz",
    "tracelens_sglang_decode_hipgraph.json.gz",
]
LEAST = 13
"""Figures that every one of these traces has, with or without copies and communication."""


@pytest.mark.parametrize("name", FILES)
def test_each_figure_is_that_of_the_raw_events(samples, tmp_path, name):
    events = raw.read(samples / "kineto" / name)
    import_trace([samples / "kineto" / name], tmp_path / "t")
    found = ours.figures(tmp_path / "t")
    rows = [Row(figure.name, found[figure.name], figure.truth(events), None, None) for figure in FIGURES if figure.name in found]  # fmt: skip
    assert len(rows) >= LEAST
    assert [row for row in rows if not row.right] == []


def test_a_critical_path_is_as_long_as_its_step(samples, tmp_path):
    file = samples / "kineto" / "tracelens_mi300_bert_small.json.gz"
    import_trace([file], tmp_path / "t")
    row = path(raw.read(file), ours.figures(tmp_path / "t")["critical path"], {"length": 0, "extent": 0, "left_out": 0})  # fmt: skip
    assert row is not None
    assert row.right


def test_the_last_of_each_collective_is_that_of_the_raw_events(samples, tmp_path):
    with tarfile.open(samples / "kineto_multirank" / "param_dlrm_8rank_kineto.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    files = sorted(tmp_path.rglob("*.json"))
    import_trace(files, tmp_path / "t", ranks=list(range(8)))
    row = stragglers([raw.read(file) for file in files], tmp_path / "t", [])
    assert row.truth == "{4: 1, 5: 2, 7: 5}"
    assert row.right, row
