"""Clauses of any stage, such as `where` and `having`, as a query has them, written out as stages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pasta.pipeline.sql_functions import KEYWORDS
from pasta.pipeline.stage import STAGES

if TYPE_CHECKING:
    from pasta.pipeline.config import StageConfig

CLAUSES = ("where", "derive", "having", "select", "dedupe", "sort", "top")
"""Which rows a stage takes, and what is done with its own, in this order: columns added, rows kept, columns kept,
one row kept for each key, rows ordered, the first of them kept."""

_LAST = (
    ("having", "filter", "where"),
    ("select", "select", "columns"),
    ("dedupe", "dedupe", "by"),
    ("sort", "sort", "by"),
    ("top", "top", "by"),
)
"""What comes last: a clause, its stage, and the argument of that which its value is."""

_PLAIN = re.compile(r"[A-Za-z_]\w*")
_WORDS_OF_QUERIES = frozenset(
    {
        *("all", "current_date", "current_user", "exists", "false", "group", "having", "ilike"),
        *("interval", "lateral", "like", "limit", "offset", "select", "session_user", "struct"),
        *("top", "trim", "true", "union", "user", "values", "where", "with"),
    }
)
"""Names of columns that SQL reads as something else, beside the words of expressions."""

OF_THE_SAME_NAME = {
    **{name: f"{name}({{0}})" for name in ("sum", "min", "max", "avg", "count")},
    "total": "coalesce(sum({0}), 0)",
}
"""Measures that a word says, of the column that is called as the measure; a `total` of no rows is 0."""


def written_out(name: str, stage: StageConfig) -> dict[str, StageConfig]:
    """Return a stage and those that its clauses mean, by name, in order.

    The last has the stage's name, the others also that of what they do, as `long:where` and `long:rows`.
    """
    clauses = {key: stage.arguments[key] for key in _clauses(stage)}
    rest = {key: value for key, value in stage.arguments.items() if key not in clauses}
    if stage.use == "aggregate" and isinstance(rest.get("measures"), Mapping):
        rest["measures"] = {key: _measure(key, each) for key, each in rest["measures"].items()}
    found: dict[str, StageConfig] = {}
    first = dict(stage.sources)
    if "where" in clauses and first:
        key, source = next(iter(first.items()))
        found[f"{name}:where"] = replace(
            stage, use="filter", sources={0: source}, arguments={"where": clauses["where"]}
        )
        first[key] = f"{name}:where"
    found[f"{name}:rows"] = replace(stage, sources=first, arguments=rest)
    for label, use, arguments in _after(clauses):
        step = replace(stage, use=use, sources={0: list(found)[-1]}, arguments=arguments)
        found[f"{name}:{label}"] = replace(step, path=f"{stage.path}.{label}")
    *_, last = found
    return {(name if key == last else key): step for key, step in found.items()}


def _measure(name: str, measure: Any) -> Any:
    """Return a measure in full."""
    full = OF_THE_SAME_NAME.get(measure) if isinstance(measure, str) else None
    plain = _PLAIN.fullmatch(name) and name.lower() not in KEYWORDS | _WORDS_OF_QUERIES
    return measure if full is None else full.format(name if plain else f'"{name}"')


def _clauses(stage: StageConfig) -> list[str]:
    """Return the clauses that a stage has; what is an argument of its own is none."""
    found = [key for key in CLAUSES if key in stage.arguments]
    if not found or stage.use not in STAGES:
        return found
    return [key for key in found if key not in STAGES.get(stage.use).arguments]


def _after(clauses: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield what the clauses do with the rows of a stage: their path, a stage, its arguments."""
    derived = clauses.get("derive", [])
    if isinstance(derived, list):
        for position, columns in enumerate(derived):
            yield f"derive[{position}]", "derive", {"columns": columns}
    else:
        yield "derive", "derive", {"columns": derived}
    for clause, use, argument in _LAST:
        if clause in clauses:
            value = clauses[clause]
            whole = clause in ("dedupe", "sort", "top") and isinstance(value, Mapping)
            yield clause, use, dict(value) if whole else {argument: value}
