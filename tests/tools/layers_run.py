"""Three training steps of a model of two linear layers, by hand, for tests of the analyses of XSP.

Step 0 takes longer than the others in `first`. Of each step: `first` launches the same kernel twice,
on two streams, at once; `act` launches none; `last` launches a graph of two kernels, of which one
outlasts it; a backward operator on another thread belongs to each linear layer by its sequence number;
one kernel is launched in no layer.
"""

from __future__ import annotations

STEP_NS = 10_000
WARM_UP_NS = 500
STEPS = 3

Rows = list[dict[str, object]]


def layers_run(steps: int = STEPS, rank: int = 0) -> dict[str, Rows]:
    """Return the tables of the trace."""
    tables: dict[str, Rows] = {"span": [], "call": [], "kernel": []}
    for step in range(steps):
        _add_step(tables, step)
    return {name: [{**row, "rank": rank} for row in rows] for name, rows in tables.items()}


def _add_step(tables: dict[str, Rows], step: int) -> None:
    start, late = step * STEP_NS, WARM_UP_NS if step == 0 else 0
    ids = iter(range(step * 100 + 1, step * 100 + 100))
    spans: list[tuple[str, str, int, int, int, int | None, str]] = [
        ("step", f"step {step}", 1, 0, 9_000, None, ""),
        ("module", "Net", 1, 0, 4_000 + late, None, "step"),
        ("module", "first (Linear)", 1, 100, 1_000 + late, None, "module"),
        ("operator", "aten::linear", 1, 200, 800, 2 * step, "first"),
        ("module", "act (ReLU)", 1, 2_000 + late, 500, None, "module"),
        ("operator", "aten::relu", 1, 2_100 + late, 100, None, "act"),
        ("module", "last (Linear)", 1, 3_000 + late, 800, None, "module"),
        ("operator", "aten::linear", 1, 3_050 + late, 700, 2 * step + 1, "last"),
        ("operator", "autograd::engine::evaluate_function: AddmmBackward0", 2, 5_000, 400, 2 * step + 1, "root"),
        ("operator", "autograd::engine::evaluate_function: AddmmBackward0", 2, 6_000, 300, 2 * step, "root"),
    ]  # fmt: skip
    parents = {"": 0, "root": 0}
    for level, name, tid, offset, dur, sequence, parent in spans:
        number = next(ids)
        parents[name.split(" ")[0]] = number
        if level in ("step", "module") and level not in parents:
            parents[level] = number
        tables["span"].append(
            {
                "level": level,
                "name": name,
                "tid": tid,
                "ts": start + offset,
                "dur": dur,
                "span_id": number,
                "parent_id": parents[parent],
                "sequence": sequence,
                "forward_tid": 1 if tid == 2 else None,
                "external_id": 0,
            }
        )
    launches: list[tuple[int, int, list[tuple[str, int, int, int]]]] = [
        (1, 300, [("gemm", 1, 400, 300)]),
        (1, 500, [("gemm", 2, 600, 400)]),
        (1, 3_100 + late, [("gemm", 1, 3_200 + late, 300), ("bias", 1, 3_700 + late, 400)]),
        (2, 5_100, [("gemm_back", 1, 5_150, 200)]),
        (2, 6_100, [("gemm_back", 1, 6_350, 250)]),
        (1, 8_500, [("fill", 1, 8_600, 50)]),
    ]
    for number, (tid, offset, kernels) in enumerate(launches):
        correlation = step * 100 + number + 1
        tables["call"].append(
            {
                "tid": tid,
                "ts": start + offset,
                "dur": 10,
                "name": "launch",
                "correlation": correlation,
            }
        )
        tables["kernel"] += [
            {
                "device": 0,
                "stream": stream,
                "ts": start + at,
                "dur": dur,
                "name": name,
                "correlation": correlation,
                "launch_id": correlation * 10 + place,
            }
            for place, (name, stream, at, dur) in enumerate(kernels)
        ]


def without(tables: dict[str, Rows], name: str, value: str) -> dict[str, Rows]:
    """Take away the spans whose `name` is `value`; those in them belong to what these were in."""
    parents = {row["span_id"]: row["parent_id"] for row in tables["span"] if row[name] == value}

    def outside(parent: object) -> object:
        return outside(parents[parent]) if parent in parents else parent

    spans = [row for row in tables["span"] if row[name] != value]
    return {**tables, "span": [{**row, "parent_id": outside(row["parent_id"])} for row in spans]}
