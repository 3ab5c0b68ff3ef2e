"""Kernels whose launch is not in the trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from pasta.tools.checks.words import named, of
from pasta.trace import Trace

KEY = ["rank", "pid", "correlation"]

_KNOWN = {name: pl.col(name).fill_null(0) for name in KEY}

PIECE_CALLS = 1 << 23
"""Calls whose ids are held at once; of more, one piece of the ids is looked up after the other."""


def launch_warnings(trace: Trace) -> list[str]:
    """Say which ranks have kernels but no calls, and which kernels have no launch among the calls."""
    if not trace.has("kernel"):
        return []
    kernels, calls = _by_rank(trace, "kernel"), _by_rank(trace, "call")
    without = [rank for rank in kernels if not calls.get(rank)]
    said = []
    if without:
        of_ranks = "" if len(without) == len(kernels) else f" of {len(without):,} ranks"
        number = sum(kernels[rank] for rank in without)
        here = _KNOWN["rank"].is_in(without)
        said.append(
            f"{of(number, sum(kernels.values()), 'kernels')}{of_ranks} come without any call{_no_copy(trace)}:"
            f" nothing tells what launched them (first: {named(trace, 'kernel', here)})"
        )
    with_calls = [rank for rank in kernels if rank not in without]
    missing = [one for rank in with_calls for one in _missing(trace, rank, calls[rank])]
    if missing:
        number = sum(count for count, _ in missing)
        total = sum(kernels[rank] for rank in with_calls)
        first = min(
            (first for _, first in missing), key=lambda one: (one["ts"] is None, one["ts"] or 0)
        )
        said.append(
            f"{of(number, total, 'kernels')} have no launch among the calls: their operators and the"
            f" delay of their launch are unknown (first: {named(trace, 'kernel', _is(first))})"
        )
    return said


def _by_rank(trace: Trace, table: str) -> dict[int, int]:
    if not trace.has(table):
        return {}
    counted = trace.scan(table).group_by(_KNOWN["rank"]).agg(pl.len()).sort("rank")
    return dict(counted.collect(engine="streaming").rows())


def _no_copy(trace: Trace) -> str:
    return "" if trace.has("copy") else " or copy"


def _missing(trace: Trace, rank: int, calls: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield, for each piece of the ids, how many kernels of a rank have no launch, and the first."""
    pieces = -(-calls // PIECE_CALLS)
    for piece in range(pieces):
        here = (_KNOWN["rank"] == rank) & (_KNOWN["correlation"] % pieces == piece)
        launches = trace.scan("call", [rank]).filter(here).select(**_KNOWN)
        kernels = trace.scan("kernel", [rank]).filter(here).select("ts", **_KNOWN)
        rest = kernels.join(launches.filter(pl.col("correlation") != 0), on=KEY, how="anti")
        counted = [rest.select(pl.len()), rest.bottom_k(1, by=["ts", *KEY])]
        number, first = pl.collect_all(counted, engine="streaming")
        if first.height:
            yield number.item(), first.row(0, named=True)


def _is(first: dict[str, Any]) -> pl.Expr:
    return pl.col("ts").eq_missing(first["ts"]) & pl.all_horizontal(
        _KNOWN[name] == first[name] for name in KEY
    )
