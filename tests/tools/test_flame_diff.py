"""`flame_diff` on two runs whose differences are worked out by hand."""

from __future__ import annotations

import polars as pl
import pytest

import pasta
from pasta.tools.report import ChartPart, TablePart
from tests.conftest import write_trace
from tests.tools.flame_paths import paths_of

LONE = (
    "65.0 % of the device time of the second run is on call paths that the first does not have,"
    " 85.0 % of the first on paths that the second does not have"
)


def run(folder, *kernels):
    """Write a run of operators, each with the kernels it launches: (operator, kernel, dur)."""
    tables: dict[str, list[dict[str, object]]] = {"span": [], "call": [], "kernel": []}
    tables["span"].append({"tid": 1, "span_id": 99, "parent_id": 0, "level": "module", "name": "net >", "ts": 0, "dur": 9_000})  # fmt: skip
    for number, (operator, kernel, dur) in enumerate(kernels, start=1):
        ts = 100 * number
        tables["span"].append({"tid": 1, "span_id": number, "parent_id": 99, "level": "operator", "name": operator, "ts": ts, "dur": 50})  # fmt: skip
        tables["call"].append({"tid": 1, "ts": ts + 5, "dur": 2, "correlation": number, "name": "launch"})  # fmt: skip
        tables["kernel"].append({"device": 0, "ts": 1_000 * number, "dur": dur, "correlation": number, "launch_id": number, "name": kernel})  # fmt: skip
    return write_trace(folder, **tables)


@pytest.fixture
def report(tmp_path):
    runs = {
        "before": run(tmp_path / "a", ("mm", "gemm_old", 300), ("add", "add", 60), ("exp", "exp", 40)),
        "after": run(tmp_path / "b", ("mm", "gemm_new", 120), ("add", "add", 70), ("tanh", "tanh", 10)),
    }  # fmt: skip
    return pasta.run("flame_diff", runs=runs, weight="device")


def nodes(report) -> pl.DataFrame:
    (chart,) = (part for part in report.parts if isinstance(part, ChartPart))
    return chart.rows


def test_what_one_run_has_counts_for_the_path_that_both_have(report):
    """Another kernel of `mm` does its work; `exp` and `tanh` lie in `net >`, which both have."""
    rows = report.tables["changed"].select("name", "was_share", "now_share", "change_ns", "callers")
    assert rows.rows() == [
        ("mm", 0.75, 0.6, -180, "net >"),
        ("net >", 0.1, 0.05, -30, "nothing that is recorded"),
        ("add", 0.15, 0.35, 10, "add < net >"),
    ]
    assert rows["change_ns"].sum() == 200 - 400


def test_paths_that_only_one_run_has(report):
    rows = report.tables["single"].select("name", "status", "change_ns", "callers").rows()
    assert rows == [
        ("gemm_old", "gone", -300, "mm < net >"),
        ("gemm_new", "new", 120, "mm < net >"),
        ("exp", "gone", -40, "net >"),
        ("tanh", "new", 10, "net >"),
    ]


def test_the_change_is_shown_in_the_unit_of_the_weight_alone(report):
    shown = {
        part.name: [*part.shown.columns] for part in report.parts if isinstance(part, TablePart)
    }
    assert shown["changed"] == ["name", "was_share", "now_share", "change_ns", "callers"]
    assert shown["single"] == ["name", "status", *shown["changed"][1:]]


def test_findings_name_the_largest_changes(report):
    assert report.findings == [
        "device time: 200 ns instead of 400 ns",
        "mm has 120 ns instead of 300 ns, called by net >",
        "net > has 10 ns instead of 40 ns apart from paths below it that both have, called by nothing that is recorded",
        "add has 70 ns instead of 60 ns, called by add < net >",
        LONE,
    ]


def test_the_graph_has_both_runs(report):
    rows = nodes(report)
    assert paths_of(rows, "own_before") == {
        ("net >", "mm", "gemm_old"): 300,
        ("net >", "add", "add"): 60,
        ("net >", "exp", "exp"): 40,
    }
    assert sum(paths_of(rows, "own_after").values()) == 200
    told = dict(rows.filter(depth=1).select("name", "change_of_both").iter_rows())  # fmt: skip
    assert told == {"add": pytest.approx(10 / 130), "exp": -1, "mm": pytest.approx(-180 / 420), "tanh": 1}  # fmt: skip


def test_one_run_is_nothing_to_compare(tmp_path):
    report = pasta.run("flame_diff", trace=run(tmp_path / "a", ("mm", "gemm", 5)))
    assert report.findings == [
        "there is nothing to compare: name two runs with something to weigh, --run before=DIR --run after=DIR"
    ]
    assert report.tables["changed"].height == report.tables["single"].height == 0


def test_each_side_is_what_flame_says_of_it(samples):
    names = {"before": "tracelens_h100_bert_small", "after": "tracelens_mi300_bert_small"}
    runs = {side: pasta.open(samples / "kineto" / f"{name}.json.gz") for side, name in names.items()}  # fmt: skip
    both = nodes(pasta.run("flame_diff", runs=runs, weight="device"))
    for side, trace in runs.items():
        alone = nodes(pasta.run("flame", trace=trace, weight="device"))
        assert paths_of(both, f"own_{side}") == paths_of(alone, "own_exact")
