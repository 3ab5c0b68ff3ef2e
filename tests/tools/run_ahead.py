"""A host that runs ahead of its device, for tests of `queue_length`."""

from __future__ import annotations

import random


def call(correlation, ts, dur=2, name="cudaLaunchKernel"):
    return {"tid": 1, "ts": ts, "dur": dur, "correlation": correlation, "name": name}


def kernel(correlation, ts, dur, name="k", stream=7):
    return {"device": 0, "stream": stream, "ts": ts, "dur": dur, "correlation": correlation, "name": name}  # fmt: skip


def run_ahead(seed, late=None):
    """A hundred launches every 10 us of kernels of 12 us; before the `late` one the host sleeps."""
    noise = random.Random(seed)
    kernels, calls, at, free = [], [], 0, 0
    for n in range(1, 101):
        at = free + 500_000 if n == late else at
        calls.append(call(n, at, 5_000))
        begin = max(free, at + 6_000)
        free = begin + noise.randrange(11_000, 13_000)
        kernels.append(kernel(n, begin, free - begin, "victim" if n == late else "k"))
        at += 10_000
    return {"kernel": kernels, "call": calls}
