"""What of a graph cudf-polars would decline, found on a machine with or without a GPU.

Each stage's plan is translated and lowered by cudf-polars over rows split into tiny partitions:
an error of the translation would send the stage to the CPU, a warning of the lowering collapses
it to one partition, which must fit on one GPU. Array stages are rehearsed on the host: each plan
that they make is translated too. The `gpu` engine asks here as well, so that both agree.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import polars as pl

from pasta.errors import EngineError
from pasta.pipeline.config import ToolConfig
from pasta.pipeline.device_rows import DeviceRows
from pasta.pipeline.engines.base import OffGpu
from pasta.pipeline.engines.late_failures import late_failures
from pasta.pipeline.engines.rehearsal import Rehearsal
from pasta.pipeline.graph import Graph, Node

_ROWS = 8
_OPTIONS = {"max_rows_per_partition": 2, "min_device_size": 1 << 33}
"""Partitions of two rows, and a device size so that none is asked for."""


def graph_problems(graph: Graph, wanted: Iterable[str]) -> list[str]:
    """Return one line for each stage that runs for the `wanted` and would not on many GPUs as it stands.

    Raises:
        EngineError: cudf-polars is not installed.
    """
    schemas, problems = graph.schemas, []
    for name in graph.needed(wanted):
        node = graph.nodes[name]
        reasons = _declined_by(node, schemas)
        if reasons:
            problems += [f"stages.{name}: declined, runs on the CPU: {why}" for why in reasons]
        elif device_code(node) is not None:
            problems.append(f"stages.{name}: array code on one GPU; the plan is cut in front of it")
        else:
            found = collapses(_plan(node, schemas, _null_rows))
            problems += [f"stages.{name}: one partition: {why}" for why in found]
    return problems


def declined_stages(graph: Graph, names: Iterable[str]) -> dict[str, str]:
    """Return which of the nodes `names` a GPU declines, and why.

    Raises:
        EngineError: cudf-polars is not installed.
    """
    schemas = graph.schemas
    reasons = {name: _declined_by(graph.nodes[name], schemas) for name in names}
    return {name: "; ".join(why) for name, why in reasons.items() if why}


def refusal(config: ToolConfig, declined: Mapping[str, str], off_gpu: OffGpu) -> str | None:
    """Say which stages a GPU declines, unless the tool or the caller lets them run on the CPU."""
    if not declined or "cpu" in (config.off_gpu, off_gpu):
        return None
    stages = ", ".join(f"stages.{name} ({why})" for name, why in declined.items())
    return (
        f"{config.name}: the GPU declines {stages};"
        " let it run on the CPU: --off-gpu cpu, or off_gpu: cpu in the tool"
    )


def declined(plan: pl.LazyFrame) -> list[str]:
    """Return why cudf-polars would decline `plan`, or fail on it.

    Raises:
        EngineError: cudf-polars is not installed.
    """
    translator, translated = _translated(plan)
    reasons = [*map(_one_line, translator.errors), *late_failures(translated)]
    return list(dict.fromkeys(reasons))


def collapses(plan: pl.LazyFrame) -> list[str]:
    """Return why cudf-polars would collapse `plan`, which it takes, to one partition.

    Raises:
        EngineError: cudf-polars is not installed.
    """
    from cudf_polars.streaming.base import StatsCollector
    from cudf_polars.streaming.parallel import lower_ir_graph

    translator, translated = _translated(plan)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lower_ir_graph(translated, translator.config_options, StatsCollector())
    return [_one_line(warning.message) for warning in caught]


def _declined_by(node: Node, schemas: Mapping[str, pl.Schema]) -> list[str]:
    """Return why a node would be declined, each reason once."""
    code = device_code(node)
    if code is None:
        return declined(_plan(node, schemas, pl.LazyFrame))
    device = Rehearsal(declined)
    frames = [
        None if s is None else DeviceRows(device, node.narrowed(pl.LazyFrame(schema=schemas[s])))
        for s in node.positional
    ]
    result = code(*frames, **node.arguments)
    result.hold()
    return list(dict.fromkeys(device.problems))


def device_code(node: Node) -> Callable[..., Any] | None:
    """Return the array code that runs a node on a device; `None` where its plan runs there."""
    return node.stage.function if node.stage.array else node.stage.on_device


def _plan(
    node: Node, schemas: Mapping[str, pl.Schema], rows_of: Callable[..., pl.LazyFrame]
) -> pl.LazyFrame:
    """Return the plan of a node over what `rows_of` makes of schemas."""
    frames = [None if s is None else rows_of(schema=schemas[s]) for s in node.positional]
    plan: pl.LazyFrame = node.stage.function(*frames, **node.arguments)
    return plan


def _translated(plan: pl.LazyFrame) -> tuple[Any, Any]:
    """Return cudf-polars' translator of `plan`, with its errors, and its translation."""
    try:
        from cudf_polars import Translator
    except ImportError as error:
        raise EngineError(
            f"checking for the GPU needs cudf-polars ({error}); install it: pip install"
            " 'cudf-polars-cu13[dask]==26.10.*' (no GPU is needed)"
        ) from error
    engine = pl.GPUEngine(executor="streaming", executor_options=_OPTIONS, raise_on_fail=True)
    translator = Translator(plan._ldf.visit(), engine)  # noqa: SLF001 (as cudf-polars itself does)
    return translator, translator.translate_ir()


def _null_rows(schema: pl.Schema) -> pl.LazyFrame:
    """Return enough rows of nothing to be split into partitions."""
    return pl.LazyFrame({name: [None] * _ROWS for name in schema}, schema=schema)


def _one_line(problem: object) -> str:
    return " ".join(str(problem).split())
