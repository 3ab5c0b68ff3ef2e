"""Inputs for timing imports are what importers take for whole files of their formats."""

from __future__ import annotations

import pytest

from benchmarks.import_inputs import MAKE
from pasta.collect.importing import import_trace

TABLES = {
    "torch_execution": {"span", "touch", "memory"},
    "torch_memory": {"memory", "frame"},
    "rocpd3": {"kernel", "call", "span", "metric"},
    "rocpd4": {"kernel", "call", "span", "metric"},
    "rpd": {"kernel", "call"},
    "rocprofv3_csv": {"kernel", "call"},
    "nvbit": {"kernel", "access"},
    "perf_script": {"sample", "frame"},
    "collapsed": {"sample", "frame"},
    "triton_log": {"kernel", "call", "span"},
    "speedscope": {"sample", "frame"},
    "speedscope_evented": {"span", "frame"},
    "proton": {"sample", "frame"},
    "perfetto": {"span", "metric"},
    "xplane": {"kernel", "call"},
}


@pytest.mark.parametrize("name", MAKE)
def test_a_made_file_is_whole(name, tmp_path):
    path = tmp_path / "made"
    MAKE[name](path, 300_000, 1)
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    assert max(file.stat().st_size for file in files) > 100_000
    report = import_trace(files, tmp_path / "t")
    assert report.warnings == []
    assert TABLES[name] <= report.rows.keys()
    assert max(report.rows.values()) > 100
