"""Adding what an execution trace tells to the spans of its Kineto twin."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pasta.collect.containers.json_events import EventReader
from pasta.collect.importers.torch_execution.communication import Communication
from pasta.collect.importers.torch_execution.gathered import Gathered
from pasta.collect.importers.torch_execution.lives import Lives
from pasta.collect.importers.torch_execution.nodes import (
    NODE_KEYS,
    Node,
    decode_nodes,
    operation,
)
from pasta.collect.importers.torch_execution.storages import Touch, Touches
from pasta.collect.importers.torch_execution.twins import TWIN_LEVELS, in_order, pair
from pasta.collect.importers.torch_execution.waiting import Waiting
from pasta.collect.losses import Losses
from pasta.collect.sources import Source
from pasta.collect.target.torch.views import View, coverage
from pasta.errors import InputError
from pasta.trace_merge import Transform
from pasta.trace_writer import PartWriter

_FRAME = "[pytorch|profiler|execution_"
_ORDERING = ("tid", "ts", "dur", "external_id", "level", "name", "sequence")
_TIMES = ("span_id", "pid", "tid", "ts", "dur")
_BLOCK_BYTES = 1 << 20  # nodes take many times as much once they are decoded
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

    Memory holds some numbers of each node and span; all else of them is on disk.

    Args:
        part: its tables, finished.
        losses: where what is not joined is counted.
    """

    def __init__(self, part: PartWriter, losses: Losses) -> None:
        self._part = part
        self._losses = losses
        self._scratch = part.folder.with_name(f"{part.folder.name}-scratch")

    def read(self, source: Source) -> Mapping[str, Transform]:
        """Read the nodes of `source`, and append and change what they tell of.

        Raises:
            InputError: the file cannot be read, or there are no operators to complete.
        """
        self._communication = Communication(self._losses)
        self._touches = Touches(Waiting(self._scratch))
        self._nodes = Gathered(self._scratch / "nodes", _NODE_SCHEMA)
        self._found = Gathered(self._scratch / "touches", _TOUCH_SCHEMA)
        try:
            self._read_nodes(source)
            twins = self._twins()
            self._communication.complete(
                self._part, twins.select("node", "tid", "ts", "end"), other_step=self._other_step
            )
            self._complete_spans(twins)
            if self._part.rows.get("memory"):
                self._losses.skip(_OTHER_MEMORY, self._found.height)
            else:
                self._append_touches(twins)
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)
        return {}

    def _read_nodes(self, source: Source) -> None:
        reader: EventReader[Node] = EventReader(
            source.chunks,
            decode_nodes,
            self._losses,
            source.damage,
            array="nodes",
            keys=NODE_KEYS,
            block_bytes=_BLOCK_BYTES,
        )
        for nodes in reader:
            self._take(nodes)
        self._note(self._touches.rest())
        self._nodes.close()
        self._found.close()
        if cut := reader.cut:
            where = cut.rpartition(" at ")[2]
            self._losses.fault(f"{cut}, {reader.kept} nodes kept", where=where)

    def _take(self, nodes: Iterable[Node]) -> None:
        unknown = broken = 0
        for node in nodes:
            taken = operation(node)
            if taken is None:
                unknown += 1
                continue
            broken += taken.broken
            self._communication.add(node, taken)
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
            for object_id, device, read, written in touches:
                sizes, exact = _measured(read, written)
                self._losses.skip(_BOUNDED, int(not exact))
                self._found.add((node, object_id, device, *sizes))

    def _twins(self) -> pl.DataFrame:
        """Return the pairs in order of the spans' rows.

        Returns:
            `row` of the span, `place` of the node and its number `node`, and of the span `span_id`,
            `pid`, `tid`, `ts` and `end`.
        """
        nodes = self._node_numbers()
        spans = in_order(self._span_numbers())
        found = pair(nodes.with_columns(begin="node"), spans.with_columns(begin="ts"))
        self._losses.skip(_AMBIGUOUS, found.ambiguous)
        self._losses.skip(_ALIKE, found.alike)
        self._losses.skip(_LONE_NODE, nodes.height - len(found.nodes) - found.ambiguous)
        self._losses.skip(_LONE_SPAN, spans.height - len(found.spans))
        told, known = nodes["sequence"][found.nodes], spans["sequence"][found.spans]
        elsewhere = int((told != known).sum() or 0)
        self._other_step = elsewhere > 0
        self._losses.skip(_OTHER_STEP, elsewhere)
        twins = nodes.select("place", "node")[found.nodes].with_columns(spans["row"][found.spans])
        return self._with_times(twins.sort("row"))

    def _node_numbers(self) -> pl.DataFrame:
        """Return the nodes in order of begin: place, number, thread, name's digest, sequence."""
        pieces = [
            block.select("node", "tid", pl.col("name").hash(), "sequence")
            for block in self._nodes.blocks()
        ]
        empty = pl.DataFrame(
            schema={"node": pl.UInt64, "tid": pl.Int64, "name": pl.UInt64, "sequence": pl.Int64}
        )
        nodes = pl.concat([empty, *pieces]).with_row_index("place")
        return nodes[nodes["node"].arg_sort()]

    def _span_numbers(self) -> pl.DataFrame:
        """Return the spans that may be a node's, with `row` and a digest as `name`."""
        if not self._span_files():
            raise InputError(f"{self._losses.source}: its Kineto file has no operators to complete")
        row = 0
        pieces = []
        for frame in self._span_slices(_ORDERING):
            chosen = frame.with_row_index("row", row).filter(pl.col("level").is_in(TWIN_LEVELS))
            pieces.append(chosen.drop("level").with_columns(pl.col("name").hash()))
            row += frame.height
        return pl.concat(pieces)

    def _with_times(self, twins: pl.DataFrame) -> pl.DataFrame:
        rows = twins["row"].to_numpy()
        row = 0
        pieces = []
        for frame in self._span_slices(_TIMES):
            start, stop = np.searchsorted(rows, [row, row + frame.height])
            pieces.append(frame[rows[start:stop].astype(np.int64) - row])
            row += frame.height
        of_spans = pl.concat(pieces).select(
            "span_id", "pid", "tid", "ts", end=pl.col("ts") + pl.col("dur").fill_null(0)
        )
        return twins.hstack(of_spans)

    def _span_files(self) -> list[Path]:
        return sorted((self._part.folder / "span").glob("*.parquet"))

    def _span_slices(self, columns: Iterable[str]) -> Iterator[pl.DataFrame]:
        for path in self._span_files():
            with pq.ParquetFile(path) as file:
                for group in range(file.num_row_groups):
                    yield pl.DataFrame(file.read_row_group(group, columns=list(columns)))

    def _complete_spans(self, twins: pl.DataFrame) -> None:
        """Give spans the shapes, types and parents that they lack or that nesting got wrong."""
        by_node = _ByNode(twins)
        rows, places = twins["row"].to_numpy(), twins["place"].to_numpy().astype(np.int64)
        span_ids = twins["span_id"].to_numpy()
        sorted_ids = np.sort(span_ids)
        row = 0

        def complete(frame: pl.DataFrame) -> pl.DataFrame:
            nonlocal row
            start, stop = np.searchsorted(rows, [row, row + frame.height])
            nodes = self._nodes.rows(places[start:stop])
            parents, found = by_node.find(nodes["node_parent"].to_numpy())
            told = nodes.select("node_shapes", "node_types").with_columns(
                row=pl.Series(rows[start:stop]),
                told_parent=pl.Series(pa.array(span_ids[parents], mask=~found)),
            )
            joined = frame.with_row_index("row", row).join(
                told, on="row", how="left", maintain_order="left"
            )
            row += frame.height
            return self._completed(joined, sorted_ids).drop("row")

        self._part.revise("span", complete)

    def _completed(self, joined: pl.DataFrame, span_ids: NDArray[np.uint64]) -> pl.DataFrame:
        """Return spans with what is told of them in place of what they lack.

        Args:
            joined: spans with `node_shapes`, `node_types` and `told_parent`, which go.
            span_ids: of all that have a twin, in order.
        """
        shapeless = pl.col("input_shapes").is_null() | pl.col("input_types").list.contains(_LIST)
        fill = shapeless & pl.col("node_shapes").is_not_null()
        parent_ids = joined["parent_id"].to_numpy()
        twin = (parent_ids == 0) | _is_in(parent_ids, span_ids)
        known = pl.col("told_parent").is_not_null() & pl.Series(twin)
        wrong = known & (pl.col("told_parent") != pl.col("parent_id"))
        self._losses.skip(_OTHER_PARENT, joined.select(wrong.sum()).item())
        return joined.with_columns(
            pl.when(wrong).then("told_parent").otherwise("parent_id").alias("parent_id"),
            *(
                pl.when(fill).then(f"node_{name}").otherwise(f"input_{name}").alias(f"input_{name}")
                for name in ("shapes", "types")
            ),
        ).drop("node_shapes", "node_types", "told_parent")

    def _append_touches(self, twins: pl.DataFrame) -> None:
        """Append `touch` rows of operators, and `memory` rows of the storages they touch."""
        by_node = _ByNode(twins)
        lives = Lives(self._touches.sizes)
        for block in self._found.blocks():
            twin, found = by_node.find(block["node"].to_numpy())
            self._losses.skip(_LONE_TOUCH, int((~found).sum()))
            of_spans = twins.select("span_id", "pid", "ts", "end")[twin[found]]
            touches = block.filter(pl.Series(found)).drop("node").hstack(of_spans)
            lives.add(touches)
            rows = touches.drop("ts", "end").with_columns(
                launch_id=pl.lit(0, pl.UInt64),
                space=pl.lit("tensor"),
                granularity=pl.lit(1, pl.UInt32),
            )
            self._part.append("touch", rows.to_arrow(compat_level=pl.CompatLevel.oldest()))
        self._losses.skip(_NO_STRIDES, self._touches.inexact)
        self._losses.skip(_LIVES, lives.count)
        for memory in lives.rows():
            self._part.append("memory", memory.to_arrow(compat_level=pl.CompatLevel.oldest()))


