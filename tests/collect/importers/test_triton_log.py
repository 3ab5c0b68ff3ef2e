"""tritonparse's log: launches are kernels without times, compilations are spans."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pasta.collect.importing import import_trace
from pasta.errors import InputError
from pasta.trace import Trace
from tests.collect.importers.import_help import imported_content, losses, rows

STACK = [
    {"line": 9, "name": "<module>", "filename": "x.py", "loc": "main()"},
    {"line": 3, "name": "main", "filename": "x.py", "loc": "add[grid](a)"},
]
METADATA = {"name": "add", "num_warps": 4, "warp_size": 32, "shared": 512, "n_regs": 40}
SECOND = 1751918307 * 10**9  # 2025-07-07T19:58:27 by `date -u -d ... +%s`


def launch(**more):
    return {
        "event_type": "launch",
        "pid": 7,
        "stack": STACK,
        "name": "add",
        "grid": [98, 2],
        "stream": 3,
        "timestamp": "2025-07-07T19:58:27.000001Z",
        "compilation_metadata": METADATA,
        **more,
    }


def compilation(*stages, hit=False, timestamp="2025-07-07T19:58:27.500000Z"):
    times = {"ir_initialization": 100, "lowering_stages": list(stages), "store_results": 0}
    payload = {"metadata": {**METADATA, "cache_hit": hit}, "times": times}
    return {
        "event_type": "compilation",
        "pid": 7,
        "stack": STACK,
        "timestamp": timestamp,
        "payload": payload,
    }


@pytest.fixture
def imported(tmp_path):
    def run(lines, *, strict=False):
        if isinstance(lines, list):
            lines = "".join(json.dumps(line) + "\n" for line in lines)
        return imported_content(lines, tmp_path, strict=strict)

    return run


def test_launches_are_kernels_without_times(imported):
    report, trace = imported([launch(), launch(grid=[5], stream=None, compilation_metadata={})])
    assert report.format == "Triton log (tritonparse)"
    shape = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
    columns = ("launch_id", "ts", "dur", "name", "stream", *shape, "registers", "shared_bytes")
    assert rows(trace, "kernel", *columns) == [
        (1, None, None, "add", 3, 98, 2, 1, 128, 1, 1, 40, 512),
        (2, None, None, "add", None, 5, 1, 1, None, None, None, None, None),
    ]
    assert rows(trace, "call", "pid", "ts", "dur", "correlation", "name") == [
        (7, SECOND + 1000, None, 1, "triton launch"),
        (7, SECOND + 1000, None, 2, "triton launch"),
    ]
    assert rows(trace, "frame", "depth", "function", "file", "line", "language") == [
        (0, "<module>", "x.py", 9, "python"),
        (1, "main", "x.py", 3, "python"),
    ]
    assert report.losses == []


def test_compilations_end_when_they_are_logged(imported):
    report, trace = imported([compilation(["ttir", 300], ["ptx", 600])])
    end = SECOND + 500_000_000
    assert rows(trace, "span", "ts", "dur", "span_id", "parent_id", "level", "name") == [
        (end - 1_000_000, 1_000_000, 1, 0, "library", "triton compile add"),
        (end - 1_000_000, 100_000, 2, 1, "library", "triton ir_initialization"),
        (end - 900_000, 300_000, 3, 1, "library", "triton ttir"),
        (end - 600_000, 600_000, 4, 1, "library", "triton ptx"),
    ]
    assert (report.first_ts, report.last_ts) == (end - 1_000_000, end)


def test_the_sample(samples, tmp_path):
    file = samples / "triton" / "tritonparse_dedicated_log.ndjson"
    report = import_trace([file], tmp_path / "t")
    trace = Trace.open(tmp_path / "t")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    length = sum(line["payload"]["times"]["ir_initialization"] for line in lines[:1]) * 1000
    first = trace.scan("span").sort("span_id").head(1).select("name", "dur", "pid").collect().row(0)
    assert first == ("triton load from cache add_kernel", length, 152358)
    assert len(rows(trace, "frame", "depth")) == sum(len(line["stack"]) for line in lines)
    assert losses(report) == {
        "time without a fraction of a second: taken as the start of the second": 2
    }


def test_damage_costs_its_line_only(imported):
    lines = [launch(), compilation(timestamp="tomorrow"), {"event_type": "launch_diff"}, launch()]
    text = "\n".join(map(json.dumps, lines)).encode()
    report, trace = imported(text[:-40] + b"\n@\n[]\n")
    assert len(rows(trace, "kernel", "name")) == 1
    assert losses(report) == {
        "line that is no JSON object: left out": 3,
        "line without a time: its rows have none": 1,
        "compilation without a time: left out": 1,
        "line of type 'launch_diff': left out": 1,
    }
    with pytest.raises(InputError, match="no JSON object"):
        imported(json.dumps(launch()).encode() + b"\n@\n", strict=True)


values = st.sampled_from([None, 0, -1, 1.5, "x", [], {}, 1 << 40, True, [1, "a"], [None]])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_values_of_any_type_are_read_or_counted(imported, data):
    line = data.draw(st.sampled_from([launch(), compilation(["a", 3])]))
    keys = data.draw(st.sets(st.sampled_from(sorted(line))))
    odd = {key: data.draw(values) for key in keys - {"event_type"}}
    times = st.sampled_from(
        ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.9Z", "2025-99-01T00:00:00Z"]
    )
    if data.draw(st.booleans()):
        odd["timestamp"] = data.draw(times)
    imported([launch(), {**line, **odd}])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_no_damage_escapes(imported, data):
    text = bytearray(json.dumps(launch()).encode() + b"\n" + json.dumps(compilation()).encode())
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(text)))
        text[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=5))
    try:
        imported(bytes(text))
    except InputError:
        return
