"""The Python API: sources, named runs, outputs, errors, notebooks."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import polars as pl
import pytest

import pasta
from pasta import api
from pasta.errors import CollectError, ConfigError, PastaError, TraceError
from tests.copies import run_python

PACKAGE = Path(pasta.__file__).parent


def kernels(*durations):
    return [
        {"device": 0, "launch_id": i + 1, "ts": 100 * i, "dur": dur, "name": "k"}
        for i, dur in enumerate(durations)
    ]


COMPARE = """
version: 1
tool: compare
about: Time of two runs.
inputs:
  old: {table: kernel, run: before}
  new: {table: kernel, run: after}
stages:
  a: {use: aggregate, from: old, measures: {before_ns: sum(dur)}}
  b: {use: aggregate, from: new, by: trace, measures: {after_ns: sum(dur)}}
report: [{facts: a}, {table: b}]
"""


@pytest.fixture
def compare(tmp_path):
    path = tmp_path / "compare.yaml"
    path.write_text(COMPARE)
    return str(path)


def test_named_runs_feed_their_inputs(make_trace, compare):
    runs = {"before": make_trace("x", kernel=kernels(5, 6)), "after": make_trace("y", kernel=kernels(7))}  # fmt: skip
    report = pasta.run(compare, runs=runs)
    assert report.facts == {"before_ns": 11}
    assert report.tables["b"].rows() == [("after", 7)]


def test_a_run_that_was_not_given_is_named(make_trace, compare):
    with pytest.raises(ConfigError, match="wants a run named 'after'; give --run after=DIR"):
        pasta.run(compare, runs={"before": make_trace(kernel=kernels(1))})


def test_several_traces_are_one_set_told_apart_by_a_column(make_trace):
    one, two = make_trace("one", kernel=kernels(5)), make_trace("two", kernel=kernels(7, 8))
    rows = pasta.run("device_time", trace=[one, two]).tables["devices"]
    assert rows.select("trace", "busy_ns").rows() == [("one", 5), ("two", 15)]


LEADER = """
version: 1
tool: leader
about: The longest kernel.
inputs: {kernels: kernel}
stages:
  longest: {use: dedupe, from: kernels, by: [trace], order: [launch_id]}
  all: {use: aggregate, from: kernels, measures: {kernels: count(*)}}
report:
  - {finding: "{name} takes {dur}", from: longest}
  - {finding: "{trace} has {name}", from: longest}
  - {finding: "{kernels} kernels in all", from: all}
