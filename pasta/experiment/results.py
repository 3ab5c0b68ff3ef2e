"""The report of an experiment: each level's numbers from the run that sees no deeper, and what looking costs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from pasta.experiment.measuring import ORDER, RUN, STEP, measure
from pasta.experiment.plan import Experiment
from pasta.experiment.statistics import mean_interval, trimmed_mean
from pasta.tools.report import ChartPart, Report, TablePart
from pasta.tools.units import human

OUTPUTS = ("levels", "numbers", "overheads", "runs")
_NAMES = 5
_KEY = ["case_number", "case", "level"]
_FEWEST = 2


def report(experiment: Experiment, runs: Path) -> tuple[Report, dict[str, pl.DataFrame]]:
    """Return what an experiment found, for people and as tables.

    Args:
        experiment: what was run.
        runs: folder of its runs, all of which are there.

    Returns:
        A report, and the tables `levels`, `numbers`, `overheads` and `runs`; see docs/experiments.md.
    """
    measured = measure(experiment, runs)
    by_level = _by_level(measured)
    deepest = _deepest(measured)
    levels = _levels(by_level.join(deepest, on=["level", "depth"]))
    numbers = _numbers(measured.join(deepest, on=["level", "depth"]))
    collected = [level.name for level in experiment.levels]
    overheads = _overheads(by_level, collected)
    costs = _overheads(_over_cases(by_level, len(experiment.cases)), collected)
    made = Report(
        tool=experiment.name,
        about=experiment.about
        or "What one program takes at each level, and what looking at it costs.",
        parameters={name: list(values) for name, values in experiment.parameters.items()},
        engine="cpu",
        sources={RUN: str(runs)},
        findings=[*_times(levels), *_costs(costs, len(experiment.cases))],
        facts={
            "runs": measured.select("case", "depth", "round").n_unique(),
            "cases": len(experiment.cases),
            "levels": len(experiment.levels),
            "rounds": experiment.repeats,
        },
    )
    made.parts = _parts(levels, overheads, numbers)
    made.notes = _notes(experiment)
    tables = (levels, numbers, overheads, _runs(by_level))
    return made, dict(zip(OUTPUTS, tables, strict=True))


def _parts(
    levels: pl.DataFrame, overheads: pl.DataFrame, numbers: pl.DataFrame
) -> list[TablePart | ChartPart]:
    """Return the tables of a report, and a chart where there are several runs to compare."""
    parts: list[TablePart | ChartPart] = [
        TablePart("levels", "Levels of the stack, each from the runs that see no deeper: one step, and all calls of the others", levels,
                  ["case", "level", "collected", "runs", "calls", "time_ns", "least_ns", "most_ns"], limit=64),
        TablePart("overheads", "What a collection level adds", overheads,
                  ["case", "level", "collected", "beside", "before_ns", "more_ns", "low_ns", "high_ns", "more_share", "clear"], limit=64),
        TablePart("most", f"The {_NAMES} names of each level that take most", _most(numbers),
                  ["case", "level", "name", "collected", "calls", "one_ns", "time_ns"], limit=64),
    ]  # fmt: skip
    whole = levels.filter(pl.col("level") == RUN)
    if whole.height > 1:
        parts.insert(1, ChartPart("bar", "A run", whole, {"x": "case", "y": "time_ns"}))
    return parts


def _by_level(measured: pl.DataFrame) -> pl.DataFrame:
    """Sum up each run by level of the stack; of steps one counts, as the first often take longer."""
    return (
        measured.group_by(*_KEY, "collected", "depth", "round")
        .agg(pl.col("calls", "outer_ns").sum(), one_ns=pl.col("one_ns").max())
        .with_columns(time_ns=pl.when(pl.col("level") == STEP).then("one_ns").otherwise("outer_ns"))
    )


def _deepest(measured: pl.DataFrame) -> pl.DataFrame:
    """For each level of the stack, the collection level at which it is the deepest: the first that has it."""
    return measured.group_by("level").agg(depth=pl.col("depth").min())


def _place() -> pl.Expr:
    return pl.col("level").replace_strict(ORDER, default=len(ORDER), return_dtype=pl.Int64)


def _levels(rows: pl.DataFrame) -> pl.DataFrame:
    grouped = rows.group_by(*_KEY, "collected").agg("calls", "time_ns", runs=pl.len())
    return _summed(grouped, ["time_ns"]).sort("case_number", _place())


def _numbers(rows: pl.DataFrame) -> pl.DataFrame:
    grouped = rows.group_by(*_KEY, "name", "collected").agg(
        "calls", "one_ns", "time_ns", runs=pl.len()
    )
    summed = _summed(grouped, ["one_ns", "time_ns"])
    return summed.sort("case_number", _place(), pl.col("time_ns").neg(), "name")


def _most(numbers: pl.DataFrame) -> pl.DataFrame:
    """Return the first names of each level that has more than one."""
    place = pl.int_range(pl.len()).over(_KEY)
    return numbers.filter(place < _NAMES, pl.col("name").len().over(_KEY) > 1)


def _summed(grouped: pl.DataFrame, times: Sequence[str]) -> pl.DataFrame:
    """Replace lists of values of each round by their trimmed mean, and add the least and the most."""
    columns = [pl.col("calls").list.median().round().cast(pl.Int64)]
    for name in times:
        prefix = "" if times == ["time_ns"] else f"{name.removesuffix('_ns')}_"
        columns.append(pl.col(name).list.min().alias(f"{prefix}least_ns"))
        columns.append(pl.col(name).list.max().alias(f"{prefix}most_ns"))
        means = [round(trimmed_mean(values)) for values in grouped[name].to_list()]
        columns.append(pl.lit(pl.Series(name, means, pl.Int64)).alias(name))
    return grouped.with_columns(columns)


_OVERHEADS = {
    "case_number": pl.Int64,
    "case": pl.String,
    "level": pl.String,
    "collected": pl.String,
    "beside": pl.String,
    "rounds": pl.Int64,
    "before_ns": pl.Int64,
    "more_ns": pl.Int64,
    "low_ns": pl.Int64,
    "high_ns": pl.Int64,
    "more_share": pl.Float64,
    "clear": pl.Boolean,
}


def _overheads(by_level: pl.DataFrame, collected: Sequence[str]) -> pl.DataFrame:
    """Compare each collection level with that before it and with the first, round by round."""
    pairs = [(k, k - 1) for k in range(1, len(collected))]
    pairs += [(k, 0) for k in range(2, len(collected))]
    rows: list[dict[str, Any]] = []
    for key, group in by_level.sort("round").group_by(_KEY, maintain_order=True):
        times = {
            depth: dict(zip(own["round"].to_list(), own["time_ns"].to_list(), strict=True))
            for (depth,), own in group.group_by("depth")
        }
        for deeper, beside in pairs:
            if times.get(deeper, {}).keys() & times.get(beside, {}).keys():
                names = {"collected": collected[deeper], "beside": collected[beside]}
                keys = dict(zip(_KEY, key, strict=True))
                rows.append({**keys, **names, **_difference(times[deeper], times[beside])})
    frame = pl.DataFrame(rows, schema=_OVERHEADS)
    order = [pl.col(name).replace_strict(
        {level: place for place, level in enumerate(collected)}, return_dtype=pl.Int64)
        for name in ("collected", "beside")]  # fmt: skip
    return frame.sort("case_number", _place(), order[0], order[1].neg())


def _over_cases(by_level: pl.DataFrame, cases: int) -> pl.DataFrame:
    """Return the mean time of a run over all cases, round by round.

    Of the cases the one in which a level costs most is so by chance too: its interval would lie too high.
    """
    whole = by_level.filter(pl.col("level") == RUN)
    means = whole.group_by("level", "depth", "round").agg(pl.col("time_ns").mean(), seen=pl.len())
    named = means.filter(pl.col("seen") == cases).drop("seen")
    return named.with_columns(case_number=pl.lit(-1, pl.Int64), case=pl.lit("all"))


def _difference(after: dict[int, float], before: dict[int, float]) -> dict[str, Any]:
    rounds = sorted(after.keys() & before.keys())
    usual = sum(before[number] for number in rounds) / len(rounds)
    found = mean_interval([after[number] - before[number] for number in rounds])
    row = {"rounds": len(rounds), "before_ns": round(usual)}
    if found is None:
        more = sum(after[number] - before[number] for number in rounds)
        return {**row, "more_ns": round(more), "more_share": more / usual if usual else None}
    return {
        **row,
        "more_ns": round(found.mean),
        "low_ns": round(found.low),
        "high_ns": round(found.high),
        "more_share": found.mean / usual if usual else None,
        "clear": found.excludes_zero,
    }


def _runs(by_level: pl.DataFrame) -> pl.DataFrame:
    shown = by_level.drop("one_ns", "outer_ns")
    return shown.sort("case_number", "depth", "round", _place())


def _times(levels: pl.DataFrame) -> Iterator[str]:
    """Say how long a run and a step take in each case."""
    for (_, case), own in itertools.islice(
        levels.group_by("case_number", "case", maintain_order=True), 8
    ):
        said = [
            f"a {row['level']} takes {human(row['time_ns'], 'time_ns')} (with {row['collected']})"
            for row in own.filter(pl.col("level").is_in([RUN, STEP])).to_dicts()
        ]
        yield f"{case}: {', '.join(said)}"


def _costs(costs: pl.DataFrame, cases: int) -> Iterator[str]:
    """Say what each collection level adds to a run, beside the level before it."""
    for row in costs.unique("collected", keep="first", maintain_order=True).to_dicts():
        yield _cost(row, cases)


def _cost(row: dict[str, Any], cases: int) -> str:
    share = f" ({human(abs(row['more_share']), 'more_share')})" if row["clear"] else ""
    size, way = _more(row["more_ns"])
    where = f", in the mean of {cases} cases" if cases > 1 else ""
    said = (
        f"with {row['collected']} a run takes {size}{share} {way} than with {row['beside']}{where}"
    )
    if row["rounds"] < _FEWEST:
        return f"{said}, by one run of each: chance alone may be as much"
    bounds = " and ".join(" ".join(_more(row[end])) for end in ("low_ns", "high_ns"))
    if not row["clear"]:
        said = f"{said}, which chance alone may be"
    return f"{said}: between {bounds}, with a confidence of 95 %"


def _more(ns: float) -> tuple[str, str]:
    """Return how much more or less a time is, and which of both."""
    return human(abs(ns), "more_ns"), "less" if ns < 0 else "more"


def _notes(experiment: Experiment) -> list[str]:
    cut = experiment.repeats // 5
    trimmed = (
        f"the {cut} least and the {cut} most of {experiment.repeats} runs left out"
        if cut
        else f"none of {experiment.repeats} runs left out, as there are fewer than 5"
    )
    means = f"times are means over runs, {trimmed}"
    return [f"{means}; intervals are Student's, over the differences of the runs of a round"]