class _ByNode:
    """The twins by the numbers of their nodes; of those with one number, the first counts."""

    def __init__(self, twins: pl.DataFrame) -> None:
        numbers = twins["node"].to_numpy()
        self._order = np.argsort(numbers, kind="stable")
        self._numbers = numbers[self._order]

    def find(self, nodes: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the twin of each node, and whether it has one; the first where not."""
        if not len(self._numbers):
            return np.zeros(len(nodes), dtype=np.int64), np.zeros(len(nodes), dtype=bool)
        place = np.minimum(np.searchsorted(self._numbers, nodes), len(self._numbers) - 1)
        return self._order[place], self._numbers[place] == nodes


def _is_in(values: NDArray[np.uint64], known: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Tell which values are among those that are known, which are in order."""
    if not len(known):
        return np.zeros(len(values), dtype=bool)
    found: NDArray[np.bool_] = (
        known[np.minimum(np.searchsorted(known, values), len(known) - 1)] == values
    )
    return found


@lru_cache(maxsize=1 << 14)
def _measured(
    read: tuple[View, ...], written: tuple[View, ...]
) -> tuple[tuple[int, int, int], bool]:
    """Return the distinct bytes read, written and either, and whether they are exact."""
    parts = [coverage(views) for views in (read, written, read + written)]
    sizes = (parts[0].bytes, parts[1].bytes, parts[2].bytes)
    return sizes, all(part.exact for part in parts)
