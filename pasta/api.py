"""The Python API; the command line only wraps it.

trace = pasta.open("t")
report = pasta.run("working_set", trace="t", top=5)
report.findings, report.facts, report.tables, report.losses
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from pasta.errors import ConfigError, EngineError, PastaError, TraceError, naming_files
from pasta.pipeline.config import ToolConfig
from pasta.pipeline.engines.base import Engine, EngineOptions, OffGpu
from pasta.pipeline.engines.choice import engine_of
from pasta.pipeline.engines.cpu import CpuEngine
from pasta.pipeline.graph import Graph
from pasta.pipeline.live import LiveGraph
from pasta.pipeline.run import Source, check_wanted, lacking, run_graph, wanted_nodes
from pasta.pipeline.sharing import SharedNodes, SharedRows
from pasta.pipeline.wiring import build_graph
from pasta.tools.report import Report, build_report
from pasta.tools.report_check import check_report
from pasta.tools.shipped import (
    SHIPPED_TRACE,
    ToolFiles,
    find_trace,
    shipped_tools,
    tools_called,
    which_ran,
)
from pasta.trace import Trace
from pasta.trace_sql import query_trace
from pasta.whole_file import whole_file

if TYPE_CHECKING:
    from pasta.exports.exporter import Exported
    from pasta.trace_combine import Combined
    from pasta.trace_join import Joined
    from pasta.trace_sources import Packed

TraceLike = str | Path | Trace


_NVIDIA = Path("/dev/nvidiactl")
"""The device file that is there where NVIDIA's driver runs."""


def open(path: str | Path) -> Trace:  # noqa: A001 (called as pasta.open)
    """Open a trace: a folder that pasta wrote, or a trace file, imported into a cache once.

    Where no path is called so, `gpt_h100` and `gpt_cpu` are the traces that ship with pasta.

    Raises:
        TraceError: the folder is no trace or of a newer version.
        InputError: the file is of no format that pasta imports.
    """
    if not str(path):
        raise TraceError("a trace has no name; give a folder or a file")
    path = Path(path)
    if path.is_file():
        from pasta.collect.importing import import_cached

        path = import_cached([path])
    return Trace.open(find_trace(path))


def check(tool: str, parameters: Mapping[str, Any] | None = None) -> tuple[ToolConfig, Graph]:
    """Read a tool, wire its graph, derive every stage's schema, check its report; read no data.

    Args:
        tool: path of a YAML file or name of a shipped tool.
        parameters: values that differ from the tool's defaults.

    Raises:
        ConfigError: with the path of the key that is wrong.
    """
    files = ToolFiles()
    config = files.tool(tool)
    try:
        graph = build_graph(config, parameters or {}, files.included)
        check_wanted(config, graph)
        check_report(config, graph.schemas, graph.parameters)
    except ConfigError as error:
        raise error.within(f"{tool}: ") from error
    return config, graph


def run(
    tool: str,
    trace: TraceLike | Sequence[TraceLike] | None = None,
    *,
    runs: Mapping[str, TraceLike] | None = None,
    engine: str = "auto",
    workers: int | None = None,
    scheduler: str | None = None,
    off_gpu: OffGpu = "raise",
    timings: str | Path | None = None,
    out: str | Path | None = None,
    **parameters: Any,
) -> Report:
    """Run a tool and return its report.

    Args:
        tool: path of a YAML file or name of a shipped tool.
        trace: one or several traces or trace files; by default the trace that ships with pasta.
        runs: run name -> trace, for tools that compare runs.
        engine: `auto`, `cpu`, `gpu` or `dask`.
        workers: worker processes that the engine starts, where it starts any.
        scheduler: address of a Dask scheduler whose workers run it instead.
        off_gpu: `raise` or `cpu`: what happens to a stage that the GPU declines.
        timings: new folder for a trace of what each worker does when, for the tool `scaling`.
        out: folder for the tool's Parquet outputs; none are written without it.
        parameters: values that differ from the tool's defaults.

    Raises:
        PastaError: with a one-line message; see its children.
    """
    taken = None if timings is None else Path(timings)
    options = EngineOptions(workers, scheduler, off_gpu, taken)
    return run_tool(
        tool, trace, runs=runs, engine=engine, options=options, out=out, parameters=parameters
    )


