"""Ranges and collectives of programs that stand still, for tests of `hang`."""

from __future__ import annotations

from typing import Any

MS = 1_000_000
MAIN = 100


def span(name: str, ts: int, *, rank: int = 0, tid: int = MAIN, **given: Any) -> dict[str, Any]:
    row = {"rank": rank, "pid": MAIN, "tid": tid, "span_id": ts // MS + 1, "level": "operator"}
    return row | {"name": name, "ts": ts, "dur": None} | given


def collective(rank: int, sequence: int, **given: Any) -> dict[str, Any]:
    row = {"rank": rank, "pid": MAIN, "device": rank, "communicator": "0", "peer": None}
    row |= {"sequence": sequence, "sequence_source": "recorded", "members": [0, 1, 2, 3]}
    operation = "allreduce" if sequence % 2 else "allgather"
    return row | {"operation": operation, "ts": sequence * MS, "dur": MS // 2} | given
