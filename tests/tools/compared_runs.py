"""Hand-made training runs for tests of tools that compare runs: steps of a few operators with noise."""

from __future__ import annotations

import random
from typing import NamedTuple

STEP = 2_000_000
"""From the start of a step to that of the next, ns."""


class Operator(NamedTuple):
    """An operator of every step, and the one kernel that it launches."""

    module: str
    name: str
    kernel: str
    dur: int


OPERATORS = (
    Operator("encoder", "aten::mm", "gemm_a", 300_000),
    Operator("encoder", "aten::gelu", "gelu", 40_000),
    Operator("encoder", "aten::add", "add", 20_000),
    Operator("decoder", "aten::mm", "gemm_b", 500_000),
    Operator("decoder", "aten::softmax", "softmax", 80_000),
    Operator("decoder", "aten::copy", "elementwise", 60_000),
)
TOTAL = sum(operator.dur for operator in OPERATORS)


def changed(name: str, kernel: str, **others: object) -> tuple[Operator, ...]:
    """The operators, of which the one with this name and kernel is another."""
    return tuple(
        operator._replace(**others)
        if (operator.name, operator.kernel) == (name, kernel)
        else operator
        for operator in OPERATORS
    )


def run_of(
    operators: tuple[Operator, ...] = OPERATORS,
    *,
    steps: int = 12,
    noise: float = 0.0,
    seed: int = 0,
    rank: int = 0,
) -> dict[str, list[dict[str, object]]]:
    """The tables of a run; a kernel's time varies from step to step by a lognormal factor."""
    numbers = random.Random(f"{seed} {rank}")
    spans, calls, kernels = [], [], []
    for step in range(steps):
        start = at = 1_000 + step * STEP
        modules: dict[str, list[int]] = {}
        for operator in operators:
            modules.setdefault(operator.module, [at, at])[1] = at + 10_000
            spans.append({"level": "operator", "name": operator.name, "ts": at + 100, "dur": 9_000})
            correlation = len(calls) + 1
            calls.append(
                {"correlation": correlation, "ts": at + 1_000, "dur": 500, "name": "launch"}
            )
            dur = round(operator.dur * numbers.lognormvariate(0, noise))
            kernels.append({"correlation": correlation, "launch_id": correlation, "ts": at + 5_000, "dur": dur, "name": operator.kernel})  # fmt: skip
            at += 10_000
        spans += [{"level": "module", "name": name, "ts": begin, "dur": end - begin} for name, (begin, end) in modules.items()]  # fmt: skip
        dur = round((STEP - 100_000) * numbers.lognormvariate(0, noise / 10))
        spans.append({"level": "step", "name": f"ProfilerStep#{step}", "ts": start, "dur": dur})
    host = {"rank": rank, "tid": 1}
    return {
        "span": [{**host, "span_id": n, **span} for n, span in enumerate(spans, start=1)],
        "call": [{**host, **call} for call in calls],
        "kernel": [{"rank": rank, "device": 0, "stream": 7, **kernel} for kernel in kernels],
    }
