"""What of a graph cudf-polars would decline, found on a machine with or without a GPU.

Each stage's plan is translated and lowered by cudf-polars over rows split into tiny partitions:
an error of the translation would send the stage to the CPU, a warning of the lowering collapses
it to one partition, which must fit on one GPU.
"""

from __future__ import annotations

import warnings

import polars as pl

from pasta.errors import EngineError
from pasta.pipeline.graph import Graph, empty_input

_ROWS = 8
_OPTIONS = {"max_rows_per_partition": 2, "min_device_size": 1 << 33}
"""Partitions of two rows, and a device size so that none is asked for."""


def graph_problems(graph: Graph) -> list[str]:
    """Return one line for each stage that would not run on many GPUs as it stands.

    Raises:
        EngineError: cudf-polars is not installed.
    """
    rows = {
        name: _null_rows(empty_input(spec.table).collect_schema())
        for name, spec in graph.inputs.items()
    }
    problems = []
    for name, schema in graph.schemas().items():
        if name not in graph.nodes:
            continue
        node = graph.nodes[name]
        if node.stage.array:
            problems.append(f"stages.{name}: array code; the plan is cut in front of it")
        else:
            frames = [None if s is None else rows[s].lazy() for s in node.positional]
            plan = node.stage.function(*frames, **node.arguments)
            problems += [f"stages.{name}: {problem}" for problem in plan_problems(plan)]
        rows[name] = _null_rows(schema)
    return problems


def plan_problems(plan: pl.LazyFrame) -> list[str]:
    """Return why cudf-polars would decline `plan` or collapse it to one partition."""
    try:
        from cudf_polars import Translator
        from cudf_polars.streaming.base import StatsCollector
        from cudf_polars.streaming.parallel import lower_ir_graph
    except ImportError as error:
        raise EngineError(
            f"checking for the GPU needs cudf-polars ({error}); install it: pip install"
            " 'cudf-polars-cu13[dask]==26.10.*' (no GPU is needed)"
        ) from error
    engine = pl.GPUEngine(executor="streaming", executor_options=_OPTIONS, raise_on_fail=True)
    translator = Translator(plan._ldf.visit(), engine)  # noqa: SLF001 (as cudf-polars itself does)
    translated = translator.translate_ir()
    if translator.errors:
        return [f"declined, runs on the CPU: {error}" for error in translator.errors]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lower_ir_graph(translated, translator.config_options, StatsCollector())
    return [f"one partition: {warning.message}" for warning in caught]


def _null_rows(schema: pl.Schema) -> pl.DataFrame:
    """Return enough rows of nothing to be split into several partitions."""
    return pl.DataFrame({name: [None] * _ROWS for name in schema}, schema=schema)