"""


def test_a_finding_about_one_of_several_traces_names_it(make_trace, tmp_path):
    (tmp_path / "leader.yaml").write_text(LEADER)
    traces = [make_trace(name, kernel=kernels(dur)) for name, dur in {"a": 10, "b": 30}.items()]
    both = ["a: k takes 10 ns", "b: k takes 30 ns", "a has k", "b has k", "2 kernels in all"]
    assert pasta.run(tmp_path / "leader.yaml", trace=traces).findings == both
    one = pasta.run(tmp_path / "leader.yaml", trace=traces[0])
    assert one.findings == ["k takes 10 ns", "a has k", "1 kernels in all"]


def test_equal_names_of_traces_are_numbered(make_trace):
    trace = make_trace("one", kernel=kernels(5))
    rows = pasta.run("device_time", trace=[trace, trace]).tables["devices"]
    assert rows["trace"].to_list() == ["one", "one#2"]


def test_an_optional_table_is_empty_and_a_required_one_is_missed(make_trace):
    trace = make_trace(kernel=kernels(5))
    assert pasta.run("device_time", trace=trace).tables["devices"]["copy_ns"].item() == 0
    with pytest.raises(TraceError) as caught:
        pasta.run("working_set", trace=trace)
    assert "needs the table 'touch', which this trace lacks (it has kernel)" in str(caught.value)
    assert "pasta collect --with torch:touch" in str(caught.value)


def test_without_a_trace_the_shipped_one_is_taken_and_named():
    report = pasta.run("working_set", top=1)
    assert report.notes[0] == "no trace was named: this is the trace that ships with pasta"
    assert report.engine == "cpu"


def test_outputs_are_whole_files_of_the_named_stages(make_trace, tmp_path):
    report = pasta.run("device_time", trace=make_trace(kernel=kernels(5, 6)), out=tmp_path / "o")
    assert sorted(p.name for p in (tmp_path / "o").iterdir()) == ["devices.parquet", "pieces.parquet"]  # fmt: skip
    written = pl.read_parquet(tmp_path / "o" / "devices.parquet")
    assert written.equals(report.tables["devices"])


def test_an_output_that_fails_leaves_nothing_and_takes_nothing_of_others(tmp_path, monkeypatch):
    def full(_rows, path):
        Path(path).write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    own = tmp_path / ".rows.parquet"
    own.write_text("mine")
    rows = {"rows": pl.DataFrame({"a": [1]})}
    with monkeypatch.context() as context:
        context.setattr(pl.DataFrame, "write_parquet", full)
        with pytest.raises(OSError, match="No space left on device"):
            api.write_outputs(rows, tmp_path)
    assert list(tmp_path.iterdir()) == [own]
    api.write_outputs(rows, tmp_path)
    assert own.read_text() == "mine"
    assert pl.read_parquet(tmp_path / "rows.parquet").equals(rows["rows"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"engine": "gpu9"}, "no engine 'gpu9'"),
        ({"tp": 3}, "no such parameter. Did you mean 'top'"),
        ({"top": 2.5}, "parameters.top: expected int, got 2.5"),
        ({"trace": "nowhere"}, "nowhere: no such file or directory"),
    ],
)
def test_mistakes(arguments, message):
    with pytest.raises(PastaError) as caught:
        pasta.run("working_set", **arguments)
    assert message in str(caught.value)


def test_notebook_html_escapes_names(make_trace):
    rows = [{**kernels(5)[0], "name": "<script>alert(1)</script>"}]
    html = pasta.run("kernel_frequency", trace=make_trace(kernel=rows))._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_notebook_html_shows_as_many_losses_as_text_and_counts_the_others(make_trace):
    lost = [{"collector": "x", "reason": f"reason {n}", "count": 50 - n} for n in range(43)]
    report = pasta.run("kernel_frequency", trace=make_trace(kernel=kernels(1), loss=lost))
    html = report._repr_html_()
    assert html.count("<td>reason ") == 40
    assert html.endswith("<p>... and 3 more kinds; all in the report's losses</p>")
    report.losses = report.losses[:40]
    assert "more kinds" not in report._repr_html_()


def test_report_functions_and_stages_register_by_decorator():
    @pasta.stage("twice_for_this_test", row_wise=True)
    def twice(rows: pl.LazyFrame, *, column: str) -> pl.LazyFrame:
        """Double a column."""
        return rows.with_columns(pl.col(column) * 2)

    from pasta.pipeline.stage import STAGES

    assert STAGES.get("twice_for_this_test").arguments["column"].required
    with pytest.raises(PastaError, match="already a stage named"):
        pasta.stage("twice_for_this_test")(twice)
    STAGES._items.pop("twice_for_this_test")


def test_unknown_attributes_are_named():
    with pytest.raises(AttributeError, match="no attribute 'rum'"):
        _ = pasta.rum


def test_google_pasta_in_the_way_is_named(tmp_path):
    """Google-pasta installs its modules into the same folder `pasta`."""
    shutil.copytree(PACKAGE, tmp_path / "pasta", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "pasta" / "augment").mkdir()
    assert "pip uninstall google-pasta" in failure(tmp_path, "import pasta")
    (tmp_path / "pasta" / "__init__.py").write_text("# google-pasta's own\n")
    assert "pip uninstall google-pasta" in failure(tmp_path, "import pasta.cli")


def failure(folder: Path, code: str) -> str:
    result = run_python(folder, "-c", code)
    assert result.returncode != 0
    return result.stderr


def test_a_tool_says_what_is_collected_for_it():
    assert api.collectors_of("hot_memory") == {"cuda.memory": "counts", "torch": "operators"}
    assert api.collectors_of("memory_timeline") == {"torch": "operators"}


@pytest.mark.parametrize("tool", ["flame", "samples", "source", "threads", "host_bound"])
def test_tools_of_the_host_side_record_samples(tool):
    assert api.collectors_of(tool)["cpu"] == "best"


def test_a_tool_that_reads_what_nobody_records_says_what_to_do():
    with pytest.raises(CollectError, match=r"'cpu_roofline' .*pasta import FILE"):
        api.collectors_of("cpu_roofline")
