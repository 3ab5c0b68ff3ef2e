"""`ancestors` gives the way from the root to each row."""

import polars as pl

from pasta.pipeline.stages.ancestors import ancestors

IDS = {"span_id": pl.UInt64, "parent_id": pl.UInt64}


def test_ways_lead_from_the_root_to_each_row():
    rows = pl.DataFrame(
        {
            "rank": [0] * 5,
            "pid": [1, 1, 1, 1, 2],
            "span_id": [3, 2, 1, 4, 2],
            "parent_id": [2, 1, 0, 99, 1],
            "name": ["inner", "middle", "outer", "orphan", "other"],
        },
        schema_overrides=IDS,
    )
    found = ancestors(rows, of="end")
    assert found.select("pid", "end", "depth", "name").rows() == [
        (1, 1, 0, "outer"),
        (1, 2, 0, "outer"),
        (1, 2, 1, "middle"),
        (1, 3, 0, "outer"),
        (1, 3, 1, "middle"),
        (1, 3, 2, "inner"),
        (1, 4, 0, "orphan"),
        (2, 2, 0, "other"),
    ]


def test_no_rows():
    rows = pl.DataFrame(schema={"rank": pl.Int32, "pid": pl.Int64, **IDS})
    assert ancestors(rows, of="end").columns == ["rank", "pid", "span_id", "parent_id", "end", "depth"]  # fmt: skip
