"""A training run whose steps have planted losses, for tests of tools that look at steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

EPOCH = 1_700_000_000_000_000_000
OPERATORS = ("aten::linear", "aten::softmax", "aten::gelu", "aten::mm")
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
KERNEL, LAUNCH, LATENCY = 200_000, 8_000, 6_000

Planted = Mapping[tuple[int, int], int]
"""(rank, step) -> ns."""


class _Rank:
    """One rank: its host's clock, and until when its device is busy."""

    def __init__(self, rank: int, noise: float, random: np.random.Generator) -> None:
        self.host = self.device = EPOCH
        self.noise, self.random = noise, random
        self.common = {"rank": rank, "pid": 100 + rank}
        self.tables: dict[str, list[dict[str, Any]]] = {
            name: [] for name in ("span", "call", "kernel", "copy", "collective")
        }
        self.ids = 0

    def add(self, table: str, **row: Any) -> None:
        self.tables[table].append({**self.common, **row})

    def span(self, name: str, level: str, since: int) -> None:
        self.ids += 1
        self.add("span", tid=1, ts=since, dur=self.host - since, span_id=self.ids, parent_id=0, level=level, name=name)  # fmt: skip

    def launch(self, operator: str, table: str, dur: int, **columns: Any) -> None:
        """Begin work in an operator; the device runs it when it is free."""
        since, self.ids = self.host, self.ids + 1
        factor = max(0.5, 1 + self.noise * self.random.standard_normal())
        ts, dur = max(self.device, since + LATENCY), max(1, round(dur * factor))
        self.add("call", tid=1, ts=since + 1_000, dur=LAUNCH - 2_000, correlation=self.ids, name="cudaLaunchKernel")  # fmt: skip
        work = {"device": 0, "ts": ts, "dur": dur, "correlation": self.ids, "stream": 7}
        self.add(table, **work, **({"launch_id": self.ids} if table == "kernel" else {}), **columns)
        if "nccl" in str(columns.get("name")):
            self.add("collective", device=0, ts=ts, dur=dur, launch_id=self.ids, operation="allreduce", communicator=f"rank {self.common['rank']}", sequence=self.ids, sequence_source="counted")  # fmt: skip
        self.device, self.host = ts + dur, since + LAUNCH
        self.span(operator, "operator", since)

    def wait(self) -> None:
        """Wait for the device in a synchronising call."""
        until = max(self.device, self.host) + 2_000
        self.add("call", tid=1, ts=self.host, dur=until - self.host, correlation=0, name="cudaDeviceSynchronize")  # fmt: skip
        self.host = until


def steps_run(
    seed: int = 0,
    *,
    ranks: int = 3,
    steps: int = 8,
    noise: float = 0.02,
    data: Planted | None = None,
    host: Planted | None = None,
    communication: Planted | None = None,
    copy: Planted | None = None,
    compute: Planted | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """Return the tables of a run that computes almost all of the time, but for what is planted.

    Args:
        seed: of the noise.
        ranks: how many.
        steps: how many.
        noise: standard deviation of a kernel's duration, as a share of it.
        data: how much longer the loader takes.
        host: how long the host computes before it launches `aten::gelu`.
        communication: how long an allreduce runs that nothing hides, in a communicator of its own.
        copy: how long a copy to the device runs that nothing hides.
        compute: how much longer `aten::mm` runs.
    """
    random = np.random.default_rng(seed)
    tables: dict[str, list[dict[str, Any]]] = {}
    for number in range(ranks):
        rank = _Rank(number, noise, random)
        for step in range(steps):
            begin, here = rank.host, (number, step)
            rank.host += 5_000 + (data or {}).get(here, 0)
            rank.span(LOADER, "annotation", begin)
            for operator in OPERATORS:
                if operator == "aten::gelu" and here in (host or {}):
                    rank.wait()
                    rank.host += (host or {})[here]
                dur = KERNEL + ((compute or {}).get(here, 0) if operator == "aten::mm" else 0)
                rank.launch(operator, "kernel", dur, name=operator[6:])
            if here in (communication or {}):
                rank.launch("nccl:all_reduce", "kernel", (communication or {})[here], name="ncclDevKernel_AllReduce")  # fmt: skip
            if here in (copy or {}):
                rank.launch("aten::to", "copy", (copy or {})[here], kind="HtoD")
            rank.wait()
            rank.span(f"ProfilerStep#{step}", "step", begin)
        for table, rows in rank.tables.items():
            tables.setdefault(table, []).extend(rows)
    return tables
