"""`path_texts` writes the way to a node for people."""

import polars as pl

from pasta.pipeline.stages.path_texts import path_texts

NODES = pl.DataFrame(
    {"node_id": [1, 2, 3], "parent_id": [0, 1, 2], "name": ["main", None, "mm"]},
    schema_overrides={"node_id": pl.UInt64, "parent_id": pl.UInt64},
)


def test_from_the_root_and_from_the_inside():
    asked = NODES.filter(node_id=3)
    assert path_texts(asked, NODES)["path"].to_list() == ["main >  > mm"]
    callers = path_texts(NODES, NODES, column="callers", inside_out=True, own=False, separator=" < ", empty="nothing")  # fmt: skip
    assert callers["callers"].to_list() == ["nothing", "main", " < main"]
