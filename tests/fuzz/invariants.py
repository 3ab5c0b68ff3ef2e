"""What holds of the tables of every import, whatever was in the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pasta.schema import TABLES

TIME_LIMIT = 1 << 62
"""No start, and no end, is as far as this from zero, in ns."""

_NEVER_NEGATIVE = frozenset({
    *("dur", "bytes", "bytes_in", "bytes_out", "unique_read", "unique_written", "unique_bytes"),
    *("reads", "writes", "atomics", "bytes_read", "bytes_written", "count", "memory_bytes"),
    *("total_allocated", "total_reserved", "depth"),
})  # fmt: skip
_NEVER_NULL = frozenset({"rank", "pid"})
_ONE_OF = {
    ("span", "level"): {
        "run",
        "step",
        "phase",
        "module",
        "operator",
        "function",
        "annotation",
        "library",
    },
    ("memory", "event"): {"allocate", "release"},
    ("memory", "space"): {"device", "managed", "pinned", "pool", "tensor", "host"},
    ("collective", "sequence_source"): {"recorded", "counted", None},
    ("collective", "source"): {"arguments", "name", None},
}
_UNIQUE = {
    "kernel": ("rank", "pid", "launch_id"),
    "span": ("rank", "pid", "span_id"),
    "frame": ("rank", "pid", "stack_id", "depth"),
    "process": ("rank", "pid"),
    "thread": ("rank", "pid", "tid"),
}
_LOSS_KINDS_MAX = 60
_REASON_MAX = 400


def check_tables(tables: Mapping[str, pa.Table]) -> None:
    """Assert that the tables of one rank keep their promises.

    Raises:
        AssertionError: one is not kept; the message says which.
    """
    for name, table in tables.items():
        table.validate(full=True)
        assert table.schema.equals(TABLES[name].schema), f"{name}: has another schema"
        _check_columns(name, table)
        _check_times(name, table)
        if name in _UNIQUE:
            _check_unique(name, table.select(_UNIQUE[name]))
    if "span" in tables:
        _check_parents(tables["span"])
    if "loss" in tables:
        _check_losses(tables["loss"])
    if "process" in tables:
        _check_order(tables["process"])
    _check_stacks(tables)


def _check_columns(name: str, table: pa.Table) -> None:
    for column in table.schema.names:
        values = table[column]
        place = f"{name}.{column}"
        if column in _NEVER_NEGATIVE and pa.types.is_signed_integer(values.type):
            least = pc.min(values).as_py()
            assert least is None or least >= 0, f"{place}: {least} is negative"
        if column in _NEVER_NULL:
            assert values.null_count == 0, f"{place}: is null"
        allowed = _ONE_OF.get((name, column))
        if allowed is not None:
            other = set(values.unique().to_pylist()) - allowed
            assert not other, f"{place}: {other} is none of {allowed}"


def _check_times(name: str, table: pa.Table) -> None:
    if "ts" not in table.schema.names:
        return
    start = table["ts"]
    dur = table["dur"] if "dur" in table.schema.names else pa.nulls(len(start), pa.int64())
    for time, what in ((start, "start"), (_sum(start, dur), "end")):
        far = pc.max(pc.max_element_wise(time, pc.negate(time))).as_py()
        assert far is None or far < TIME_LIMIT, f"{name}: {what} {far} is beyond the limit"
    known = pc.drop_null(start).to_numpy()
    assert (np.diff(known) >= 0).all(), f"{name}: is not in order of ts"


def _sum(start: Any, dur: Any) -> Any:
    try:
        return pc.add_checked(start, pc.fill_null(dur, 0))
    except pa.ArrowInvalid as error:
        raise AssertionError(f"an end does not fit into 64 bits: {error}") from error


def _check_unique(name: str, keys: pa.Table) -> None:
    last = keys.column_names[-1]
    if name in ("kernel", "span"):
        least = pc.min(keys[last]).as_py()
        assert least != 0, f"{name}.{last}: is 0"
        assert keys[last].null_count == 0, f"{name}.{last}: is null"
    distinct = keys.group_by(keys.column_names).aggregate([]).num_rows
    assert distinct == keys.num_rows, f"{name}: {keys.num_rows - distinct} repeated {last}"


def _check_parents(spans: pa.Table) -> None:
    """Assert that parents are there, are not later, and are of the same thread."""
    rows = spans.select(["pid", "tid", "ts", "span_id", "parent_id"]).to_pylist()
    known = {(row["pid"], row["span_id"]): row for row in rows}
    for row in rows:
        if not row["parent_id"]:
            continue
        parent = known.get((row["pid"], row["parent_id"]))
        assert parent is not None, f"span {row['span_id']}: has no such parent {row['parent_id']}"
        assert parent is not row, f"span {row['span_id']}: is its own parent"
        assert parent["tid"] == row["tid"], f"span {row['span_id']}: parent on another thread"
        assert parent["ts"] <= row["ts"], f"span {row['span_id']}: begins before its parent"


def _check_losses(losses: pa.Table) -> None:
    reasons = losses["reason"].to_pylist()
    assert len(reasons) <= _LOSS_KINDS_MAX, f"{len(reasons)} kinds of losses: {reasons[:3]}"
    for reason, count in zip(reasons, losses["count"].to_pylist(), strict=True):
        assert 0 < len(reason) <= _REASON_MAX, (
            f"a reason of {len(reason)} characters: {reason[:99]}"
        )
        assert reason.isprintable(), f"a reason that is no line: {reason!r}"
        assert count > 0, f"{reason}: lost {count} times"


def _check_order(processes: pa.Table) -> None:
    for row in processes.select(["pid", "started", "ended"]).to_pylist():
        if row["started"] is not None and row["ended"] is not None:
            assert row["started"] <= row["ended"], f"process {row['pid']}: ends before it starts"


def _check_stacks(tables: Mapping[str, pa.Table]) -> None:
    """Assert that every stack that a row refers to is in `frame`."""
    known = set()
    if "frame" in tables:
        frame = tables["frame"]
        known = set(zip(frame["pid"].to_pylist(), frame["stack_id"].to_pylist(), strict=True))
        assert not any(stack in (0, None) for _, stack in known), "frame: of stack 0"
    for name, table in tables.items():
        if name == "frame" or "stack_id" not in table.schema.names:
            continue
        stacks = zip(table["pid"].to_pylist(), table["stack_id"].to_pylist(), strict=True)
        missing = {stack for stack in stacks if stack[1]} - known
        assert not missing, f"{name}: stacks that are not in frame: {sorted(missing)[:3]}"
