"""Programs that write into a channel, and what the tests of the channel share."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa

TARGET = Path(__file__).parents[2] / "pasta" / "collect" / "target"

# Loads the writer as a program without pasta (and, with -I -S, without numpy) does: by its path.
LOAD_WRITER = f"""
import importlib.util, os, sys, time
spec = importlib.util.spec_from_file_location(
    "target", {str(TARGET / "__init__.py")!r}, submodule_search_locations=[{str(TARGET)!r}])
sys.modules["target"] = importlib.util.module_from_spec(spec)
from target.channel_writer import Nullable, RingWriter
"""
BARE_PYTHON = [sys.executable, "-I", "-S", "-c"]

COUNTED = {
    "counted": pa.schema([("batch", pa.uint64()), ("row", pa.int64()), ("text", pa.string())])
}
# Writes batches that tell by their content which they are, as long as it lives.
WRITE_COUNTED = """
from array import array
def rows_of(batch):
    return batch * 7919 % 40
def write_counted(writer, batch):
    rows = rows_of(batch)
    writer.write("counted", {"batch": array("Q", [batch]) * rows,
        "row": array("q", range(rows)), "text": [str(batch)] * rows})
"""

ALL_TYPES = pa.schema(
    [
        ("u8", pa.uint8()),
        ("u16", pa.uint16()),
        ("u32", pa.uint32()),
        ("u64", pa.uint64()),
        ("i8", pa.int8()),
        ("i16", pa.int16()),
        ("i32", pa.int32()),
        ("i64", pa.int64()),
        ("f32", pa.float32()),
        ("f64", pa.float64()),
        ("flag", pa.bool_()),
        ("text", pa.string()),
        ("texts", pa.list_(pa.string())),
        ("integers", pa.list_(pa.int64())),
    ]
)


def rows_of(batch: int) -> int:
    """How many rows `write_counted` gives a batch."""
    return batch * 7919 % 40


def check_counted(rows: pa.RecordBatch, batch: int) -> None:
    """Check that `rows` are those of `batch`, whole."""
    count = rows_of(batch)
    assert rows.to_pydict() == {
        "batch": [batch] * count,
        "row": list(range(count)),
        "text": [str(batch)] * count,
    }
