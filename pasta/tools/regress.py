"""Whether what the tool `diff` found of two runs breaks thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import polars as pl

from pasta.errors import ConfigError, did_you_mean
from pasta.tools.thresholds import COUNTED, Threshold
from pasta.tools.units import human, shorten

ALL_ROWS = 10**9
"""The parameter `top` with which `diff` gives every row."""

EXIT_CODES = {"holds": 0, "broken": 3, "untold": 4}
"""By the worst outcome of any threshold, `broken` before `untold`."""

_TABLES = {"operator": "operators", "module": "modules", "kernel": "kernels"}


@dataclass(frozen=True)
class Outcome:
    """What became of a threshold.

    Attributes:
        verdict: `broken`; `untold`: it grew by more, but the steps are too few to tell that from chance, or
            there is nothing to measure; else it `holds`.
        line: the threshold's place and what broke it, the worst first; empty where it holds.
    """

    verdict: Literal["holds", "broken", "untold"]
    line: str = ""


def judge(
    thresholds: Sequence[Threshold],
    tables: Mapping[str, pl.DataFrame],
    facts: Mapping[str, Any],
) -> list[Outcome]:
    """Return what becomes of each threshold.

    Times add up over ranks, so that between runs of different numbers of ranks only steps compare.

    Args:
        thresholds: what may grow by how much.
        tables: those of a report of `diff`, with every row (`top` is `ALL_ROWS`).
        facts: those of the same report.

    Raises:
        ConfigError: a threshold names what neither run has; with its place.
    """
    return [_outcome(threshold, tables, facts) for threshold in thresholds]


def _outcome(threshold: Threshold, tables: Mapping[str, pl.DataFrame], facts: Mapping[str, Any]) -> Outcome:  # fmt: skip
    before, after = facts["ranks_before"], facts["ranks_after"]
    if threshold.of != "step" and before and after and before != after:
        other = f"cannot be told: the runs have {before} and {after} ranks, and all of them count"
        return Outcome("untold", f"{threshold.path}: {other}")
    return _counted(threshold, tables) if threshold.of in COUNTED else _timed(threshold, tables)


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """Return 3 where any threshold is broken, else 4 where it cannot be told of any, else 0."""
    verdicts = {outcome.verdict for outcome in outcomes}
    worst = next(v for v in ("broken", "untold", "holds") if v in verdicts or v == "holds")
    return EXIT_CODES[worst]


def _counted(threshold: Threshold, tables: Mapping[str, pl.DataFrame]) -> Outcome:
    if tables["totals"].filter(kind="whole").is_empty():
        nothing = "cannot be told: one of the runs has no work at all"
        return Outcome("untold", f"{threshold.path}: {nothing}")
    rows = tables["places"].filter(pl.col("status") == threshold.of).to_dicts()
    if len(rows) <= threshold.most:
        return Outcome("holds")
    first = rows[0]
    named = (
        f"{shorten(human(first['kernel'], 'kernel'))} in {shorten(human(first['path'], 'path'))}"
    )
    more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    kernels = "1 kernel is" if len(rows) == 1 else f"{len(rows)} kernels are"
    said = f"{kernels} {threshold.of}, at most {threshold.most} allowed: {named}{more}"
    return Outcome("broken", f"{threshold.path}: {said}")


def _timed(threshold: Threshold, tables: Mapping[str, pl.DataFrame]) -> Outcome:
    rows = _watched(threshold, tables)
    if not rows:
        nothing = f"cannot be told: the runs have no time of any {threshold.of}"
        return Outcome("untold", f"{threshold.path}: {nothing}")
    over = [row for row in rows if _excess(threshold, row) > 0]
    over.sort(key=lambda row: _excess(threshold, row), reverse=True)
    broken = [row for row in over if row["verdict"] == "significant" or not threshold.significant]
    if broken:
        return Outcome("broken", _line(threshold, broken))
    untold = [
        row
        for row in over
        if row["verdict"] != "as chance" and (threshold.name or row["verdict"] != "not tested")
    ]
    if untold:
        return Outcome("untold", f"{_line(threshold, untold)}, but {_why_untold(untold[0])}")
    return Outcome("holds")


def _why_untold(row: Mapping[str, Any]) -> str:
    if row["verdict"] == "not tested":
        return "it is too small a part of all time to be tested"
    if row["verdict"] == "mixed":
        return "most steps differ the other way"
    return f"{row['units_before']} and {row['units_after']} are too few to tell that from chance"


def _watched(threshold: Threshold, tables: Mapping[str, pl.DataFrame]) -> list[dict[str, Any]]:
    """Return the rows that a threshold is of, in their order."""
    if threshold.of not in _TABLES:
        kind = "step" if threshold.of == "step" else "whole"
        return tables["totals"].filter(kind=kind, what=threshold.of).to_dicts()
    rows = [row for row in tables[_TABLES[threshold.of]].to_dicts() if row["main"]]
    if not threshold.name:
        return rows
    found = [row for row in rows if threshold.name in _names(threshold, row)]
    if not found:
        known = {name for row in rows for name in _names(threshold, row)}
        hint = did_you_mean(threshold.name, known) if known else ""
        raise ConfigError(
            f"{threshold.path}.name",
            f"neither run has {threshold.of} '{threshold.name}'.{hint[:200]}",
        )
    return found


def _names(threshold: Threshold, row: Mapping[str, Any]) -> list[str]:
    """Return what a row may be called by."""
    if threshold.of == "kernel":
        return [name for name in (row["before_name"], row["after_name"]) if name]
    return [row[threshold.of]]


def _of_a_step(row: Mapping[str, Any], side: str) -> Fraction:
    """Return the mean time of a step in ns, exactly; without steps, the time of the whole run."""
    if row["steps_before"] and row["steps_after"]:
        return Fraction(row[f"{side}_stepped_ns"], row[f"steps_{side}"])
    return Fraction(row[f"{side}_ns"])


def _excess(threshold: Threshold, row: Mapping[str, Any]) -> Fraction:
    """Return by how many ns of a step a row grew more than it may."""
    before = _of_a_step(row, "before")
    allowed = threshold.most * before if threshold.is_share else threshold.most
    return _of_a_step(row, "after") - before - allowed


def _line(threshold: Threshold, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a threshold's place, what exceeds it most, and how many rows more do."""
    worst = rows[0]
    before, after = _of_a_step(worst, "before"), _of_a_step(worst, "after")
    growth = f"{float((after - before) / before):.2%} more" if before else "all of it new"
    share, time = f"{float(threshold.most * 100):g}%", human(int(threshold.most), "_ns")
    said = [
        f"{_subject(threshold, worst)} {human(round(after), '_ns')} instead of {human(round(before), '_ns')}",
        growth,
        f"at most {share if threshold.is_share else time} more is allowed",
        *([f"and of {len(rows) - 1} others"] if len(rows) > 1 else []),
    ]
    return f"{threshold.path}: {', '.join(said)}"


def _subject(threshold: Threshold, row: Mapping[str, Any]) -> str:
    if threshold.of not in _TABLES:
        return str(row["subject"])
    named = shorten(human(row[threshold.of], threshold.of))
    where = f" of {shorten(human(row['operator'], 'operator'))}" if threshold.of == "kernel" else ""
    return f"{named}{where} takes"
