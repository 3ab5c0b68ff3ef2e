"""Three steps of a hand-made training run, for tests of tools that look at its memory."""

from __future__ import annotations


def event(kind, ts, address, size, **others):
    return {"ts": ts, "tid": 1, "device": 0, "event": kind, "space": "tensor", "address": address, "bytes": size, "object_id": 0, "stack_id": 0, **others}  # fmt: skip


def life(start, end, address, size, **others):
    rows = [event("allocate", start, address, size, **others)]
    if end is not None:
        rows.append(event("release", end, address, size, **others))
    return rows


def steps(count=3):
    """Steps of 100 ns: forward from 10, backward from 40, optimizer from 70 on."""
    spans = []
    for start in range(0, 100 * count, 100):
        spans += [
            {"level": "step", "name": f"step {start // 100}", "ts": start, "dur": 100},
            {"level": "phase", "name": "forward", "ts": start + 10, "dur": 30},
            {"level": "phase", "name": "backward", "ts": start + 40, "dur": 30},
            {"level": "phase", "name": "optimizer", "ts": start + 70, "dur": 30},
            {"level": "operator", "name": "aten::mm", "ts": start + 12, "dur": 8},
        ]
    return [{"tid": 1, "span_id": number, **span} for number, span in enumerate(spans, start=1)]


LIVES = {
    "parameters": (1, None, 1, 1000),
    "inputs and others": (5, 105, 2, 64),
    "activations": (13, 60, 3, 300),
    "workspace": (14, 15, 4, 50),
    "workspace of a phase": (21, 30, 5, 40),
    "gradients": (45, 111, 6, 200),
    "workspace of backward": (46, 60, 7, 30),
    "optimizer state": (75, None, 8, 400),
    "workspace of the optimizer": (76, 80, 9, 20),
    "kept workspace": (16, None, 10, 500),
    "kept workspace of backward": (47, None, 11, 600),
}
"""Kind -> allocation, release, address and bytes."""


def memory():
    rows = [row for given in LIVES.values() for row in life(*given)]
    rows.append(event("release", 90, 99, 7))
    rows.append(event("allocate", 2, 0, 4096, space="device", object_id=5))
    return rows
