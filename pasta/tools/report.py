"""What a tool says: findings first, then facts, tables and charts, with the losses of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.charts import ROLES
from pasta.pipeline.config import ReportItem, ToolConfig
from pasta.pipeline.expressions import parse
from pasta.pipeline.graph import Graph
from pasta.pipeline.run import Source
from pasta.registry import Registry
from pasta.tools.units import fields_of, fill_template, printable
from pasta.trace_state import unfinished

MOST_FINDINGS = 5
"""Findings shown for one line of YAML that holds for many rows; the rest is counted."""
MOST_LOSSES = 40
"""Losses shown in a terminal and in a notebook; the rest is counted."""
_NAMES = {"trace", "run", "whose"}
"""Columns that name the trace of a row themselves, where there are several."""


@dataclass(frozen=True)
class TablePart:
    """A table of the report; people see `columns` and `limit` rows of it, which may be none, programs all."""

    name: str
    title: str
    rows: pl.DataFrame
    columns: Sequence[str] | None = None
    limit: int = 20

    @property
    def shown(self) -> pl.DataFrame:
        """The rows and columns for people."""
        rows = self.rows.head(self.limit)
        return rows if self.columns is None else rows.select(self.columns)


@dataclass(frozen=True)
class ChartPart:
    """A chart of the report; `pasta.pipeline.charts` has the kinds.

    Attributes:
        kind: of the chart.
        title: above it.
        rows: what it shows, of bars the first `limit`.
        roles: what each role, such as `x`, is played by: a column, or for `columns` several.
        limit: the most bars.
        log: whether its axes are logarithmic.
    """

    kind: str
    title: str
    rows: pl.DataFrame
    roles: Mapping[str, str | Sequence[str]]
    limit: int = 20
    log: bool = False

    @property
    def columns(self) -> list[str]:
        """The columns it shows."""
        played = self.roles.values()
        listed = [[one] if isinstance(one, str) else one for one in played]
        return list(dict.fromkeys(column for columns in listed for column in columns))

    def column(self, role: str) -> str:
        """Return the column that plays a role; empty where none does."""
        return str(self.roles.get(role, ""))


@dataclass
class Report:
    """The answer of a tool.

    Attributes:
        tool: its name.
        about: what it answers.
        parameters: name -> value it ran with.
        engine: who ran it.
        sources: trace name -> path.
        findings: sentences, the most important first.
        weights: finding -> the share of the time, or of what else counts, that it is about; 0 where its tool
            gives none, less than 0 where it says no value: that there is nothing to tell.
        facts: name -> number.
        parts: tables and charts in the order in which they are shown.
        losses: what the traces lost: collector, reason, count.
        notes: remarks such as which trace was taken.
        graph: the stages that made it; `None`: not known.
    """

    tool: str
    about: str
    parameters: Mapping[str, Any]
    engine: str
    sources: Mapping[str, str]
    findings: list[str] = field(default_factory=list)
    weights: dict[str, float] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    parts: list[TablePart | ChartPart] = field(default_factory=list)
    losses: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    graph: Graph | None = None

    @property
    def tables(self) -> dict[str, pl.DataFrame]:
        """The tables by name, as Polars frames."""
        return {part.name: part.rows for part in self.parts if isinstance(part, TablePart)}

    def _repr_html_(self) -> str:
        from pasta.tools.notebook import render_html

        return render_html(self)


ReportFunction = Callable[[Report, Sequence[Source], Mapping[str, pl.DataFrame]], None]
Function = TypeVar("Function", bound=ReportFunction)

REPORT_FUNCTIONS: Registry[ReportFunction] = Registry("report function", "pasta.tools")


def tool(name: str) -> Callable[[Function], Function]:
    """Register a report function, for what YAML cannot say.

    A tool's YAML names it under `report_function`; it is called with the report so far, the
    sources and the rows of the tool's stages, and adds to the report.
    """

    def register(function: Function) -> Function:
        REPORT_FUNCTIONS.add(name, function)
        return function

    return register


_SERIALIZED = (
    "{} was recorded with --serialize: what contains what holds, its times and overlaps are not those"
    " of the program as it runs"
)


def build_report(
    report: Report,
    config: ToolConfig,
    sources: Sequence[Source],
    tables: Mapping[str, pl.DataFrame],
) -> None:
    """Fill `report` with what the tool's YAML says about the rows of its stages."""
    for item in config.report:
        _ADD[item.kind](report, item, tables)
    if config.report_function is not None:
        REPORT_FUNCTIONS.get(config.report_function)(report, sources, tables)
    for source in sources:
        if means := unfinished(source.trace):
            report.notes.append(means)
        report.losses += source.trace.losses().to_dicts()
        if source.trace.info.get("serialized"):
            report.notes.append(_SERIALIZED.format(source.name))
        if config.report_function == "summary" or _may_read_samples(config):
            report.notes += _missed(source)