def run_tool(
    tool: str,
    trace: TraceLike | Sequence[TraceLike] | None,
    *,
    runs: Mapping[str, TraceLike] | None,
    engine: str,
    options: EngineOptions,
    out: str | Path | None,
    parameters: Mapping[str, Any],
) -> Report:
    """Run a tool; the same as `run`, with the parameters and the engine's options gathered.

    Raises:
        PastaError: as of `run`; a `TraceError` says which trace was taken where none was named.
    """
    config, graph = check(tool, parameters)
    sources, notes = _sources(trace, runs or {})
    folder = None if out is None else _output_folder(Path(out))
    asked = _Asked(tool, config, graph, sources, [*which_ran(tool), *notes])
    try:
        report, tables = _answer(asked, engine_of(engine, options), outputs=folder is not None)
    except TraceError as error:
        raise TraceError(
            f"{notes[0]}; {error}; name one: --trace" if notes else str(error)
        ) from error
    if folder is not None:
        write_outputs({name: tables[name] for name in config.parquet}, folder)
    return report


class _Asked(NamedTuple):
    """A tool, its graph, the traces to run it on, and remarks about how these were found."""

    tool: str
    config: ToolConfig
    graph: Graph
    sources: Sequence[Source]
    notes: Sequence[str] = ()


def _answer(
    asked: _Asked, engine: Engine, *, outputs: bool, shared: SharedNodes | None = None
) -> tuple[Report, dict[str, pl.DataFrame]]:
    """Return the report of a tool, and the rows that it was made of."""
    config, graph, sources = asked.config, asked.graph, asked.sources
    try:
        with engine as running:
            tables = run_graph(config, graph, sources, running, outputs=outputs, shared=shared)
            report = Report(
                tool=config.name,
                about=config.about,
                parameters=graph.parameters,
                engine=running.name,
                sources={source.name: str(source.trace.path) for source in sources},
                notes=[*asked.notes, *running.notes],
                graph=graph,
            )
        build_report(report, config, sources, tables)
    except pl.exceptions.PolarsError as error:
        raise EngineError(f"{asked.tool}: {' '.join(str(error).split())}") from error
    return report, tables


class Reports(NamedTuple):
    """Reports of tools on the same traces, each made when it is asked for.

    Attributes:
        tools: names of the tools that the traces can feed, in their order.
        left_out: why each of the others was left out.
        made: name and report of each tool, in an order in which little is held for later ones.
    """

    tools: list[str]
    left_out: dict[str, str]
    made: Iterator[tuple[str, Report]]


def report(
    traces: Sequence[TraceLike] = (),
    *,
    runs: Mapping[str, TraceLike] | None = None,
    tools: Sequence[str] = (),
    engine: str = "auto",
) -> tuple[list[Report], dict[str, str]]:
    """Run shipped tools on the traces; the same as `reports`, with all reports at once.

    Returns:
        The reports of the tools that the traces can feed, and why the others were left out.
    """
    found = reports(traces, runs=runs, tools=tools, engine=engine)
    made = dict(found.made)
    return [made[name] for name in found.tools], found.left_out


def reports(
    traces: Sequence[TraceLike] = (),
    *,
    runs: Mapping[str, TraceLike] | None = None,
    tools: Sequence[str] = (),
    engine: str = "auto",
) -> Reports:
    """Run shipped tools on the traces, one after another, as their reports are asked for.

    Args:
        traces: traces or trace files, as one set.
        runs: run name -> trace, beside or instead of them.
        tools: names of tools, or of folders of tools, as `xsp`; by default all tools in no folder.
        engine: `auto`, `cpu`, `gpu` or `dask`.

    Raises:
        PastaError: at once or when a report is asked for; with a one-line message.
    """
    sources, _ = _sources(traces, runs or {})
    asked: dict[str, _Asked] = {}
    left_out: dict[str, str] = {}
    built: dict[Any, Graph] = {}
    paths, files = shipped_tools(), ToolFiles()
    for name in tools_called(tools):
        config = files.tool(str(paths[name]))
        graph = build_graph(config, {}, files.included, built=built)
        if missing := lacking(config, graph, sources):
            left_out[name] = missing
        else:
            asked[name] = _Asked(name, config, graph, sources)
    return Reports(list(asked), left_out, _each(asked, engine))


