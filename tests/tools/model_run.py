"""Runs of models made at random, small enough to be recomputed by loops, for tests of the analyses of XSP."""

from __future__ import annotations

import random
from typing import Any

from tests.tools.xsp_by_hand import FLOPS, OCCUPANCY, READ, WRITTEN

Rows = list[dict[str, Any]]
KERNELS = ("gemm", "norm", "copy", "fill")
STEP_NS, GAP_NS = 100_000, 5_000


class _Recorder:
    """Appends rows of one rank, with ids of their own."""

    def __init__(self, rank: int, chance: random.Random, *, counted: bool) -> None:
        self.tables: dict[str, Rows] = {
            "span": [],
            "call": [],
            "kernel": [],
            "metric": [],
            "memory": [],
        }
        self.rank, self.chance, self.counted = rank, chance, counted

    def add(self, table: str, **row: Any) -> None:
        self.tables[table].append({"rank": self.rank, **row})

    def span(self, level: str, name: str, ts: int, dur: int, parent: int = 0, **more: Any) -> int:
        number = len(self.tables["span"]) + 1
        row = {"tid": 1, "sequence": None, "forward_tid": None} | more
        self.add("span", level=level, name=name, ts=ts, dur=dur, span_id=number, parent_id=parent, **row)  # fmt: skip
        return number

    def launch(self, ts: int, tid: int = 1, kernels: int = 1, *, called: bool = True) -> None:
        """Launch kernels by one call, more than one as a graph does; some take no time, some have no counters."""
        correlation = len(self.tables["call"]) + 1 if called else 0
        if called:
            self.add("call", tid=tid, ts=ts, dur=20, name="launch", correlation=correlation)
        for _ in range(kernels):
            number, name = len(self.tables["kernel"]) + 1, self.chance.choice(KERNELS)
            dur = self.chance.choice((0, self.chance.randrange(1, 4_000)))
            at = ts + self.chance.randrange(50, 3_000) if called else ts
            self.add("kernel", device=0, stream=self.chance.randrange(2), ts=at, dur=dur, name=name, correlation=correlation, launch_id=number)  # fmt: skip
            if self.counted and self.chance.random() < 0.8:
                self.count(number, name)

    def count(self, launch: int, name: str) -> None:
        values: dict[str, int] = {READ: self.chance.randrange(1, 500), WRITTEN: self.chance.randrange(1, 500)}  # fmt: skip
        if name != "copy":
            values |= {counter: self.chance.randrange(1, 9_000) for counter in FLOPS}
        if name == "gemm":
            values[OCCUPANCY] = self.chance.randrange(101)
        for counter, value in values.items():
            self.add("metric", device=0, launch_id=launch, name=counter, value=float(value))


def model_run(
    seed: int,
    *,
    rank: int = 0,
    steps: int = 4,
    operators: bool = True,
    counted: bool = True,
    memory: bool = True,
) -> dict[str, Rows]:
    """Return the tables of one rank: steps of a model of six layers, of which some steps leave some out.

    Args:
        seed: of all chances.
        rank: of all rows.
        steps: how many.
        operators: whether operators are recorded, and with them backward.
        counted: whether most launches have counters.
        memory: whether allocations are recorded.
    """
    chance = random.Random(seed)
    recorder = _Recorder(rank, chance, counted=counted)
    for step in range(steps):
        start = step * STEP_NS
        recorder.span("step", f"step {step}", start, STEP_NS - GAP_NS - chance.randrange(3_000))
        net = recorder.span("module", "Net", start + 100, 50_000)
        backward = []
        for place in range(6):
            if place >= 3 and chance.random() < 0.35:
                continue
            at = start + 1_000 + 8_000 * place
            sequence = 10 * step + place
            _layer(recorder, place, at, net, sequence if operators else None, memory=memory)
            backward.append((place, sequence))
        for place, sequence in reversed(backward if operators else []):
            at = start + 55_000 + 5_000 * (5 - place)
            name = "autograd::engine::evaluate_function: AddmmBackward0"
            recorder.span("operator", name, at, chance.randrange(1_000, 4_500), tid=2, sequence=sequence, forward_tid=1)  # fmt: skip
            recorder.launch(at + 200, tid=2, kernels=chance.randrange(1, 3))
        if operators:
            recorder.span("operator", "aten::sum", start + 52_000, 1_000)
            recorder.launch(start + 52_100)
        recorder.launch(start + 90_500)
        recorder.launch(start + 91_000, called=False)
        if chance.random() < 0.5:
            recorder.launch(start + STEP_NS - 1_000)  # in no step
    return {name: rows for name, rows in recorder.tables.items() if rows}


def _layer(
    recorder: _Recorder, place: int, at: int, net: int, sequence: int | None, *, memory: bool
) -> None:
    """A module, every other one with one in it, and an operator in that, which launches kernels or graphs."""
    chance = recorder.chance
    dur = chance.randrange(3_000, 7_500)
    kind = ("Linear", "Norm")[place % 2]
    inner = recorder.span("module", f"layer{place} ({kind})", at, dur, net)
    if place % 2:
        inner = recorder.span("module", f"layer{place}.act (ReLU)", at + 500, dur - 1_000, inner)
    if sequence is not None:
        recorder.span("operator", "aten::linear", at + 600, dur - 1_300, inner, sequence=sequence)
    for number in range(chance.randrange(3)):
        recorder.launch(at + 700 + 300 * number, kernels=chance.randrange(1, 4))
    if memory:
        recorder.add("memory", tid=1, device=0, ts=at + 400 + chance.randrange(1_000), event="allocate", space="tensor", bytes=chance.randrange(1, 10_000))  # fmt: skip
