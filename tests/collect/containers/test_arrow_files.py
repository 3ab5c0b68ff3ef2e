"""Arrow and Parquet files give their rows, and what a cut leaves of them."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.collect.containers.arrow_files import ArrowFile, is_arrow_or_parquet
from pasta.collect.losses import Losses
from pasta.errors import InputError

TABLE = pa.table({"a": list(range(100_000)), "b": [str(n) for n in range(100_000)]})


def write(kind: str, path: Path, table: pa.Table = TABLE) -> Path:
    if kind == "parquet":
        pq.write_table(table, path)
        return path
    new = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with new(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=10_000)
    return path


KINDS = pytest.mark.parametrize("kind", ["parquet", "file", "stream"])


@KINDS
def test_all_rows_of_the_chosen_columns(kind: str, tmp_path: Path) -> None:
    path = write(kind, tmp_path / "x")
    assert is_arrow_or_parquet(path.read_bytes()[:16])
    losses = Losses("test")
    file = ArrowFile(path, "x", losses)
    assert file.schema.names == ["a", "b"]
    batches = list(file.batches(["b"]))
    assert max(batch.num_rows for batch in batches) <= 1 << 16
    assert pa.Table.from_batches(batches) == TABLE.select(["b"])
    assert not list(losses)


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_a_cut_file_gives_the_batches_before_the_cut(kind: str, tmp_path: Path) -> None:
    path = write(kind, tmp_path / "x")
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 9 // 10])
    losses = Losses("test")
    rows = pa.Table.from_batches(list(ArrowFile(path, "x", losses).batches()))
    assert 80_000 <= rows.num_rows < 100_000
    assert rows == TABLE.slice(0, rows.num_rows)
    (loss,) = losses
    assert loss.damage
    assert f"after the first {rows.num_rows}" in loss.reason


def test_a_cut_file_stops_a_strict_import(tmp_path: Path) -> None:
    path = write("stream", tmp_path / "x")
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 9 // 10])
    file = ArrowFile(path, "x", Losses("test", "x", strict=True))
    with pytest.raises(InputError, match="leave out --strict"):
        list(file.batches())


def test_parquet_without_its_end_is_one_clear_line(tmp_path: Path) -> None:
    path = write("parquet", tmp_path / "x")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match="x: not readable as Arrow or Parquet") as error:
        ArrowFile(path, "x", Losses("test"))
    assert "\n" not in str(error.value)


@KINDS
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_whatever_is_damaged_only_one_error_escapes(
    kind: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = write(kind, tmp_path_factory.mktemp("damaged") / "x", TABLE.slice(0, 50))
    content = bytearray(path.read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=5)):
        content[place] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(1, len(content)))])
    with contextlib.suppress(InputError):
        for batch in ArrowFile(path, "x", Losses("test")).batches():
            batch.to_pydict()
