"""Numbers of an experiment out of hand-made traces, whose answers are worked out by hand."""

from __future__ import annotations

import random

import polars as pl
import pytest

from pasta.experiment.plan import read_experiment
from pasta.experiment.results import report
from pasta.testing import write_trace

SECOND = 10**9
COST = {"none": 0, "ranges": 10, "torch:operators": 30}


def process(took):
    return {"started": SECOND, "ended": SECOND + took}


def spans(level, number, size):
    """Three steps, of which the first is slow; below `torch:operators` an operator within another."""
    if level == "none":
        return {}
    step = {"tid": 1, "level": "step", "parent_id": 0}
    rows = [
        {**step, "span_id": 1, "name": "step 0", "ts": 0, "dur": 900},
        {**step, "span_id": 2, "name": "step 1", "ts": 1000, "dur": 100 * size + number},
        {**step, "span_id": 3, "name": "step 2", "ts": 2000, "dur": 100 * size + number},
    ]
    if level == "torch:operators":
        operator = {"tid": 1, "level": "operator", "ts": 1000}
        rows += [
            {**operator, "span_id": 4, "parent_id": 2, "name": "outer", "dur": 50 * size},
            {**operator, "span_id": 5, "parent_id": 4, "name": "inner", "dur": 20 * size},
            {**operator, "span_id": 6, "parent_id": 4, "name": "inner", "dur": 10 * size},
        ]
    return {"span": rows}


@pytest.fixture
def found(tmp_path):
    """Runs of 1000 ns for each of `size`; each round is 7 ns slower, at every level alike."""
    file = tmp_path / "e.yaml"
    file.write_text(
        "version: 1\nexperiment: mine\ncommand: a.out {size}\nparameters: {size: [1, 2]}\n"
        'levels: [none, ranges, "torch:operators"]\nrepeats: 5\n'
    )
    experiment = read_experiment(file)
    for run in experiment.runs():
        size = run.case["size"]
        took = 1000 * size + 7 * run.round + COST[run.level.name]
        took += 100_000 * (run.round == 3 and run.level.name == "none" and size == 2)
        tables = spans(run.level.name, run.round, size)
        write_trace(tmp_path / "runs" / run.folder, process=[process(took)], **tables)
    return report(experiment, tmp_path / "runs")


def test_each_level_is_told_by_the_runs_that_see_no_deeper(found):
    _, tables = found
    rows = tables["levels"].filter(case="size=1")
    assert rows.select("level", "collected", "runs", "calls", "time_ns").rows() == [
        ("run", "none", 5, 1, 1021),
        ("step", "ranges", 5, 3, 103),
        ("operator", "torch:operators", 5, 3, 50),
    ]
    assert rows.select("least_ns", "most_ns").rows()[:2] == [(1007, 1035), (101, 105)]


def test_the_mean_leaves_out_the_run_that_was_disturbed(found):
    _, tables = found
    whole = tables["levels"].filter(case="size=2", level="run").row(0, named=True)
    assert (whole["time_ns"], whole["most_ns"]) == (2000 + round(7 * (2 + 4 + 5) / 3), 102_021)


def test_names_have_calls_and_the_time_of_one(found):
    _, tables = found
    rows = tables["numbers"].filter(case="size=2", level="operator")
    assert (
        rows.select("name", "calls", "one_ns", "time_ns").rows()
        == [
            ("inner", 2, 30, 60),
            ("outer", 1, 100, 100),
        ][::-1]
    )


def test_what_a_level_adds_is_the_difference_within_rounds(found):
    made, tables = found
    rows = tables["overheads"].filter(case="size=1", level="run")
    assert rows.select("collected", "beside", "more_ns", "low_ns", "high_ns", "clear").rows() == [
        ("ranges", "none", 10, 10, 10, True),
        ("torch:operators", "ranges", 20, 20, 20, True),
        ("torch:operators", "none", 30, 30, 30, True),
    ]
    assert rows["more_share"][0] == pytest.approx(10 / 1021)
    steps = tables["overheads"].filter(case="size=1", level="step")
    assert steps.select("collected", "beside", "more_ns").rows() == [
        ("torch:operators", "ranges", 0)
    ]
    assert made.findings[0] == (
        "size=1: a run takes 1.02 us (with none), a step takes 103 ns (with ranges)"
    )
    assert made.findings[2] == (
        "with ranges a run takes 9.99 us less than with none, in the mean of 2 cases, which chance alone may be:"
        " between 37.75 us less and 17.77 us more, with a confidence of 95 %"
    )


