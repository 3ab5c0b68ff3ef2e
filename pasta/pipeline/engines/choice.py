"""Which engine a name stands for, and what it would not run."""

from __future__ import annotations

from collections.abc import Callable

from pasta.errors import PastaError, did_you_mean
from pasta.pipeline.config import ToolConfig
from pasta.pipeline.engines.auto import AutoEngine
from pasta.pipeline.engines.base import Engine, EngineOptions
from pasta.pipeline.engines.cpu import CpuEngine
from pasta.pipeline.engines.dask import DaskEngine
from pasta.pipeline.engines.dask_cuda import DaskCudaEngine, serves
from pasta.pipeline.engines.gpu import GpuEngine
from pasta.pipeline.graph import Graph
from pasta.pipeline.run import wanted_nodes

ENGINES: dict[str, Callable[[EngineOptions], Engine]] = {
    "auto": AutoEngine,
    "cpu": lambda _options: CpuEngine(),
    "gpu": GpuEngine,
    "dask": lambda options: (
        DaskCudaEngine(options)
        if serves(options)
        else DaskEngine(options.workers, options.scheduler, timings=options.timings)
    ),
}


def engine_of(name: str, options: EngineOptions) -> Engine:
    """Return the engine that is called `name`.

    Raises:
        PastaError: there is none, or it does not take the options.
    """
    if name not in ENGINES:
        raise PastaError(f"no engine '{name}'.{did_you_mean(name, ENGINES)}")
    engine = ENGINES[name](options)
    if options.timings is not None and not isinstance(engine, DaskEngine):
        raise PastaError("--timings needs workers with CPUs; add --engine dask, or leave it out")
    return engine


def engine_problems(config: ToolConfig, graph: Graph, engine: str) -> list[str]:
    """Say where an engine would run each stage, or decline it; the CPU takes everything.

    Raises:
        PastaError: there is no such engine.
    """
    if engine == "dask":
        from pasta.pipeline.placement_text import describe

        return describe(graph, wanted_nodes(config, outputs=True))
    if engine == "gpu":
        from pasta.pipeline.engines.gpu_check import graph_problems

        return graph_problems(graph, wanted_nodes(config, outputs=True))
    if engine in ENGINES:
        return []
    raise PastaError(f"no engine '{engine}'.{did_you_mean(engine, ENGINES)}")
