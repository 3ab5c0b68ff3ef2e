"""What of a run is recorded, as the options of the command line say it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pasta.collect.companions.options import HostOptions
from pasta.collect.cuda_memory import MemoryOptions
from pasta.collect.nvml.sampling import PERIOD_SECONDS


@dataclass(frozen=True)
class Selection:
    """What of the run is recorded.

    Attributes:
        steps: first step, last step (`None`: to the end), and every how many-th of them.
        seconds: record for so long in all.
        match: regular expression (Python's and Rust's alike) that names of operators and kernels must contain.
        max_bytes: stop when the trace's files are so large.
        idle: record nothing until asked to (`pasta control`, `pasta.start()`).
        stacks: record call stacks: Python's of operators and ranges, native ones of launches.
        cycle_seconds: how long a cycle of PyTorch's profiler lasts at most.
        counters: names of counters that `cuda.counters` takes in place of its level's.
        ranges: NVTX ranges in which `cuda.counters` counts; empty: everywhere.
        period_seconds: time from one sample of `nvml` to the next.
        serialize: whether the program runs one thing at a time, so that its times are not its own.
        memory: what `cuda.memory` watches of each launch.
        host: what companions watch.
    """

    steps: tuple[int, int | None, int] | None = None
    seconds: float | None = None
    match: str | None = None
    max_bytes: int | None = None
    idle: bool = False
    stacks: bool = False
    cycle_seconds: float | None = None
    counters: tuple[str, ...] = ()
    ranges: tuple[str, ...] = ()
    period_seconds: float = PERIOD_SECONDS
    serialize: bool = False
    memory: MemoryOptions = field(default_factory=MemoryOptions)
    host: HostOptions = field(default_factory=HostOptions)

    def in_program(self) -> dict[str, Any]:
        """Return what the program itself is told of it."""
        told = {"steps": self.steps, "seconds": self.seconds, "idle": self.idle}
        return told | ({"serialize": True} if self.serialize else {})

    def in_collector(self, collector: str) -> dict[str, Any]:
        """Return what a collector in the program is told of it."""
        options = {
            "match": self.match,
            "stacks": self.stacks or None,
            "cycle_seconds": self.cycle_seconds,
        }
        if collector == "cpu":
            return {"frequency": self.host.frequency, **({"gil": True} if self.host.gil else {})}
        told = {name: value for name, value in options.items() if value is not None}
        return told | self.memory.in_program() if collector == "cuda.memory" else told

    def beside(self, collector: str) -> dict[str, Any]:
        """Return what a collector beside the program is told of it, as the trace keeps it."""
        if collector == "nvml":
            return {"period_seconds": self.period_seconds}
        if collector == "cuda.counters":
            options = {"counters": self.counters, "ranges": self.ranges}
            return {name: list(value) for name, value in options.items() if value}
        return {}
