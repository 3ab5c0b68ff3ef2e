"""Kernels on several ranks and streams, with noise and planted causes of slowness, for tests of variability."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

KERNELS = (("gemm", 40_000, 64), ("gemm", 30_000, 48), ("softmax", 10_000, 32), ("gelu", 15_000, 16))  # fmt: skip
"""Name, duration in ns and blocks of what each stream runs again and again."""

EPOCH = 1_700_000_000_000_000_000
PERIOD = 100_000


def varied_run(
    seed: int = 0,
    *,
    ranks: int = 2,
    streams: int = 2,
    rounds: int = 100,
    noise: float = 0.02,
    slow_rank: Mapping[int, float] | None = None,
    slow_stream: Mapping[tuple[int, int], float] | None = None,
    slow_rounds: tuple[int, range, float] | None = None,
    slow_launch: tuple[int, int, float] | None = None,
    copies: tuple[int, float, float] | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """Return the tables of a run in which each stream runs all kernels in each round of 100 us.

    Args:
        seed: of the noise.
        ranks: how many.
        streams: of each rank.
        rounds: how many.
        noise: standard deviation of a duration, as a share of it.
        slow_rank: rank -> factor of its durations.
        slow_stream: rank and stream -> factor of its durations.
        slow_rounds: rank, rounds and the factor of durations in them.
        slow_launch: rank, round and the factor of its first launch.
        copies: rank on which copies run beside kernels, share of the kernels, and factor of their durations.
    """
    random = np.random.default_rng(seed)
    tables: dict[str, list[dict[str, Any]]] = {"kernel": [], "copy": []}
    for rank in range(ranks):
        for stream in range(streams):
            at = EPOCH + 1_000 * stream
            for turn in range(rounds):
                at = max(at, EPOCH + turn * PERIOD)
                for place, (name, usual, blocks) in enumerate(KERNELS):
                    factor = 1 + noise * random.standard_normal()
                    factor *= (slow_rank or {}).get(rank, 1) * (slow_stream or {}).get((rank, stream), 1)  # fmt: skip
                    if slow_rounds and rank == slow_rounds[0] and turn in slow_rounds[1]:
                        factor *= slow_rounds[2]
                    if slow_launch and (rank, turn, place, stream) == (*slow_launch[:2], 0, 0):
                        factor *= slow_launch[2]
                    copied = (
                        copies is not None and rank == copies[0] and random.random() < copies[1]
                    )
                    if copies is not None and copied:
                        factor *= copies[2]
                    dur = max(1, round(usual * factor))
                    number = len(tables["kernel"]) + 1
                    common = {"rank": rank, "pid": 100 + rank, "device": 0, "correlation": number}
                    tables["kernel"].append(
                        {**common, "launch_id": number, "ts": at, "dur": dur, "name": name}
                        | {"stream": 7 + stream, "grid_x": blocks, "grid_y": 1, "grid_z": 1}
                        | {"block_x": 256, "block_y": 1, "block_z": 1}
                    )
                    if copied:
                        tables["copy"].append(
                            {**common, "ts": at + dur // 4, "dur": dur // 2, "kind": "HtoD"}
                            | {"stream": 30, "bytes": 1 << 20, "correlation": 10_000_000 + number}
                        )
                    at += dur + 500
    return {name: rows for name, rows in tables.items() if rows}
