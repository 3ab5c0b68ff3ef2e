"""Ranks that exchange tokens with their experts, of which one may be hot, for tests of `expert_imbalance`."""

from __future__ import annotations

from typing import Any

import numpy as np


def experts_run(seed: int, *, hot: int | None = None, factor: float = 1.5, ranks: int = 4, layers: int = 12, told: bool = True) -> dict[str, list[dict[str, Any]]]:  # fmt: skip
    """Return ranks that exchange tokens, multiply, and exchange again, with 2 % of noise; `hot` has more."""
    random = np.random.default_rng(seed)
    tables: dict[str, list[dict[str, Any]]] = {"kernel": [], "collective": []}
    now, launch = 10**9, 0
    for layer in range(layers):
        lengths = [round(400_000 * (factor if rank == hot else 1) * (1 + 0.02 * random.standard_normal())) for rank in range(ranks)]  # fmt: skip
        ready = [now, now + 60_000 + max(lengths)]
        for rank, length in enumerate(lengths):
            common = {"rank": rank, "pid": rank + 1, "device": 0}
            begin = now + 50_000
            work = [("a2a", now, 50_000, 2 * layer), ("cutlass_grouped_gemm", begin, length, None)]
            work += [("a2a", begin + length, ready[1] - begin - length, 2 * layer + 1), ("softmax", ready[1] + 10, 90_000, None)]  # fmt: skip
            for place, (name, ts, dur, sequence) in enumerate(work):
                row = {**common, "launch_id": launch + place + 1, "ts": ts, "dur": dur, "stream": 7}
                tables["kernel"].append({**row, "name": name})
                if sequence is not None:
                    share = 1000 * (round(10 * factor) if rank == hot else 10) if told else None
                    tables["collective"].append({**row, "operation": "alltoall", "communicator": "ep", "sequence": sequence, "sequence_source": "recorded", "bytes_in": 10_000, "bytes_out": share})  # fmt: skip
        launch += 4
        now = ready[1] + 100_000
    return tables
