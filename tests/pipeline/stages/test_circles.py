"""`circles` marks what leads back to itself, and not what leads into it."""

import polars as pl

from pasta.pipeline.stages.circles import circles


def test_rows_of_a_circle_are_marked_and_those_below_are_not():
    """1 and 2 are each other's parents, 3 is below them, 4 its own parent; 2 of another process is a root."""
    rows = [(1, 2, 1), (2, 1, 1), (3, 2, 1), (4, 4, 1), (5, 0, 1), (6, 99, 1), (2, 0, 2), (7, 2, 2)]
    ids = {"span_id": pl.UInt64, "parent_id": pl.UInt64}
    spans = pl.DataFrame(rows, ["span_id", "parent_id", "pid"], schema_overrides=ids, orient="row")
    found = circles(spans.with_columns(rank=0))["circular"].to_list()
    assert found == [True, True, False, True, False, False, False, False]
