"""What every engine offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

import polars as pl

if TYPE_CHECKING:
    from pasta.pipeline.config import ToolConfig
    from pasta.pipeline.graph import Graph
    from pasta.pipeline.run import Source

OffGpu = Literal["raise", "cpu"]


@dataclass(frozen=True)
class EngineOptions:
    """What the caller says of the machines that run a graph.

    Attributes:
        workers: worker processes to start on this machine; `None` lets the engine choose.
        scheduler: address of a running Dask scheduler, whose workers are used instead.
        off_gpu: what happens to a stage that the GPU declines: an error, or a run on the CPU.
        timings: new folder for a trace of what each worker does when.
    """

    workers: int | None = None
    scheduler: str | None = None
    off_gpu: OffGpu = "raise"
    timings: Path | None = None


class Engine(ABC):
    """Runs lazy plans; a context manager, since some engines hold devices or clusters.

    Attributes:
        name: what `--engine` calls it.
        notes: lines for the report: which engine ran and why, what ran elsewhere and its cost.
    """

    name: str

    def __init__(self) -> None:
        self.notes: list[str] = []

    @abstractmethod
    def collect(self, plans: Sequence[pl.LazyFrame]) -> list[pl.DataFrame]:
        """Run `plans` together, sharing what they have in common, and return their rows.

        Raises:
            EngineError: the engine failed.
        """

    def run(
        self,
        config: ToolConfig,
        graph: Graph,
        sources: Sequence[Source],
        wanted: Sequence[str],
    ) -> dict[str, pl.DataFrame] | None:
        """Run a whole graph, where the engine has a way of its own.

        Args:
            config: the tool.
            graph: its graph.
            sources: the traces it reads.
            wanted: the nodes whose rows to return.

        Returns:
            The rows of each wanted node; `None` where the graph's plans are to be collected.
        """
        del config, graph, sources, wanted
        return None

    def run_parts(
        self,
        graph: Graph,
        sources: Sequence[Source],
        wanted: Sequence[str],
        known: Collection[str],
    ) -> dict[str, pl.LazyFrame]:
        """Run what the engine runs part after part, where all rows at once would take too much memory.

        Args:
            graph: the graph of a tool.
            sources: the traces it reads, which have all tables that it requires.
            wanted: the nodes whose rows are asked for.
            known: nodes whose rows are there already.

        Returns:
            Plans that read the rows of the nodes that ran.
        """
        del graph, sources, wanted, known
        return {}

    def close(self) -> None:  # noqa: B027 (most engines hold nothing)
        """Give back devices, workers and connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
