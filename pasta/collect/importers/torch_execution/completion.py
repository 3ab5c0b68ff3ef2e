"""Adding what an execution trace tells to the spans of its Kineto twin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import polars as pl
import pyarrow as pa

from pasta.collect.containers.json_events import EventReader
from pasta.collect.importers.torch_execution.nodes import (
    NODE_KEYS,
    Node,
    decode_nodes,
    operation,
)
from pasta.collect.importers.torch_execution.storages import Touch, Touches
from pasta.collect.importers.torch_execution.twins import pair, twin_spans
from pasta.collect.losses import Losses
from pasta.collect.sources import Source
from pasta.collect.target.torch.views import View, coverage
from pasta.errors import InputError
from pasta.trace_merge import Transform
from pasta.trace_writer import PartWriter

_FRAME = "[pytorch|profiler|execution_"
_SPAN_COLUMNS = ("span_id", "pid", "tid", "ts", "dur", "external_id", "level", "name", "sequence")
_NODE_SCHEMA: dict[str, pa.DataType] = {
    "node": pa.uint64(),
    "tid": pa.int64(),
    "name": pa.string(),
    "sequence": pa.int64(),
    "node_parent": pa.uint64(),
    "node_shapes": pa.list_(pa.string()),
    "node_types": pa.list_(pa.string()),
}
_TOUCH_SCHEMA: dict[str, pa.DataType] = {
    "node": pa.uint64(),
    "object_id": pa.uint64(),
    "device": pa.int32(),
    "unique_read": pa.int64(),
    "unique_written": pa.int64(),
    "unique_bytes": pa.int64(),
}
_LIST = "TensorList"
_BLOCK_ROWS = 1 << 14
_NO_ID = "nodes without a number: left out"
_BROKEN = "tensors described in no way that can be: left out"
_LONE_NODE = "nodes that no operator of the Kineto file is the twin of: left out"
_LONE_SPAN = "operators of the Kineto file without a node in the execution trace: left as they are"
_AMBIGUOUS = (
    "nodes of threads whose order fits the Kineto file in more than one way: left out, record both"
    " over the same steps"
)
_ALIKE = "nodes of threads that ran the same as others: paired in order of the threads' first begin"
_NO_STRIDES = "tensors without strides in the trace: their bytes taken as contiguous"
_BOUNDED = "operators whose overlapping views were too many to enumerate: unique bytes are bounds"
_OTHER_PARENT = (
    "spans that seem to lie in another one than the trace says: given the parent it says"
)
_OTHER_STEP = (
    "operators whose twin has another sequence number, since the two files were recorded over"
    " different steps: joined by the order of operators, with shapes and storages of the other step"
)
_LIVES = (
    "storages, of which the trace has no allocation and no release: their lives taken from the"
    " first operator that touches them to the last, footprints are lower bounds"
)
_LONE_TOUCH = "touches of operators without a twin: left out"
_OTHER_MEMORY = (
    "touches of storages: left out, since the Kineto file records memory itself, whose objects"
    " have no storage ids; record without profile_memory for working sets of operators"
)


class Completion:
    """Completes one process.

    Args:
        part: its tables, finished.
        losses: where what is not joined is counted.
    """

    def __init__(self, part: PartWriter, losses: Losses) -> None:
        self._part = part
        self._losses = losses
        self._touches = Touches()
        self._nodes = _Gathered(_NODE_SCHEMA)
        self._found = _Gathered(_TOUCH_SCHEMA)

    def read(self, source: Source) -> Mapping[str, Transform]:
        """Read the nodes of `source`, and append and change what they tell of."""
        reader: EventReader[Node] = EventReader(
            source.chunks,
            decode_nodes,
            self._losses,
            source.damage,
            array="nodes",
            keys=NODE_KEYS,
        )
        for nodes in reader:
            self._take(nodes)
        self._note(self._touches.rest())
        if cut := reader.cut:
            where = cut.rpartition(" at ")[2]
            self._losses.fault(f"{cut}, {reader.kept} nodes kept", where=where)
        twins = self._twins()
        self._complete_spans(twins)
        if self._part.rows.get("memory"):
            self._losses.skip(_OTHER_MEMORY, self._found.frame().height)
        else:
            self._append_touches(twins)
        return {}

    def _take(self, nodes: Iterable[Node]) -> None:
        unknown = broken = 0
        for node in nodes:
            taken = operation(node)
            if taken is None:
                unknown += 1
                continue
            broken += taken.broken
            if not taken.name.startswith(_FRAME):
                sequence = taken.sequence if taken.sequence >= 0 else None
                shapes, types = taken.shapes or None, taken.types or None
                told = (sequence, taken.parent, shapes, types)
                self._nodes.add((taken.id, taken.tid, taken.name, *told))
            self._note(self._touches.add(taken))
        self._losses.fault(_NO_ID, unknown)
        self._losses.fault(_BROKEN, broken)

    def _note(self, found: Iterable[tuple[int, list[Touch]]]) -> None:
        """Keep what operators did to storages, measured."""
        for node, touches in found:
            for storage, read, written in touches:
                sizes, exact = _measured(read, written)
                self._losses.skip(_BOUNDED, int(not exact))
                self._found.add((node, storage.object_id, storage.device, *sizes))

    def _twins(self) -> pl.DataFrame:
        """Return the nodes that have a twin, each with the columns of its span."""
        files = sorted((self._part.folder / "span").glob("*.parquet"))
        if not files:
            raise InputError(f"{self._losses.source}: its Kineto file has no operators to complete")
        scanned = pl.scan_parquet(files, hive_partitioning=False, glob=False)
        spans = twin_spans(scanned.select(_SPAN_COLUMNS).collect())
        nodes = self._nodes.frame().sort("node", maintain_order=True)
        found = pair(nodes.with_columns(begin="node"), spans)
        self._losses.skip(_AMBIGUOUS, found.ambiguous)
        self._losses.skip(_ALIKE, found.alike)
        self._losses.skip(_LONE_NODE, nodes.height - len(found.nodes) - found.ambiguous)
        self._losses.skip(_LONE_SPAN, spans.height - len(found.spans))
        told = nodes[found.nodes].drop("tid", "name").rename({"sequence": "told"})
        twins = told.hstack(spans[found.spans])
        other_step = twins.filter(pl.col("told") != pl.col("sequence")).height
        self._losses.skip(_OTHER_STEP, other_step)
        return twins

    def _complete_spans(self, twins: pl.DataFrame) -> None:
        """Give spans the shapes, types and parents that they lack or that nesting got wrong."""
        told = twins.join(
            twins.select(node_parent="node", told_parent="span_id").unique("node_parent"),
            on="node_parent",
            how="left",
        ).select("span_id", "node_shapes", "node_types", "told_parent")
        told = told.unique("span_id", keep="first", maintain_order=True)
        twin_ids = told["span_id"].to_list()

        def complete(frame: pl.DataFrame) -> pl.DataFrame:
            joined = frame.join(told, on="span_id", how="left", maintain_order="left")
            shapeless = pl.col("input_shapes").is_null() | pl.col("input_types").list.contains(
                _LIST
            )
            fill = shapeless & pl.col("node_shapes").is_not_null()
            known = pl.col("told_parent").is_not_null() & pl.col("parent_id").is_in([0, *twin_ids])
            wrong = known & (pl.col("told_parent") != pl.col("parent_id"))
            self._losses.skip(_OTHER_PARENT, joined.select(wrong.sum()).item())
            return joined.with_columns(
                pl.when(wrong).then("told_parent").otherwise("parent_id").alias("parent_id"),
                *(
                    pl.when(fill)
                    .then(f"node_{name}")
                    .otherwise(f"input_{name}")
                    .alias(f"input_{name}")
                    for name in ("shapes", "types")
                ),
            ).drop("node_shapes", "node_types", "told_parent")

        self._part.revise("span", complete)

    def _append_touches(self, twins: pl.DataFrame) -> None:
        """Append `touch` rows of operators, and `memory` rows of the storages they touch."""
        found = self._found.frame()
        times = twins.select(
            "node", "span_id", "pid", "ts", end=pl.col("ts") + pl.col("dur").fill_null(0)
        )
        touches = found.join(times.unique("node"), on="node", maintain_order="left")
        self._losses.skip(_LONE_TOUCH, found.height - touches.height)
        self._losses.skip(_NO_STRIDES, self._touches.inexact)
        rows = touches.drop("node", "ts", "end").with_columns(
            launch_id=pl.lit(0, pl.UInt64), space=pl.lit("tensor"), granularity=pl.lit(1, pl.UInt32)
        )
        self._part.append("touch", rows.to_arrow(compat_level=pl.CompatLevel.oldest()))
        self._append_memory(touches)

    def _append_memory(self, touches: pl.DataFrame) -> None:
        lives = touches.group_by("pid", "device", "object_id").agg(
            allocate=pl.col("ts").min(), release=pl.col("end").max()
        )
        storages = self._touches.storages
        sizes = pl.DataFrame(
            {
                "object_id": [storage.object_id for storage in storages],
                "bytes": [storage.bytes for storage in storages],
            },
            schema={"object_id": pl.UInt64, "bytes": pl.Int64},
        )
        self._losses.skip(_LIVES, lives.height)
        rows = (
            lives.join(sizes, on="object_id")
            .unpivot(
                ["allocate", "release"],
                index=["pid", "device", "object_id", "bytes"],
                variable_name="event",
                value_name="ts",
            )
            .sort("object_id", "event")
            .with_columns(space=pl.lit("tensor"), stack_id=pl.lit(0, pl.UInt64))
        )
        self._part.append("memory", rows.to_arrow(compat_level=pl.CompatLevel.oldest()))


class _Gathered:
    """Rows, gathered one by one and held as columns.

    Args:
        schema: the columns.
    """

    def __init__(self, schema: Mapping[str, pa.DataType]) -> None:
        self._schema = pa.schema(list(schema.items()))
        self._rows: list[Sequence[Any]] = []
        self._tables = [self._schema.empty_table()]

    def add(self, row: Sequence[Any]) -> None:
        """Add a row."""
        self._rows.append(row)
        if len(self._rows) >= _BLOCK_ROWS:
            self._flush()

    def frame(self) -> pl.DataFrame:
        """Return all rows."""
        self._flush()
        frame = pl.from_arrow(pa.concat_tables(self._tables))
        assert isinstance(frame, pl.DataFrame)  # noqa: S101 (of a table)
        return frame

    def _flush(self) -> None:
        if self._rows:
            columns = [
                pa.array(values, column.type)
                for values, column in zip(zip(*self._rows, strict=True), self._schema, strict=True)
            ]
            self._tables.append(pa.Table.from_arrays(columns, schema=self._schema))
            self._rows = []


@lru_cache(maxsize=1 << 14)
def _measured(
    read: tuple[View, ...], written: tuple[View, ...]
) -> tuple[tuple[int, int, int], bool]:
    """Return the distinct bytes read, written and either, and whether they are exact."""
    parts = [coverage(views) for views in (read, written, read + written)]
    sizes = (parts[0].bytes, parts[1].bytes, parts[2].bytes)
    return sizes, all(part.exact for part in parts)
