"""A training run of several ranks, with noise and planted causes, for tests of tools that compare ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

KERNELS = (("gemm", 400_000, 64), ("softmax", 100_000, 32), ("gelu", 150_000, 16), ("gemm", 300_000, 48))  # fmt: skip
"""Name, duration in ns and blocks of what a rank computes before each collective."""

TRANSFER = 200_000
END_SKEW = 4_000
PER_STEP = 3
EPOCH = 1_700_000_000_000_000_000


def ranks_run(
    seed: int = 0,
    *,
    ranks: int = 8,
    steps: int = 20,
    noise: float = 0.02,
    slow: Mapping[int, float] | None = None,
    more: Mapping[int, int] | None = None,
    late: Mapping[int, int] | None = None,
    clock: Mapping[int, int] | None = None,
    hosts: int = 0,
    name: str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
) -> dict[str, list[dict[str, Any]]]:
    """Return the tables of a run whose ranks compute, and meet in three allreduces each step.

    Args:
        seed: of the noise.
        ranks: how many.
        steps: how many.
        noise: standard deviation of a kernel's duration, as a share of it.
        slow: rank -> factor by which its kernels take longer.
        more: rank -> kernels that it runs more before each collective.
        late: rank -> ns that its host is late before each collective.
        clock: rank -> ns that its clock is ahead.
        hosts: over how many hosts the ranks are spread; 0 for hosts without names.
        name: of the communication kernel.
    """
    random = np.random.default_rng(seed)
    slow, more, late, clock = slow or {}, more or {}, late or {}, clock or {}
    tables: dict[str, list[dict[str, Any]]] = {"kernel": [], "collective": [], "span": [], "process": []}  # fmt: skip
    now, launch, sequence = EPOCH, [0] * ranks, 0
    begun = [[] for _ in range(ranks)]
    for _ in range(steps):
        for rank in range(ranks):
            begun[rank].append(now)
        for _ in range(PER_STEP):
            arrivals = []
            for rank in range(ranks):
                at = now + late.get(rank, 0)
                for kernel, usual, blocks in (*KERNELS, *KERNELS[:1] * more.get(rank, 0)):
                    factor = slow.get(rank, 1.0) * (1 + noise * random.standard_normal())
                    launch[rank] += 1
                    dur = max(1, round(usual * factor))
                    tables["kernel"].append(_kernel(rank, launch[rank], kernel, (at, dur), blocks))
                    at += dur
                arrivals.append(at)
            now = max(arrivals) + TRANSFER
            for rank, at in enumerate(arrivals):
                end = now + int(random.integers(END_SKEW))
                launch[rank] += 1
                row = _kernel(rank, launch[rank], name, (at, end - at), 24)
                tables["kernel"].append({**row, "stream": 20})
                common = {key: row[key] for key in ("rank", "pid", "device", "launch_id", "ts", "dur")}  # fmt: skip
                met = {"communicator": "", "sequence": sequence, "sequence_source": "counted"}
                told = {"operation": "allreduce", "stream": 20, "source": "name"}
                tables["collective"].append({**common, **met, **told})
            now, sequence = now + END_SKEW, sequence + 1
    for rank in range(ranks):
        host = f"node{rank * hosts // ranks}" if hosts else None
        tables["process"].append({"rank": rank, "pid": 100 + rank, "host": host})
        ends = [*begun[rank][1:], now]
        for number, (ts, end) in enumerate(zip(begun[rank], ends, strict=True)):
            step = {"level": "step", "name": f"step {number}", "span_id": number + 1, "tid": 1}
            tables["span"].append({"rank": rank, "pid": 100 + rank, "ts": ts, "dur": end - ts, **step})  # fmt: skip
    for rows in tables.values():
        for row in rows:
            if "ts" in row:
                row["ts"] += clock.get(row["rank"], 0)
    return tables


def _kernel(
    rank: int, launch: int, name: str, lasts: tuple[int, int], blocks: int
) -> dict[str, Any]:
    grid = {"grid_x": blocks, "grid_y": 1, "grid_z": 1, "block_x": 256, "block_y": 1, "block_z": 1}
    own = {"rank": rank, "pid": 100 + rank, "device": rank, "launch_id": launch, "stream": 7}
    return {**own, **grid, "name": name, "ts": lasts[0], "dur": lasts[1]}
