"""Counters of a CPU and its ceilings, for tests of `cpu_roofline`."""

from __future__ import annotations


def counted(ts=0, dur=1_000_000_000, **events):
    return [
        {"ts": ts, "dur": dur, "name": name.replace("__", "."), "value": float(value), "unit": ""}
        for name, value in events.items()
    ]


def intel(kind):
    return f"fp_arith_inst_retired__{kind}"


ROOFS = [
    {"name": f"roof {group}: {level}", "value": value * 1e9, "unit": unit}
    for group, values in (
        ("scalar dp 1 threads", (50, 40, 20, 10, 6, 12)),
        ("avx2 dp 1 threads", (400, 200, 100, 20, 50, 100)),
    )
    for level, value, unit in zip(
        ("L1", "L2", "L3", "DRAM", "FP", "FP_FMA"), values, ["bytes/s"] * 4 + ["flop/s"] * 2, strict=True
    )
]  # fmt: skip
