"""`path_ids` tells equal paths from others whatever stands in names."""

import polars as pl

from pasta.pipeline.stages.path_ids import path_ids


def spans(*rows):
    columns = ["span_id", "parent_id", "name", "pid"]
    ids = {"span_id": pl.UInt64, "parent_id": pl.UInt64}
    return pl.DataFrame(rows, columns, schema_overrides=ids, orient="row").with_columns(rank=0)


def test_rows_of_one_path_have_the_id_of_the_first():
    found = path_ids(
        spans(
            (7, 0, "step", 1),
            (8, 7, "mm", 1),
            (9, 0, "step", 1),
            (5, 9, "mm", 1),
            (6, 9, "add", 1),
            (7, 0, "step", 2),
        )
    )
    assert found["path_id"].to_list() == [7, 8, 7, 8, 6, 7]
    assert found["path_parent_id"].to_list() == [0, 7, 0, 7, 7, 0]


def test_separators_in_names_do_not_confuse():
    """`a >` in which `b` lies, and `a` in which `> b` lies, would be one text."""
    found = path_ids(spans((1, 0, "a >", 1), (2, 1, "b", 1), (3, 0, "a", 1), (4, 3, "> b", 1)))
    assert found["path_id"].to_list() == [1, 2, 3, 4]


def test_rows_that_are_not_kept_are_on_no_path_and_hand_their_children_up():
    """Of a chain of two steps neither is on a path, and `mm` below them goes by `run`; no path begins at a step."""
    tree = spans(
        (3, 0, "run", 1),
        (4, 3, "step", 1),
        (5, 4, "step", 1),
        (6, 5, "mm", 1),
        (7, 6, "add", 1),
        (8, 3, "mm", 1),
        (9, 0, "step", 1),
        (10, 9, "run", 1),
    )
    found = path_ids(tree, keep=pl.col("name") != "step")
    assert found["path_id"].to_list() == [3, 0, 0, 6, 7, 6, 0, 3]
    assert found["path_parent_id"].to_list() == [0, 0, 0, 3, 6, 3, 0, 0]
    assert found["parent_id"].to_list() == [0, 0, 0, 3, 6, 3, 0, 0]


def test_rows_that_are_not_kept_may_be_each_others_parents():
    tree = spans((1, 2, "step", 1), (2, 1, "step", 1), (3, 1, "mm", 1))
    found = path_ids(tree, keep=pl.col("name") == "mm")
    assert found.select("path_id", "path_parent_id", "parent_id").rows()[2] == (3, 0, 0)
