"""Steps whose floating-point operations are known, for tests of `model_flops`."""

from __future__ import annotations

import random

PEAKS = {"peak_flops_bf16": 1e15, "peak_flops_fp32": 1e14}


def step_run(seed: int, *, peaks: dict[str, float], shapes: bool = True, devices: int = 1):
    """Three steps of 1 ms, in each of which products of known size are called; returns tables and flops."""
    noise = random.Random(seed)
    spans, kernels, flops = [], [], []
    for step in range(3):
        begin = step * 1_000_000
        spans.append({"tid": 1, "ts": begin, "dur": 1_000_000, "span_id": step + 1, "level": "step", "name": f"step {step}"})  # fmt: skip
        done = [0, 0]
        for n in range(8):
            m, k, width = (noise.randrange(1, 2000) for _ in range(3))
            kind = n % 2
            done[kind] += 2 * m * k * width
            given = {"input_shapes": [f"{m}x{k}", f"{k}x{width}"], "input_types": [["c10::BFloat16", "float"][kind]] * 2}  # fmt: skip
            spans.append({"tid": 1, "ts": begin + 1_000 * n, "dur": 900, "span_id": 100 + 10 * step + n, "level": "operator", "name": "aten::mm", **(given if shapes else {})})  # fmt: skip
        flops.append(done)
        kernels += [{"device": d, "ts": begin + 5_000, "dur": 100, "launch_id": len(kernels) + d + 1, "name": "k"} for d in range(devices)]  # fmt: skip
    return {"span": spans, "kernel": kernels, "device": [{"device": d, **peaks} for d in range(devices)]}, flops  # fmt: skip