def _may_read_samples(config: ToolConfig) -> bool:
    """Tell whether a tool reads samples, or includes others, which may."""
    own = any(each.table == "sample" for each in config.inputs.values())
    return own or bool(config.include)


def _missed(source: Source) -> Iterator[str]:
    """Yield what collectors said that they would not see of the program."""
    for collector in source.trace.info.get("collectors") or ():
        if misses := collector.get("misses"):
            yield f"{collector['name']} of {source.name} misses: {'; '.join(misses)}"


def _add_finding(report: Report, item: ReportItem, tables: Mapping[str, pl.DataFrame]) -> None:
    rows = tables[item.options["from"]]
    if "row" in item.options:
        rows = rows[item.options["row"] : item.options["row"] + 1]
    if "when" in item.options:
        rows = rows.filter(parse(item.options["when"], f"{item.path}.when", report.parameters))
    template = item.options["finding"]
    named = len(report.sources) < 2 or _NAMES & {*fields_of(template)}
    told, said = rows.head(MOST_FINDINGS), []
    for row in told.to_dicts():
        filled = fill_template(template, row, item.path, report.parameters)
        of_trace = "" if named or not row.get("trace") else f"{printable(row['trace'])}: "
        said.append(of_trace + filled)
    report.findings += said
    report.weights |= dict(zip(said, _weights(report, item, told), strict=True))
    if rows.height > MOST_FINDINGS:
        report.findings.append(f"... and {rows.height - MOST_FINDINGS} more of this kind")


def _weights(report: Report, item: ReportItem, rows: pl.DataFrame) -> list[float]:
    if "weight" not in item.options:
        values = {*fields_of(item.options["finding"])} - _NAMES - {*report.parameters}
        return [0.0 if values else -1.0] * rows.height
    weight = parse(item.options["weight"], f"{item.path}.weight", report.parameters)
    share = weight.cast(pl.Float64).fill_nan(None).fill_null(0)
    return rows.with_columns(share.alias("weight"))["weight"].to_list()


def _add_facts(report: Report, item: ReportItem, tables: Mapping[str, pl.DataFrame]) -> None:
    rows = tables[item.options["facts"]]
    if rows.height > 1:
        raise ConfigError(f"{item.path}.facts", f"needs one row, got {rows.height}")
    values = rows.to_dicts()[0] if rows.height else dict.fromkeys(rows.columns)
    report.facts |= values


def _add_table(report: Report, item: ReportItem, tables: Mapping[str, pl.DataFrame]) -> None:
    name, options = item.options["table"], item.options
    title = fill_template(options.get("title", name), {}, item.path, report.parameters)
    rows, columns, limit = tables[name], options.get("columns"), options.get("limit", 20)
    if sometimes := options.get("where_filled"):
        empty = {column for column in sometimes if not _filled(rows[column])}
        columns = [column for column in options["columns"] if column not in empty]
    report.parts.append(TablePart(name, title, rows, columns, limit))


def _filled(column: pl.Series) -> bool:
    """Tell whether a cell holds anything: null and the empty text do not."""
    held = column.filter(column != "") if column.dtype == pl.String else column.drop_nulls()
    return len(held) > 0


def _add_chart(report: Report, item: ReportItem, tables: Mapping[str, pl.DataFrame]) -> None:
    options = item.options
    roles = {role: options[role] for role in (*ROLES, "columns") if role in options}
    title = options.get("title", " by ".join(options[r] for r in ("y", "x") if r in options))
    title = fill_template(title or options["from"], {}, item.path, report.parameters)
    rows, limit, log = tables[options["from"]], options.get("limit", 20), options.get("log", False)
    report.parts.append(ChartPart(options["chart"], title, rows, roles, limit, log))


def _add_note(report: Report, item: ReportItem, _tables: Mapping[str, pl.DataFrame]) -> None:
    report.notes.append(fill_template(item.options["note"], {}, item.path, report.parameters))


_ADD: dict[str, Callable[[Report, ReportItem, Mapping[str, pl.DataFrame]], None]] = {
    "finding": _add_finding,
    "facts": _add_facts,
    "table": _add_table,
    "chart": _add_chart,
    "note": _add_note,
}
