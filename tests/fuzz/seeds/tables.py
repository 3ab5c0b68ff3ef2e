"""Tables with a map of their columns."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from pasta.collect.column_map import ColumnMap, Origin
from pasta.collect.importer import Importer
from pasta.collect.importers.mapped import Mapped
from tests.fuzz.content import Content, one_file

_CSV = 'what,start,stop,gpu,id\n"gemm, big",10.5,12.001,1,7\nrelu,9,9.25,0,8\n'
_COLUMNS = {
    "what": ["gemm", "relu", None],
    "start": [1, 5, 9],
    "stop": [4, 9, 10],
    "gpu": [0, 0, 1],
    "id": [7, 8, 1 << 40],
}
_LAST = {"dur": Origin(column="stop", is_end=True, factor=1000)}
_MAPS = [
    ColumnMap("kernel", {"ts": Origin(column="start", factor=1000), **_LAST, "name": Origin(column="what"), "device": Origin(column="gpu"), "correlation": Origin(column="id")}),
    ColumnMap("span", {"ts": Origin(column="start"), "dur": Origin(column="stop"), "tid": Origin(column="gpu"), "name": Origin(column="what"), "level": Origin(value="annotation")}),
    ColumnMap("copy", {"ts": Origin(column="start"), "bytes": Origin(column="id", factor=1024), "kind": Origin(column="what", values={"gemm": "HtoD"}), "source_address": Origin(column="stop")}),
    ColumnMap("metric", {"ts": Origin(column="start"), "value": Origin(column="stop"), "name": Origin(value="clock"), "pid": Origin(column="id")}),
    ColumnMap("access", {"launch_id": Origin(column="id"), "lane": Origin(column="gpu"), "address": Origin(column="start"), "bytes": Origin(column="stop"), "op": Origin(column="what", values={"gemm": 1, "relu": 0})}),
]  # fmt: skip


def mapped() -> Iterator[tuple[str, Importer]]:
    """Yield importers with maps to several tables."""
    for column_map in _MAPS:
        yield f"mapped_{column_map.table}", Mapped(column_map)


def tables() -> list[Content]:
    """Return one table as CSV of several dialects, Parquet and Arrow."""
    table = pa.table(_COLUMNS)
    parquet, file, stream = io.BytesIO(), io.BytesIO(), io.BytesIO()
    pq.write_table(table, parquet)
    for sink, new in ((file, pa.ipc.new_file), (stream, pa.ipc.new_stream)):
        with new(sink, table.schema) as writer:
            writer.write_table(table)
    texts = [
        _CSV,
        _CSV.replace(", ", " ").replace(",", ";"),
        _CSV.replace(",", "\t").replace("\n", "\r\n"),
    ]
    return [
        *(one_file(text, "lines") for text in texts),
        *(one_file(sink.getvalue(), "arrow") for sink in (parquet, file, stream)),
    ]
