"""Kernels whose device is not recorded are work of a device of its own, in every tool that tells devices apart."""

import pytest

import pasta
from pasta.testing import write_trace
from pasta.tools.units import human

TOOLS = {
    "data_loading": "waiting",
    "device_time": "devices",
    "hang": "last_kernel",
    "host_bound": "gaps",
    "idle_causes": "devices",
    "launch_overhead": "waiting",
    "load_balance": "ranks",
    "pipeline_bubbles": "ranks",
    "queue_length": "queues",
    "step_budget": "ranks",
}


def kernel(launch, ts, device):
    return {"name": "k", "ts": ts, "dur": 50, "launch_id": launch, "correlation": launch, "device": device, "stream": 7}  # fmt: skip


def call(number):
    return {"tid": 1, "ts": 100 * number - 10, "dur": 5, "correlation": number, "name": "launch"}


def step(number, ts):
    return {
        "tid": 1,
        "ts": ts,
        "dur": 500,
        "span_id": number,
        "level": "step",
        "name": f"step {number}",
    }


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    kernels = [kernel(1, 100, 0), kernel(2, 200, None), kernel(3, 300, None), kernel(6, 600, 0), kernel(7, 700, None)]  # fmt: skip
    calls = [call(number) for number in (1, 2, 3, 6, 7)]
    folder = tmp_path_factory.mktemp("unknown") / "t"
    return write_trace(folder, kernel=kernels, call=calls, span=[step(1, 0), step(2, 500)])


@pytest.mark.parametrize(("tool", "table"), TOOLS.items())
def test_it_is_neither_left_out_nor_another(trace, tool, table):
    report = pasta.run(tool, trace=trace)
    expected = {-1} if tool == "hang" else {-1, 0}  # the last kernel alone
    assert set(report.tables[table]["device"]) == expected
    assert not any("device -" in finding for finding in report.findings)


def test_it_is_shown_as_unknown_or_the_host(trace):
    """Memory of the host has the same number."""
    assert human(-1, "device") == "host or unknown"
    assert human(0, "device") == "0"
    findings = pasta.run("device_time", trace=trace).findings
    assert sum("the host or an unknown device of rank 0 is busy" in text for text in findings) == 1
    findings = pasta.run("load_balance", trace=trace).findings
    assert findings[0].startswith("rank 0, pid 1, device unknown computes for ")
