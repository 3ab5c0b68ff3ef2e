"""Files that a filter on rank or time rules out are not read."""

from __future__ import annotations

import json

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal

import pasta
from pasta.errors import TraceError
from pasta.pipeline.config import parse_config
from pasta.pipeline.engines.gpu import input_bytes
from pasta.pipeline.pruning import chosen_ranks, rank_conditions, time_bounds
from pasta.pipeline.run import Source
from pasta.pipeline.shards import ShardedInputs
from pasta.pipeline.wiring import build_graph
from pasta.schema import arrow_schema
from pasta.tools.shipped import ToolFiles
from pasta.trace import RANK_FOLDER, Trace
from pasta.yaml_text import read_yaml

RANKS = range(6)
FILES = 3
ROWS = 100
GROUP = 20


@pytest.fixture
def many(tmp_path) -> Trace:
    """Kernels of six ranks in three files each; the n-th of a rank begins at 10 n."""
    folder = tmp_path / "many"
    for rank in RANKS:
        for number in range(FILES):
            begin = number * ROWS
            rows = [
                {"rank": rank, "pid": 1, "ts": 10 * place, "dur": rank + 1, "name": f"k{place % 7}"}
                for place in range(begin, begin + ROWS)
            ]
            path = folder / RANK_FOLDER.format(rank) / "kernel" / f"{number:06d}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            table = pa.Table.from_pylist(rows, schema=arrow_schema("kernel"))
            pq.write_table(table, path, row_group_size=GROUP)
    (folder / "trace.json").write_text(json.dumps({"schema_version": 1}))
    return Trace.open(folder)


def tool(tmp_path, where: str, more: str = ""):
    path = tmp_path / "t.yaml"
    path.write_text(
        "{version: 1, tool: t, about: A., inputs: {kernels: {table: kernel}}, stages: {"
        f"part: {{use: filter, from: kernels, where: '{where}'}}, {more}"
        "sums: {use: aggregate, from: part, by: [rank], measures: {n: count(*), time: sum(dur)}}},"
        " report: [{table: sums}]}"
    )
    return path


def graph_of(path):
    return build_graph(parse_config(read_yaml(path.read_text())), {}, ToolFiles().included)


def destroy(trace: Trace, *ranks: int) -> None:
    for rank in ranks:
        for file in (trace.path / RANK_FOLDER.format(rank)).rglob("*.parquet"):
            file.write_bytes(b"no Parquet")


CASES = [
    ("rank = 2", {2}),
    ("rank in (1, 4) and dur > 0", {1, 4}),
    ("dur > 0 and rank between 3 and 4", {3, 4}),
    ("rank = 2 or rank = 5", {2, 5}),
    ("rank % 3 = 0 and ts >= 0 and rank > 0", {3}),
    ("rank > 9", set()),
]


def check_ranks(tmp_path, many: Trace, where: str, ranks: set[int], engine: str) -> None:
    destroy(many, *(set(RANKS) - ranks))
    path = str(tool(tmp_path, where))
    found = pasta.run(path, trace=many, engine=engine, workers=1).tables["sums"]
    expected = [(rank, FILES * ROWS, FILES * ROWS * (rank + 1)) for rank in sorted(ranks)]
    assert sorted(found.rows()) == expected
    with pytest.raises(TraceError, match="not a complete Parquet file"):
        pasta.run(str(tool(tmp_path, "dur > 0")), trace=many, engine="cpu")


@pytest.mark.parametrize(("where", "ranks"), CASES)
def test_files_of_other_ranks_are_not_opened(tmp_path, many, where, ranks):
    check_ranks(tmp_path, many, where, ranks, "cpu")


def test_workers_do_not_open_them_either(tmp_path, many):
    pytest.importorskip("distributed")
    check_ranks(tmp_path, many, *CASES[1], "dask")


@pytest.mark.parametrize(
    ("where", "more"),
    [
        ("dur > 0", ""),
        ("rank = 2 or dur = 1", ""),
        ("rank = 2 and ts = max(ts) over (partition by trace)", ""),
        ("rank + pid = 3", ""),
        ("rank = 2", "all: {use: sort, from: kernels, by: ts}, "),
        ("rank = 2", "long: {use: filter, from: kernels, where: dur > 3}, "),
    ],
)
def test_all_is_read_where_more_than_one_rank_may_matter(tmp_path, where, more):
    assert rank_conditions(graph_of(tool(tmp_path, where, more))) == {}


def test_two_filters_read_the_ranks_of_both(tmp_path, many):
    graph = graph_of(tool(tmp_path, "rank = 2", "x: {use: filter, from: kernels, where: rank=4}, "))
    condition = rank_conditions(graph)["kernels"]
    assert chosen_ranks(many, condition) == [2, 4]


def test_an_input_that_the_report_shows_is_read_whole(tmp_path, many):
    path = tool(tmp_path, "rank = 2")
    path.write_text(
        path.read_text().replace("[{table: sums}]", "[{table: sums}, {table: kernels}]")
    )
    found = pasta.run(str(path), trace=many, engine="cpu").tables
    assert found["kernels"]["rank"].n_unique() == len(RANKS)
    assert found["sums"]["rank"].to_list() == [2]


