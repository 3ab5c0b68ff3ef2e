"""`idle_tensors` on touches at known times."""

from __future__ import annotations

import pytest

import pasta
from tests.tools.memory_run import allocate
from tests.tools.test_byte_flow import kernel, touch

MEMORY = [allocate(0, "tensor", 1, 0, 1_000_000), allocate(0, "tensor", 2, 1 << 22, 1_000)]
KERNELS = [kernel(launch, ts=ts, dur=dur) for launch, ts, dur in ((1, 0, 100), (2, 1_100_000, None), (3, 1_200_000, 10))]  # fmt: skip
TOUCHES = [touch(launch, thing, read=1) for launch in (1, 2, 3) for thing in (1, 2)]


def run(make_trace, **parameters):
    trace = make_trace(memory=MEMORY, kernel=KERNELS, touch=TOUCHES)
    return pasta.run("idle_tensors", trace=trace, **{"bandwidth": 2_000_000_000, **parameters})


def test_idle_for_longer_than_moving_takes(make_trace):
    """1 MB takes 1 ms there and back at 2 GB/s: the first gap, 1,099,900 ns, is long enough."""
    report = run(make_trace)
    assert report.facts == {
        "tensors": 1,
        "bytes": 1_000_000,
        "times": 1,
        "longest_idle_ns": 1_099_900,
    }
    row = report.tables["worst"].to_dicts()[0]
    assert (row["object_id"], row["idle_ns"]) == (1, 1_099_900)
    assert row["byte_seconds"] == pytest.approx(1_000_000 * 1_099_900e-9)
    assert report.findings[0].startswith("object 1 of 976.56 KiB (tensor)")
    assert "lies idle 1 time for 1.10 ms in all" in report.findings[0]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"bandwidth": 1_000_000_000}, []),
        ({"bandwidth": 20_000_000_000_000}, [(1, 2)]),
        ({"smallest": 1}, [(1, 1), (2, 2)]),
    ],
)
def test_bandwidth_and_size(make_trace, parameters, expected):
    """A launch of unknown duration counts from its start: the second gap is 100 microseconds."""
    report = run(make_trace, **parameters)
    assert sorted(report.tables["worst"].select("object_id", "times").rows()) == expected
    assert ("nothing of" in report.findings[0]) == (not expected)


def test_operators_and_the_finest_space(make_trace):
    spans = [
        {"tid": 1, "ts": ts, "dur": 10, "span_id": span, "level": "operator", "name": "f"}
        for span, ts in ((1, 0), (2, 5_000_000))
    ]
    touches = [
        {**touch(0, thing, read=1, space=space), "span_id": span, "device": -1}
        for span in (1, 2)
        for thing, space in ((1, "tensor"), (9, "device"))
    ]
    memory = [*MEMORY, allocate(0, "device", 9, 0, 1 << 24)]
    trace = make_trace(memory=memory, span=spans, touch=touches)
    report = pasta.run("idle_tensors", trace=trace)
    assert report.tables["worst"].select("object_id", "idle_ns").rows() == [(1, 4_999_990)]