def test_what_chance_may_be_is_said_so(found):
    _, tables = found
    row = tables["overheads"].filter(case="size=2", level="run", collected="ranges")
    assert row["clear"].to_list() == [False]
    assert row["more_ns"].to_list() == [10 - 100_000 // 5]


def test_runs_are_all_there(found):
    _, tables = found
    rows = tables["runs"].filter(level="run")
    assert rows.height == 2 * 3 * 5
    assert rows.filter(case="size=1", collected="none")["time_ns"].to_list() == [
        1007, 1014, 1021, 1028, 1035
    ]  # fmt: skip
    assert isinstance(tables["numbers"], pl.DataFrame)


def runs_of(tmp_path, levels, tables, sizes="[1]", repeats=3):
    """Report on runs whose tables `tables` gives, by level, round and size."""
    file = tmp_path / "e.yaml"
    tmp_path.mkdir(exist_ok=True)
    file.write_text(
        f"version: 1\nexperiment: mine\ncommand: a.out {{size}}\nparameters: {{size: {sizes}}}\n"
        f"levels: {levels}\nrepeats: {repeats}\n"
    )
    experiment = read_experiment(file)
    for run in experiment.runs():
        made = tables(run.level.name, run.round, run.case["size"])
        write_trace(tmp_path / "runs" / run.folder, **made)
    return report(experiment, tmp_path / "runs")


def test_a_span_within_one_of_its_level_counts_once_whatever_is_between(tmp_path):
    """A module in an operator in a module; what an unfinished module holds has no other around it."""
    row = {"tid": 1, "ts": 0}
    module, operator = {**row, "level": "module"}, {**row, "level": "operator"}
    rows = [
        {**module, "span_id": 1, "parent_id": 0, "name": "outer", "dur": 100},
        {**operator, "span_id": 2, "parent_id": 1, "name": "checkpoint", "dur": 80},
        {**module, "span_id": 3, "parent_id": 2, "name": "inner", "dur": 60},
        {**module, "span_id": 4, "parent_id": 0, "name": "unfinished", "dur": None, "ts": 200},
        {**module, "span_id": 5, "parent_id": 4, "name": "inner", "dur": 7, "ts": 200},
    ]
    _, tables = runs_of(
        tmp_path, "[ranges]", lambda *_run: {"process": [process(9)], "span": rows}, repeats=1
    )
    found = tables["levels"].select("level", "calls", "time_ns").rows()
    assert found == [("run", 1, 9), ("module", 3, 107), ("operator", 1, 80)]
    inner = tables["numbers"].filter(name="inner").row(0, named=True)
    assert (inner["calls"], inner["time_ns"]) == (2, 67)


def test_a_level_that_costs_less_saves(tmp_path):
    made, _ = runs_of(
        tmp_path,
        "[none, ranges]",
        lambda level, number, size: {
            "process": [process(1000 * size + number * (level == "none") + 50 * (level == "none"))]
        },
        sizes="[1, 2]",
    )
    assert made.findings[-1] == (
        "with ranges a run takes 52 ns (3.4 %) less than with none, in the mean of 2 cases:"
        " between 54 ns less and 50 ns less, with a confidence of 95 %"
    )


def test_chance_makes_no_cost_clear_more_often_than_it_says(tmp_path):
    """Of runs that cost nothing more but vary, about 1 in 20 may seem clear, whatever the number of cases."""
    clear = 0
    for seed in range(60):
        noise = random.Random(seed)
        made, _ = runs_of(
            tmp_path / str(seed),
            "[none, ranges]",
            lambda _level, _number, _size, noise=noise: {"process": [process(round(noise.gauss(10_000, 300)))]},
            sizes="[1, 2, 3, 4]",
        )  # fmt: skip
        clear += "chance alone may be" not in made.findings[-1]
    assert clear <= 6


def test_rounds_in_which_only_one_of_two_levels_saw_something_are_not_compared(tmp_path):
    def tables(level, number, _size):
        span = {"span_id": 1, "tid": 1, "level": "step", "name": "step", "ts": 0, "dur": 5}
        seen = (level == "ranges") == (number == 1)
        return {"process": [process(9)], **({"span": [span]} if seen else {})}

    _, found = runs_of(tmp_path, '[ranges, "torch:operators"]', tables)
    assert found["overheads"]["level"].to_list() == ["run"]
