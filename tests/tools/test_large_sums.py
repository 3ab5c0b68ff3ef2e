"""Sums that do not fit into 64 bits are told in one line, by every tool that has them."""

import json
import re

import pytest

import pasta
from pasta.errors import TraceError
from pasta.testing import write_trace

HUGE = 1 << 62


def copy(ts):
    return {"ts": ts, "dur": 10, "bytes": HUGE, "kind": "HtoD", "source": "pageable", "device": 0}


def launch(rank):
    return {"rank": rank, "name": "k", "ts": 150, "dur": 5, "launch_id": 1, "device": 0}


STEP = {"tid": 1, "ts": 0, "dur": 1000, "span_id": 1, "level": "step", "name": "step"}


@pytest.mark.parametrize("tool", ["copy_bandwidth", "data_loading", "load_balance"])
def test_the_tool_and_the_column_are_named(tmp_path, tool):
    """2 * 2^62 bytes are one more than the largest integer; one copy of them is within it."""
    tables = {"kernel": [launch(0), launch(1)], "span": [STEP]}
    pasta.run(tool, trace=write_trace(tmp_path / "one", copy=[copy(100)], **tables))
    trace = write_trace(tmp_path / "two", copy=[copy(100), copy(200)], **tables)
    with pytest.raises(
        TraceError, match=rf"^tool '{tool}': sum\(bytes\) is more than Int64 can hold; look"
    ):
        pasta.run(tool, trace=trace)


@pytest.mark.parametrize(
    "measure", ['sum("dur")', """sum(case when name = '("k)' then 0 else dur end)"""]
)
def test_a_sum_with_quotes_is_named_too(tmp_path, measure):
    trace = write_trace(tmp_path / "t", kernel=[{**launch(0), "dur": HUGE}, {**launch(1), "dur": HUGE}])  # fmt: skip
    tool = {"version": 1, "tool": "mine", "about": "A.", "inputs": {"kernels": {"table": "kernel"}}, "stages": {"sums": {"use": "aggregate", "from": "kernels", "measures": {"ns": measure}}}, "report": [{"table": "sums", "title": "T"}]}  # fmt: skip
    config = tmp_path / "mine.yaml"
    config.write_text(json.dumps(tool))
    with pytest.raises(TraceError, match=rf"^tool 'mine': {re.escape(measure)} is more than Int64 can hold"):  # fmt: skip
        pasta.run(config, trace=trace)


def test_a_worker_tells_it_too(tmp_path):
    pytest.importorskip("distributed")
    trace = write_trace(tmp_path / "t", copy=[copy(100), copy(200)])
    with pytest.raises(
        TraceError, match=r"^tool 'copy_bandwidth': sum\(bytes\) is more than Int64"
    ):
        pasta.run("copy_bandwidth", trace=trace, engine="dask")
