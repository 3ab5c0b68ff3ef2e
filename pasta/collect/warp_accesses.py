"""Raw accesses as they travel: a record for each instruction of a warp.

A record stands for up to 32 rows of the table `access`. Most values of an access are the same for
all lanes of its warp, so that records take a tenth of the bytes, and a file can be written from them
without making the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pasta.collect.channel_ring import Producer
from pasta.collect.parquet_runs import Codes, Column, Numbers, Runs, RunsFile
from pasta.schema import arrow_schema

LANES = 32
_OF_WARP = ("device", "launch_id", "request", "pc", "bytes", "op", "space", "warp", "block")
"""Columns of `access` that all lanes share."""
WARP = np.dtype(
    [
        ("launch_id", "<u8"),
        ("request", "<u8"),
        ("base", "<u8"),
        ("block", "<u8"),
        ("device", "<i4"),
        ("pc", "<u4"),
        ("bytes", "<u4"),
        ("warp", "<u4"),
        ("lanes", "<u4"),
        ("op", "u1"),
        ("space", "u1"),
        ("unused", "<u2"),
        ("distances", "<i4", (LANES,)),
    ]
)
"""A record: `lanes` has a bit for each lane that takes part, whose address is `base` plus its
distance; distances of other lanes mean nothing."""
_ITEMS = WARP.itemsize // 8
WARP_ACCESS: dict[str, pa.DataType] = {"record": pa.list_(pa.int64())}
"""What producers write: in each row the bytes of one record, as they lie in memory. One column
instead of a dozen, as this table is the one that must be quick."""
_GROUP_WARPS = 1 << 16
"""Records in a row group; with fewer, threads that write beside each other wait more for the interpreter."""
_ALL_LANES = np.uint32((1 << LANES) - 1)
_LANE_NUMBERS = np.arange(LANES, dtype=np.uint8)

Warps = NDArray[np.void]


def warps_of(batch: pa.RecordBatch) -> Warps:
    """Return a batch's records, where they lie.

    Raises:
        ValueError: a record is missing, or is shorter or longer.
    """
    if batch.num_columns != 1 or batch.column(0).null_count:
        raise ValueError("rows without a record")
    column = batch.column(0)
    _, offsets, _, items = column.buffers()
    if offsets is None or items is None:
        return np.empty(0, WARP)
    ends = np.frombuffer(memoryview(offsets), "<i4", batch.num_rows + 1, 4 * column.offset)
    if np.any(np.diff(ends) != _ITEMS):
        raise ValueError(f"records that are not {WARP.itemsize} bytes")
    return np.frombuffer(memoryview(items), WARP, batch.num_rows, 8 * int(ends[0]))


def rows_in(warps: Warps) -> int:
    """Return how many rows of `access` they stand for."""
    lanes = np.ascontiguousarray(warps["lanes"])
    partial = lanes[lanes != _ALL_LANES]
    return LANES * (len(lanes) - len(partial)) + int(np.unpackbits(partial.view(np.uint8)).sum())


def write_accesses(path: Path, warps: Warps, producer: Producer) -> int:
    """Write rows of `access`, in order of (launch_id, request, lane); return the file's size.

    Raises:
        OSError: it cannot be written; what there is of it is removed.
    """
    file = RunsFile(path, arrow_schema("access"))
    try:
        for group in _in_order(warps):
            file.write(*_columns(group, producer))
        return file.close()
    except BaseException:
        file.abandon()
        path.unlink(missing_ok=True)
        raise


def _taking_part(warps: Warps) -> NDArray[np.bool_]:
    """Return, for each warp and lane, whether it takes part."""
    masks = np.ascontiguousarray(warps["lanes"]).astype("<u4", copy=False).view(np.uint8)
    return np.unpackbits(masks, bitorder="little").view(np.bool_).reshape(-1, LANES)


def _in_order(warps: Warps) -> Iterator[Warps]:
    """Yield what has lanes that take part by launch and request, as much as a row group takes at a time.

    Where several rows make up one request their lanes may alternate: then each lane gets a row.
    """
    idle = warps["lanes"] == 0
    if idle.any():
        warps = _chosen(warps, ~idle)
    launch, request = (
        np.ascontiguousarray(warps["launch_id"]),
        np.ascontiguousarray(warps["request"]),
    )
    same_launch = launch[1:] == launch[:-1]
    later = launch[1:] > launch[:-1]
    if not np.all(later | (same_launch & (request[1:] >= request[:-1]))):
        warps = _chosen(warps, np.lexsort((request, launch)))
        launch, request = (
            np.ascontiguousarray(warps["launch_id"]),
            np.ascontiguousarray(warps["request"]),
        )
        same_launch = launch[1:] == launch[:-1]
    together = same_launch & (request[1:] == request[:-1])
    if together.any():
        yield from _lane_by_lane(warps, together)
        return
    for first in range(0, len(warps), _GROUP_WARPS):
        yield warps[first : first + _GROUP_WARPS]


def _chosen(warps: Warps, which: NDArray[Any]) -> Warps:
    """Return the records at places, or where a mask is set, each copied at once, not by fields."""
    chosen: Warps = warps.view(f"V{WARP.itemsize}")[which].view(WARP)
    return chosen


def _lane_by_lane(warps: Warps, together: NDArray[np.bool_]) -> Iterator[Warps]:
    """Yield ordered records, those that share a request with the one before or after lane by lane.

    What they come to is up to 32 times as much: so places are ordered, and records made as they are taken.
    """
    shared = np.zeros(len(warps), np.bool_)
    shared[1:] |= together
    shared[:-1] |= together
    split = np.flatnonzero(shared)
    piece, lane = np.nonzero(_taking_part(_chosen(warps, shared)))
    lanes = np.uint32(1) << lane.astype(np.uint32)
    # Of equal launch and request, records lie behind each other: the first stands for all of them.
    request = np.maximum.accumulate(np.where(np.append(False, together), 0, np.arange(len(warps))))
    order = np.lexsort((lane, request[split[piece]]))
    places = np.concatenate([np.flatnonzero(~shared), split[piece[order]]])
    masks = np.concatenate([warps["lanes"][~shared], lanes[order]])
    merged = np.argsort(request[places], kind="stable")
    for first in range(0, len(merged), _GROUP_WARPS):
        taken = merged[first : first + _GROUP_WARPS]
        made = _chosen(warps, places[taken])
        made["lanes"] = masks[taken]
        yield made


def _columns(warps: Warps, producer: Producer) -> tuple[dict[str, Column], int]:
    """Return the columns of a row group, and its rows."""
    addresses = warps["base"].view(np.int64)[:, None] + warps["distances"]
    lanes = np.broadcast_to(_LANE_NUMBERS, addresses.shape)
    counts: NDArray[np.uint8] | int = LANES
    if np.all(warps["lanes"] == _ALL_LANES):
        address, lane = addresses.reshape(-1), lanes.reshape(-1)
    else:
        takes_part = _taking_part(warps)
        counts = takes_part.sum(axis=1, dtype=np.uint8)
        address, lane = addresses[takes_part], lanes[takes_part]
    rows = len(address)
    columns: dict[str, Column] = {
        "rank": Runs(np.array([producer.rank], np.int32), rows),
        "pid": Runs(np.array([producer.pid], np.int64), rows),
        "lane": Codes(lane, LANES),
        "address": Numbers(address.view(np.uint64)),
    }
    return columns | {name: _runs(warps[name], counts) for name in _OF_WARP}, rows


def _runs(values: NDArray[Any], counts: NDArray[np.uint8] | int) -> Runs:
    return Runs(np.ascontiguousarray(values), counts)
