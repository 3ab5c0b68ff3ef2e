"""`frame_names` shortens C++ and makes modules of Python's files."""

import polars as pl

from pasta.pipeline.stages.frame_names import frame_names

FRAMES = [
    ("forward", "/opt/lib/python3.11/site-packages/torch/nn/modules/linear.py", "python", "forward", "torch.nn.modules.linear"),
    ("run", "/usr/lib/python3.12/threading.py", "python", "run", "threading"),
    ("main", "C:\\me\\app\\__init__.py", "python", "main", "C:.me.app"),
    ("at::(anonymous namespace)::mm<float>(int)", "mm.cpp", "c++", "at::mm", ""),
    (None, None, None, "?", ""),
]  # fmt: skip


def test_symbols_and_modules():
    rows = [row[:3] for row in FRAMES]
    frames = pl.LazyFrame(rows, ["function", "file", "language"], orient="row")
    found = frame_names(frames).select("symbol", "module").collect()
    assert found.rows() == [row[3:] for row in FRAMES]
