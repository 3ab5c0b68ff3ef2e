"""The engine that chooses one: the GPU where it is there and the input is large enough to pay."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import polars as pl

from pasta.errors import EngineError
from pasta.pipeline.config import ToolConfig
from pasta.pipeline.engines.base import Engine, EngineOptions
from pasta.pipeline.engines.cpu import CpuEngine
from pasta.pipeline.engines.gpu import GpuEngine, input_bytes, unavailable
from pasta.pipeline.graph import Graph
from pasta.pipeline.run import Source

LEAST_BYTES = 1 << 30
"""Parquet from this size on goes to the GPU: below it, starting CUDA takes longer than the query.

docs/performance.md has the measurements that this follows.
"""


class AutoEngine(Engine):
    """Runs a graph on the GPU or on the CPU, and notes which and why.

    Attributes:
        name: of the engine that was chosen.
    """

    def __init__(
        self,
        options: EngineOptions,
        gpu: Callable[[EngineOptions], GpuEngine] = GpuEngine,
        without_gpu: Callable[[], str | None] = unavailable,
    ) -> None:
        """Take the options, and what makes the GPU's engine or says why there is none."""
        super().__init__()
        self.name = "cpu"
        self._options, self._gpu, self._without_gpu = options, gpu, without_gpu
        self._cpu = CpuEngine()

    def collect(self, plans: Sequence[pl.LazyFrame]) -> list[pl.DataFrame]:
        """Run `plans` on the CPU; only whole graphs are worth a GPU."""
        return self._cpu.collect(plans)

    def run(
        self,
        config: ToolConfig,
        graph: Graph,
        sources: Sequence[Source],
        wanted: Sequence[str],
    ) -> dict[str, pl.DataFrame] | None:
        """Run a whole graph on the GPU where that pays; else say why not."""
        reason = self._without_gpu() or _too_small(input_bytes(graph, sources))
        if reason is None:
            with self._gpu(self._options) as engine:
                try:
                    found = engine.run(config, graph, sources, wanted)
                except EngineError as error:
                    reason = str(error)
                else:
                    self.name = engine.name
                    self.notes += engine.notes
                    return found
        self.notes.append(f"engine cpu: {reason}")
        return None

    def run_parts(
        self,
        graph: Graph,
        sources: Sequence[Source],
        wanted: Sequence[str],
        known: Collection[str],
    ) -> dict[str, pl.LazyFrame]:
        """Run on the CPU what runs there part after part."""
        return self._cpu.run_parts(graph, sources, wanted, known)


def _too_small(size: int) -> str | None:
    if size >= LEAST_BYTES:
        return None
    return f"{size / 1e6:,.1f} MB of Parquet are too few for the GPU to pay"
