"""Ranks that reduce while they compute, for tests of `comm_overlap`."""

from __future__ import annotations

import random


def kernel(launch, ts, dur, stream=7, **others):
    return {"device": 0, "stream": stream, "launch_id": launch, "correlation": launch, "ts": ts, "dur": dur, "name": "k", **others}  # fmt: skip


def communication(launch, ts, dur):
    row = {"device": 0, "launch_id": launch, "ts": ts, "dur": dur, "operation": "allreduce"}
    return kernel(launch, ts, dur, stream=20), row


def step(number, ts, dur):
    return {"level": "step", "name": f"step {number}", "tid": 1, "span_id": number + 1, "ts": ts, "dur": dur}  # fmt: skip


def hidden_run(seed, longer=None, ranks=2, steps=12):
    """Return steps of two ranks that compute 1 ms, and reduce 400 us, all but the last 60 us at the same time.

    Noise is of 3 %, so that what is exposed varies by half; `longer` is (rank, step) -> ns more.
    """
    noise = random.Random(seed)
    tables = {"kernel": [], "collective": [], "span": []}
    for rank in range(ranks):
        own, now = {"rank": rank, "pid": 1 + rank}, 0
        for number in range(steps):
            computed, reduced = (round(dur * noise.gauss(1, 0.03)) for dur in (1_000_000, 400_000))
            reduced += (longer or {}).get((rank, number), 0)
            row, met = communication(2 * number + 2, now + 660_000, reduced)
            tables["kernel"] += [{**own, **kernel(2 * number + 1, now, computed)}, {**own, **row}]
            tables["collective"].append({**own, **met})
            lasts = max(computed, 660_000 + reduced) + 20_000
            tables["span"].append({**own, **step(number, now, lasts)})
            now += lasts
    return tables