def test_files_beside_the_folders_of_ranks_are_always_read(tmp_path, many):
    (many.path / RANK_FOLDER.format(5) / "kernel").rename(many.path / "kernel")
    found = pasta.run(str(tool(tmp_path, "rank >= 4")), trace=Trace.open(many.path), engine="cpu")
    assert sorted(found.tables["sums"]["rank"]) == [4, 5]


def test_shards_and_sizes_count_only_what_is_read(tmp_path, many):
    graph = graph_of(tool(tmp_path, "rank = 3"))
    sources = [Source("many", many)]
    shards = ShardedInputs(graph, sources, ["kernels"]).by_rows(1)
    assert {piece.file.parent.parent.name for s in shards for piece in s.pieces["kernels"]} == {
        "rank-00003"
    }
    assert input_bytes(graph, sources) == sum(f.stat().st_size for f in many.files("kernel", [3]))


def times(first: int, last: int) -> str:
    return f"ts >= {first} and ts < {last}"


@pytest.mark.parametrize(
    ("where", "read"),
    [
        (times(10 * (ROWS + GROUP), 10 * (ROWS + 2 * GROUP)), [(1, 20, 20)]),
        ("999 < ts and dur > 0 and 1399 >= ts", [(1, 0, 40)]),
        ("ts between 200 and 399 and ts < 800", [(0, 20, 20)]),
        ("ts = 2990", [(2, 80, 20)]),
        ("ts < 0", []),
        ("ts < 200 or ts >= 2800", [(0, 0, 100), (1, 0, 100), (2, 0, 100)]),
        ("ts + 1 < 3", [(0, 0, 100), (1, 0, 100), (2, 0, 100)]),
        ("ts < 2.5", [(0, 0, 100), (1, 0, 100), (2, 0, 100)]),
    ],
)
def test_shards_leave_out_row_groups_of_other_times(tmp_path, many, where, read):
    graph = graph_of(tool(tmp_path, where))
    shards = ShardedInputs(graph, [Source("many", many)], ["kernels"]).by_rows(ROWS)
    pieces = [piece for shard in shards for piece in shard.pieces["kernels"]]
    found = {(int(piece.file.stem), piece.offset, piece.rows) for piece in pieces}
    assert sorted(found) == read
    assert len(pieces) == len(RANKS) * len(read)
    rows = [shard.tables(graph)["kernels"] for shard in shards] or [many.scan("kernel").clear()]
    condition = pl.sql_expr(where)
    left = pl.concat(rows).filter(condition).drop("trace", strict=False).collect()
    assert_frame_equal(left, many.scan("kernel").filter(condition).collect())


@pytest.mark.parametrize("begins", [[], ["ts < 200"], ["ts < 200", "dur > 0"]])
def test_shards_keep_the_times_of_every_reader(tmp_path, begins):
    more = "".join(f"x{n}: {{use: filter, from: kernels, where: {w}}}, " for n, w in enumerate(begins))  # fmt: skip
    bounds = time_bounds(graph_of(tool(tmp_path, "ts >= 100 and ts < 150", more)))["kernels"]
    unknown = (float("-inf"), float("inf"))
    assert bounds == [(100, 149), (float("-inf"), 199), unknown][len(begins)]


@pytest.mark.parametrize("engine", ["cpu", "dask"])
def test_row_groups_of_other_times_are_not_read(tmp_path, many, engine):
    """The bytes of all row groups but one per rank are destroyed; their statistics say enough."""
    if engine == "dask":
        pytest.importorskip("distributed")
    where = times(10 * (ROWS + GROUP), 10 * (ROWS + 2 * GROUP))
    expected = many.scan("kernel").filter(pl.sql_expr(where)).collect()
    assert expected.height == GROUP * len(RANKS)
    for file in many.files("kernel"):
        metadata = pq.read_metadata(file)
        kept = 1 if file.name == "000001.parquet" else None
        content = bytearray(file.read_bytes())
        for place in range(metadata.num_row_groups):
            for column in range(metadata.num_columns if place != kept else 0):
                chunk = metadata.row_group(place).column(column)
                begin = chunk.dictionary_page_offset or chunk.data_page_offset
                length = chunk.total_compressed_size
                content[begin : begin + length] = b"\xff" * length
        file.write_bytes(content)
    path, trace = str(tool(tmp_path, where)), Trace.open(many.path)
    report = pasta.run(path, trace=trace, engine=engine, workers=1)
    assert report.tables["sums"].sort("rank")["n"].to_list() == [GROUP] * len(RANKS)
    rows = Trace.open(many.path).scan("kernel").filter(pl.sql_expr(where)).collect()
    assert_frame_equal(rows, expected)
    with pytest.raises(pl.exceptions.PolarsError):
        Trace.open(many.path).scan("kernel").collect()


def test_a_notebook_names_the_ranks_itself(many):
    with pytest.raises(TraceError, match="no table 'span'"):
        many.scan("span", ranks=[4])
    destroy(many, 0, 1, 2, 3)
    rows = many.scan("kernel", ranks=[4, 5]).collect()
    assert rows["rank"].unique().sort().to_list() == [4, 5]
    assert many.scan("kernel", ranks=[7]).collect().height == 0
    assert many.ranks == list(RANKS)
