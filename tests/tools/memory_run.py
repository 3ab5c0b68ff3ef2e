"""A memory run of three launches, small enough to count by hand.

Launch 1 and 3 are `copy` (inside `aten::copy_`), launch 2 is `sum`; allocation 1 has 1,024 bytes and
tensors 1 and 2 in its halves, allocation 2 has 512 bytes and no tensor. `ACCESSES` are the accesses
one by one, of which `TABLES` has the sums.
"""

from __future__ import annotations

BASE = 0x7F00_0000_0000


def allocate(ts, space, thing, address, size):
    return {"tid": 1, "ts": ts, "device": 0, "event": "allocate", "space": space, "object_id": thing, "address": address, "bytes": size}  # fmt: skip


def touch(launch, space, thing=0, **more):
    return {"device": 0, "launch_id": launch, "span_id": 0, "space": space, "object_id": thing, "granularity": 512, **more}  # fmt: skip


def counts(reads, writes, atomics=0, size=None):
    """Counts, and with `size` the bytes of accesses of that size."""
    found = {"reads": reads, "writes": writes, "atomics": atomics}
    if size is None:
        return found
    return {**found, "bytes_read": size * (reads + atomics), "bytes_written": size * (writes + atomics)}  # fmt: skip


MEMORY = [
    allocate(1, "device", 1, BASE, 1_024),
    allocate(2, "device", 2, BASE + 0x40_0000, 512),
    allocate(3, "tensor", 1, BASE, 512),
    allocate(4, "tensor", 2, BASE + 512, 512),
]
KERNELS = [
    {"device": 0, "launch_id": launch, "correlation": launch, "ts": 10 * launch, "name": name}
    for launch, name in ((1, "copy"), (2, "sum"), (3, "copy"))
]
CALLS = [
    {"tid": 1, "ts": 10 * launch, "dur": 1, "correlation": launch, "name": "cuLaunchKernel", "stack_id": 5}
    for launch in (1, 2, 3)
]  # fmt: skip
SPANS = [
    {"tid": 1, "ts": 9, "dur": 3, "span_id": 1, "level": "operator", "name": "aten::copy_"},
    {"tid": 1, "ts": 29, "dur": 3, "span_id": 2, "level": "operator", "name": "aten::copy_"},
    {"tid": 1, "ts": 0, "dur": 5, "span_id": 3, "level": "module", "name": "Setup"},
]
FRAMES = [
    {"stack_id": 5, "depth": depth, "function": function, "file": "a.py", "line": line}
    for depth, function, line in ((0, "main", 3), (1, "step", 9))
]


def copy(launch):
    """128 reads of 4 bytes from tensor 1, 128 writes to tensor 2."""
    return [
        touch(launch, "global", **counts(128, 128, size=4), unique_bytes=1_024),
        touch(launch, "device", 1, **counts(128, 128), unique_bytes=1_024),
        touch(launch, "device", 1, block=0, **counts(128, 0)),
        touch(launch, "device", 1, block=1, **counts(0, 128)),
        touch(launch, "tensor", 1, **counts(128, 0), unique_bytes=512),
        touch(launch, "tensor", 2, **counts(0, 128), unique_bytes=512),
    ]


SUM = [
    touch(2, "global", **counts(100, 0, 10, size=8), unique_bytes=1_536),
    touch(2, "shared", **counts(40, 20, size=4)),
    touch(2, "remote_shared", **counts(1, 0, size=4)),
    touch(2, "local", **counts(6, 6, size=4)),
    touch(2, "unknown", **counts(5, 0)),
    touch(2, "device", 1, **counts(95, 0), unique_bytes=512),
    touch(2, "device", 1, block=1, **counts(95, 0)),
    touch(2, "device", 2, **counts(0, 0, 10), unique_bytes=512),
    touch(2, "device", 2, block=0, **counts(0, 0, 10)),
    touch(2, "tensor", 2, **counts(95, 0), unique_bytes=512),
    touch(2, "tensor", 0, **counts(0, 0, 10), unique_bytes=512),
]
TABLES = {
    "memory": MEMORY,
    "kernel": KERNELS,
    "call": CALLS,
    "span": SPANS,
    "frame": FRAMES,
    "touch": [*copy(1), *SUM, *copy(3)],
}


def accesses(launch, op, count, address, size, *, space=0, within=512):
    """Accesses by whole warps, one after the other in `within` bytes from `address` on."""
    return [
        {"device": 0, "launch_id": launch, "op": op, "space": space, "request": 100 * op + 1_000 * space + number // 32, "lane": number % 32, "address": address + number * size % within, "bytes": size}
        for number in range(count)
    ]  # fmt: skip


READ, WRITE, ATOMIC = 0, 1, 2
SHARED, LOCAL, REMOTE_SHARED = 1, 2, 4
ACCESSES = [
    *accesses(1, READ, 128, BASE, 4),
    *accesses(1, WRITE, 128, BASE + 512, 4),
    *accesses(2, READ, 95, BASE + 512, 8),
    *accesses(2, READ, 5, BASE - 4_096, 8),
    *accesses(2, ATOMIC, 10, BASE + 0x40_0000, 8),
    *accesses(2, READ, 40, 0, 4, space=SHARED),
    *accesses(2, WRITE, 20, 0, 4, space=SHARED),
    *accesses(2, READ, 1, 0, 4, space=REMOTE_SHARED),
    *accesses(2, READ, 6, 0, 4, space=LOCAL),
    *accesses(2, WRITE, 6, 0, 4, space=LOCAL),
    *accesses(3, READ, 128, BASE, 4),
    *accesses(3, WRITE, 128, BASE + 512, 4),
]