def _each(asked: Mapping[str, _Asked], engine: str) -> Iterator[tuple[str, Report]]:
    """Run tools; what several have in common is run once and held until the last has read it."""
    shared = SharedRows(
        {n: (one.graph, wanted_nodes(one.config, outputs=False)) for n, one in asked.items()}
    )
    for name in shared.order:
        running = engine_of(engine, EngineOptions())
        yield name, _answer(asked[name], running, outputs=False, shared=shared.of(name))[0]


def collectors_of(tool: str, parameters: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Return the collectors, with their levels, that one execution needs for a tool's inputs.

    A tool may name them itself (`collect`); else the tables that it requires decide.

    Raises:
        ConfigError: the tool is wrong.
        CollectError: no collector fills a table that it requires, or what it reads is only imported.
    """
    from pasta.collect.collectors import collectors_for
    from pasta.collect.ladder import named_by_tool

    config, graph = check(tool, parameters)
    if config.collect:
        return named_by_tool(config.name, config.collect)
    required = {given.table for given in graph.inputs.values() if not given.optional}
    optional = {given.table for given in graph.inputs.values()} - required
    return collectors_for(required, optional, nvidia=_NVIDIA.exists())


def live_graph(tool: str, parameters: Mapping[str, Any] | None = None) -> LiveGraph:
    """Return the part of a tool that can be kept up to date while rows arrive.

    Raises:
        ConfigError: the tool is wrong.
    """
    config, graph = check(tool, parameters)
    return LiveGraph(config, graph, CpuEngine())


def write_outputs(tables: Mapping[str, pl.DataFrame], out: Path) -> None:
    """Write each table to `out/NAME.parquet`, under a temporary name until it is complete."""
    for name, rows in tables.items():
        with whole_file(out / f"{name}.parquet") as temporary:
            rows.write_parquet(temporary)


def _output_folder(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PastaError(
            f"{out}: cannot be made ({error.strerror}); choose another --out"
        ) from error
    return out


def _sources(
    trace: TraceLike | Sequence[TraceLike] | None, runs: Mapping[str, TraceLike]
) -> tuple[list[Source], list[str]]:
    """Return the traces to read, and a remark where none was named."""
    named = [Source(name, _as_trace(given)) for name, given in runs.items()]
    if trace is None and named:
        return named, []
    if trace is None:
        note = "no trace was named: this is the trace that ships with pasta"
        return [Source(SHIPPED_TRACE.name, Trace.open(SHIPPED_TRACE))], [note]
    given = [trace] if isinstance(trace, str | Path | Trace) else list(trace)
    sources = list(named)
    for item in given:
        path = item.path if isinstance(item, Trace) else Path(item)
        taken = {source.name for source in sources}
        name = path.resolve().name
        numbered = (f"{name}#{number}" for number in range(2, len(taken) + 3))
        free = name if name not in taken else next(n for n in numbered if n not in taken)
        sources.append(Source(free, _as_trace(item)))
    return sources, []


def _as_trace(given: TraceLike) -> Trace:
    return given if isinstance(given, Trace) else open(given)


def import_files(
    files: Sequence[Path],
    out: Path,
    *,
    strict: bool = False,
    column_map: Path | None = None,
    ranks: Sequence[int] = (),
    align: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Make a trace in `out` from trace files and return the report of what it holds.

    Args:
        files: one file, or one for each rank.
        out: a folder that does not exist yet or is empty.
        strict: stop at the first fault instead of counting it.
        column_map: YAML that says what the columns of the files are, whatever their format.
        ranks: of the files, in their order, whatever they say themselves.
        align: bring the clocks of ranks together, as `align` does.
        progress: called with bytes read and bytes in all.

    Raises:
        PastaError: a file cannot be imported or, with `align`, a clock cannot be told.
    """
    from pasta.collect.importing import import_trace
    from pasta.tools.many_ranks import clocks, one_of_alike

    with naming_files(out):
        imported = import_trace(
            files,
            out,
            strict=strict,
            column_map=column_map,
            ranks=ranks,
            align=align,
            progress=progress,
        )
    report = run("summary", out)
    report.notes += one_of_alike(imported.warnings)
    if imported.aligned is not None:
        report.findings.insert(1, imported.aligned.sentence)
        report.parts.append(clocks(imported.aligned.table))
    return report


def align(trace: TraceLike, out: str | Path) -> Report:
    """Write a trace in which all ranks have one clock, as their collectives tell it.

    Args:
        trace: a trace of several ranks.
        out: folder of the new trace, which does not exist yet or is empty.

    Returns:
        A report with one row for each rank: how far its clock was off, and how well that is known.

    Raises:
        TraceError: the clock of a rank cannot be told, or `out` holds something.
    """
    from pasta.tools.many_ranks import clocks
    from pasta.trace_align import align_trace

    opened = _as_trace(trace)
    with naming_files(out):
        aligned = align_trace(opened, Path(out))
    return Report(
        tool="align",
        about="How far the clocks of ranks are apart, as the ends of their collectives tell.",
        parameters={},
        engine="cpu",
        sources={opened.path.name: str(opened.path)},
        findings=[aligned.sentence],
        parts=[clocks(aligned.table)],
    )


def join(timeline: TraceLike, memory: TraceLike, out: str | Path) -> Joined:
    """Join a timeline run and a memory run of one program, launch by launch; see docs/joining.md.

    Args:
        timeline: a trace with durations of kernels.
        memory: a trace that says what kernels did to memory.
        out: folder of the new trace, which does not exist yet or is empty.

    Raises:
        TraceError: one of them is no such run, or `out` holds something.
    """
    from pasta.trace_join import join_traces

    with naming_files(out):
        return join_traces(_as_trace(timeline), _as_trace(memory), Path(out))


def merge(traces: Sequence[TraceLike], out: str | Path, *, renumber: bool = False) -> Combined:
    """Make one trace of several that were recorded apart, as of the ranks of one run.

    Args:
        traces: traces whose processes differ in rank or pid.
        out: folder of the new trace, which does not exist yet or is empty.
        renumber: number the ranks anew, in the order of the traces.

    Raises:
        TraceError: two traces have a process in common, or `out` holds something.
    """
    from pasta.tools.checks.clocks import clock_warnings
    from pasta.trace_combine import combine_traces

    with naming_files(out):
        merged = combine_traces(
            [_as_trace(given) for given in traces], Path(out), renumber=renumber
        )
    return replace(merged, notes=clock_warnings(Trace.open(merged.path)))


def pack_sources(trace: str | Path, *, below: Sequence[str | Path] = ()) -> Packed:
    """Add the source files that frames name to a trace, where it was recorded, or those `below` folders.

    Raises:
        TraceError: the trace has no frames, has sources already, or is of another machine.
    """
    from pasta.trace_sources import pack_sources as pack

    with naming_files(trace):
        return pack(Trace.open(trace), below=[Path(folder) for folder in below])


def export(trace: TraceLike, to: str, out: str | Path) -> Exported:
    """Write a trace in the format of another program; see docs/exporting.md.

    Args:
        trace: the trace, or a file that can be imported.
        to: name of the format.
        out: the file or folder to write or, of `otlp`, the address of a collector.

    Returns:
        How many rows of each table were written, and what could not be written whole.

    Raises:
        PastaError: there is no such format, or the trace lacks what it is made of.
    """
    from pasta.exports.exporter import EXPORTERS

    write = EXPORTERS.get(to)
    with naming_files(out):
        return write(_as_trace(trace), str(out))


def sql(trace: TraceLike, query: str) -> pl.DataFrame:
    """Return the rows of a SELECT over the tables of a trace.

    Raises:
        PastaError: the query is wrong.
    """
    return query_trace(_as_trace(trace), query)
