"""Running a tool's graph over traces with an engine."""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import polars as pl

from pasta.errors import ConfigError, PastaError, TraceError, did_you_mean
from pasta.pipeline.config import InputConfig, ToolConfig
from pasta.pipeline.engines.base import Engine
from pasta.pipeline.graph import Collect, Graph, empty_input, with_trace_column
from pasta.pipeline.pruning import chosen_ranks, rank_conditions
from pasta.pipeline.sharing import SharedNodes
from pasta.pipeline.stages.aggregate import TOO_LARGE
from pasta.schema_sources import FILLED_BY
from pasta.trace import Trace

_SUM = re.compile(rf"(sum\(.*?\)){TOO_LARGE}(\w+)")


@dataclass(frozen=True)
class Source:
    """A trace given to a tool, under the name of its run or of its folder."""

    name: str
    trace: Trace


def wanted_nodes(config: ToolConfig, *, outputs: bool) -> list[str]:
    """Return the nodes that a tool's report names, and with `outputs` its Parquet outputs."""
    named = [
        item.options[key]
        for item in config.report
        for key in ("from", "facts", "table")
        if isinstance(item.options.get(key), str)
    ]
    return list(dict.fromkeys([*named, *(config.parquet if outputs else ())]))


def check_wanted(config: ToolConfig, graph: Graph) -> None:
    """Check that the report and the outputs name nodes that exist.

    Raises:
        ConfigError: one does not.
    """
    known = {*graph.nodes, *graph.inputs}
    named = [
        (f"{item.path}.{key}", item.options.get(key))
        for item in (*config.findings, *config.report)
        for key in ("from", "facts", "table")
    ]
    named += [(f"outputs.parquet[{place}]", name) for place, name in enumerate(config.parquet)]
    for path, name in named:
        if name is not None and name not in known:
            raise ConfigError(path, f"no stage or input '{name}'.{did_you_mean(name, known)}")


def run_graph(
    config: ToolConfig,
    graph: Graph,
    sources: Sequence[Source],
    engine: Engine,
    *,
    outputs: bool = False,
    shared: SharedNodes | None = None,
) -> dict[str, pl.DataFrame]:
    """Run the nodes that the tool's report names.

    Args:
        config: the tool.
        graph: its graph.
        sources: the traces it reads.
        engine: who runs it.
        outputs: run what the tool's Parquet outputs name too.
        shared: rows of nodes that other tools need too, on the same traces.

    Raises:
        TraceError: a trace lacks a required table, or a sum is more than its type can hold.
        ConfigError: an input wants a run that was not given.
        EngineError: the engine failed.
    """
    wanted = wanted_nodes(config, outputs=outputs)
    with _sums_told(config.name):
        found = engine.run(config, graph, sources, wanted)
        if found is not None:
            return found
        plans = input_tables(config, graph, sources)
        known = {} if shared is None else shared.known()
        asked = (
            set() if shared is None else shared.asked().intersection(graph.needed(wanted, known))
        )
        known |= engine.run_parts(graph, sources, [*wanted, *asked], known)
        if shared is not None:
            shared.hold(known)
        plans |= known
        del known  # It would hold rows until the end that the graph reads only in the beginning.
        made, rows = collect_wanted(graph, plans, wanted, engine.collect, asked)
        if shared is not None:
            shared.hold(made)
        return rows


@contextmanager
def _sums_told(tool: str) -> Generator[None]:
    """Say in one line, whatever the engine says, which sum of a tool is more than its type can hold."""
    try:
        yield
    except (PastaError, pl.exceptions.PolarsError) as error:
        found = _SUM.search(str(error))
        if found is None:
            raise
        raise TraceError(
            f"tool '{tool}': {found[1]} is more than {found[2]} can hold; look for values that cannot be"
            " (pasta trace sql), or give fewer traces"
        ) from error


def collect_wanted(
    graph: Graph,
    plans: dict[str, pl.LazyFrame],
    wanted: Sequence[str],
    collect: Collect,
    asked: Collection[str] = (),
) -> tuple[dict[str, pl.LazyFrame], dict[str, pl.DataFrame]]:
    """Run the nodes that a graph's `wanted` ones need, each of those that several read once.

    Args:
        graph: the graph.
        plans: one for each input, and for each node that has run already; those that nothing reads any
            more are taken out.
        wanted: the nodes whose rows to return.
        collect: runs plans.
        asked: nodes whose rows to hold if they are run.

    Returns:
        Plans of the wanted nodes, and of the held ones that were asked for, which read their rows; and the
        rows of the wanted nodes.
    """
    needed = graph.needed(wanted, plans)
    asked = set(asked).intersection(needed)
    held = (graph.read_again(wanted) | graph.sorted_for_arrays()).intersection(needed)
    made = graph.continued(plans, [*wanted, *asked], collect, held | asked)
    results = [graph.in_order(name, made[name]) for name in wanted]
    return made, dict(zip(wanted, collect(results), strict=True)) if wanted else {}


def input_tables(
    config: ToolConfig, graph: Graph, sources: Sequence[Source]
) -> dict[str, pl.LazyFrame]:
    """Return the rows of every input of a tool's graph.

    Raises:
        TraceError: a trace lacks a required table.
        ConfigError: an input wants a run that was not given.
    """
    shown = set(wanted_nodes(config, outputs=True))
    conditions = {n: given for n, given in rank_conditions(graph).items() if n not in shown}
    return {
        name: _input_rows(config.name, name, spec, sources, conditions.get(name))
        for name, spec in graph.inputs.items()
    }


def chosen_sources(config: InputConfig, sources: Sequence[Source]) -> list[Source]:
    """Return the traces that an input reads: those of its run, or all of them."""
    return [source for source in sources if config.run in (None, source.name)]


def lacking(config: ToolConfig, graph: Graph, sources: Sequence[Source]) -> str:
    """Return what a tool needs that traces lack; empty if nothing."""
    inputs = graph.inputs.values()
    if config.inputs and any(given.run for given in inputs):
        return "it compares runs that have names"
    required = dict.fromkeys(given.table for given in inputs if not given.optional)
    absent = [table for table in required if not all(source.trace.has(table) for source in sources)]
    return f"no table {', '.join(absent)}" if absent else ""


def only_trace(sources: Sequence[Source]) -> str | None:
    """Return the name of the only trace that was given, if one was."""
    return sources[0].name if len(sources) == 1 else None


def _input_rows(
    tool: str,
    name: str,
    config: InputConfig,
    sources: Sequence[Source],
    condition: pl.Expr | None,
) -> pl.LazyFrame:
    """Return the rows of one input over the traces of its run, or over all of them.

    Folders of ranks that do not fulfil `condition` are left out.
    """
    chosen = chosen_sources(config, sources)
    if not chosen:
        raise ConfigError(
            f"inputs.{name}.run",
            f"tool '{tool}' wants a run named '{config.run}'; give --run {config.run}=DIR",
        )
    parts = []
    for source in chosen:
        if source.trace.has(config.table):
            ranks = chosen_ranks(source.trace, condition)
            parts.append(with_trace_column(source.trace.scan(config.table, ranks), source.name))
        elif not config.optional:
            raise TraceError(
                f"{source.trace.path}: tool '{tool}' needs the table '{config.table}', which this"
                f" trace lacks (it has {', '.join(source.trace.tables()) or 'none'});"
                f" it is filled by {FILLED_BY[config.table]}"
            )
    if not parts:
        return empty_input(config.table)
    return parts[0] if len(parts) == 1 else pl.concat(parts)
