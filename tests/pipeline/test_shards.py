"""Shards hold every row once, whole row groups, and, by rank, every rank in one of them."""

from __future__ import annotations

import json

import polars as pl
import pytest

from pasta.pipeline.config import parse_config
from pasta.pipeline.run import Source
from pasta.pipeline.shards import ShardedInputs
from pasta.pipeline.wiring import build_graph
from pasta.tools.shipped import ToolFiles
from pasta.trace import Trace
from pasta.yaml_text import read_yaml
from tests.pipeline.engines.ranks import ROW_GROUP, write

GRAPH = build_graph(
    parse_config(
        read_yaml(
            "{version: 1, tool: t, about: A., inputs: {kernels: {table: kernel}, copies: {table: copy,"
            " optional: true}, again: {table: kernel}, other: {table: kernel, run: b}},"
            " stages: {s: {use: sort, from: kernels, by: ts}}, report: [{table: s}]}"
        )
    ),
    {},
    ToolFiles().included,
)


def source(folder, name: str, ranks: dict[str, list[int]], rows: int = 1000) -> Source:
    """Write kernels in folders; each holds `rows` rows of its ranks, in turn."""
    for path, held in ranks.items():
        values = [held[place % len(held)] for place in range(rows)]
        kernels = pl.DataFrame(
            {"rank": values, "ts": range(rows)}, schema_overrides={"rank": pl.Int32}
        )
        write(kernels, "kernel", folder / name / path / "kernel")
    (folder / name / "trace.json").write_text(json.dumps({"schema_version": 1}))
    return Source(name, Trace.open(folder / name))


def rows_of(shards, name: str) -> pl.DataFrame:
    tables = [shard.tables(GRAPH)[name] for shard in shards]
    return pl.concat(tables).select("trace", "rank", "ts").collect()


def ranks_of(shards) -> list[set[tuple[str, int]]]:
    return [set(rows_of([shard], "kernels").select("trace", "rank").rows()) for shard in shards]


@pytest.mark.parametrize("rows", [1, 200, 700, 10**6])
def test_shards_of_rows_hold_every_row_once_in_order(tmp_path, rows):
    sources = [source(tmp_path, "b", {"rank-00000": [0], "rank-00001": [1]}), source(tmp_path, "a", {".": [0]})]  # fmt: skip
    shards = ShardedInputs(GRAPH, sources, ["kernels", "copies", "other"]).by_rows(rows)
    assert all(len(shard.pieces) == 1 for shard in shards)
    assert max(shard.rows for shard in shards) <= max(rows, ROW_GROUP)
    assert rows_of(shards, "kernels").equals(
        pl.concat([s.trace.scan("kernel").with_columns(trace=pl.lit(s.name)) for s in sources])
        .select("trace", "rank", "ts")
        .collect()
    )
    assert rows_of(shards, "other")["trace"].unique().to_list() == ["b"]
    assert len(shards) > 20 or rows > 200


def test_shards_of_ranks_keep_all_tables_of_a_rank_together(tmp_path):
    write(pl.DataFrame({"rank": [1], "ts": [5]}, schema_overrides={"rank": pl.Int32}), "copy", tmp_path / "b" / "rank-00001" / "copy")  # fmt: skip
    sources = [source(tmp_path, "b", {f"rank-{rank:05d}": [rank] for rank in range(3)})]
    inputs = ShardedInputs(GRAPH, sources, ["kernels", "copies"])
    assert inputs.ranks == 3
    shards = inputs.by_rank(1)
    assert ranks_of(shards) == [{("b", 0)}, {("b", 1)}, {("b", 2)}]
    assert [rows_of([shard], "copies").height for shard in shards] == [0, 1, 0]
    assert ranks_of(inputs.by_rank(2100)) == [{("b", 0), ("b", 1)}, {("b", 2)}]


@pytest.mark.parametrize(
    ("folders", "together"),
    [
        ({"a": [0], "b": [1]}, [{0}, {1}]),
        ({"a": [0], "b": [1], "c": [0], "d": [3]}, [{0, 1}, {3}]),
        ({"a": [0], "b": [1, 2], "c": [2, 3], "d": [9]}, [{0}, {1, 2, 3}, {9}]),
        ({"a": [0, 9], "b": [4], "c": [9]}, [{0, 4, 9}]),
    ],
)
def test_folders_that_share_a_rank_stay_together(tmp_path, folders, together):
    written = source(tmp_path, "t", {f"rank-{name}": ranks for name, ranks in folders.items()}, 10)
    shards = ShardedInputs(GRAPH, [written], ["kernels"]).by_rank(1)
    assert [{rank for _, rank in found} for found in ranks_of(shards)] == together


def test_unknown_ranks_are_not_cut(tmp_path):
    written = source(tmp_path, "t", {"rank-a": [0], "rank-b": [1]}, 10)
    nameless = pl.DataFrame({"rank": [None], "ts": [1]}, schema={"rank": pl.Int32, "ts": pl.Int64})
    write(nameless, "copy", tmp_path / "t" / "rank-b" / "copy")
    assert ShardedInputs(GRAPH, [written], ["kernels", "copies"]).ranks == 1
    assert ShardedInputs(GRAPH, [written], ["kernels"]).ranks == 2
