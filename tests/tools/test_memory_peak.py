"""`memory_peak`, `peak_objects`, `memory_savings`, `allocation_uses`: a hand-made run, and chance."""

from __future__ import annotations

import random

import pytest

import pasta
from tests.tools.training_run import LIVES, event, life, memory, steps


def live_at(moment):
    return {name: size for name, (start, end, _, size) in LIVES.items() if start <= moment and (end is None or moment < end)}  # fmt: skip


def test_the_peak_is_split_by_kind(make_trace):
    """Most is live at 76, in the optimizer."""
    report = pasta.run("memory_peak", trace=make_trace(memory=memory(), span=steps()))
    most = max(range(300), key=lambda moment: sum(live_at(moment).values()))
    peak = report.tables["highest"].to_dicts()[0]
    assert (peak["ts"], peak["peak_bytes"], peak["device_bytes"]) == (most, 2784, 4096)
    split = report.tables["split"]
    assert dict(split.select("kind", "bytes").rows()) == {
        "parameters": 1000,
        "kept workspace": 1100,
        "gradients": 200,
        "optimizer state": 400,
        "inputs and others": 64,
        "workspace": 20,
    }
    assert sum(split["share"]) == pytest.approx(1)
    assert any("kept workspace" in finding for finding in report.findings)
    assert "bound what libraries keep would save up to 1.07 KiB, in 2 objects" in report.findings


def test_savings_name_what_is_not_needed(make_trace):
    """Peak at 80 (gradients of the step before live in forward), state unused until the optimizer."""
    rows = [*life(1, None, 1, 10), *life(45, 150, 2, 200), *life(75, None, 3, 400)]
    rows += [*life(113, 145, 4, 1000), *life(122, 145, 5, 2000)]
    operator = {"tid": 1, "level": "operator", "span_id": 90, "name": "aten::gelu", "ts": 121, "dur": 3}  # fmt: skip
    trace = make_trace(memory=rows, span=[*steps(), operator])
    report = pasta.run("memory_savings", trace=trace)
    assert (
        "set to none before the forward pass: saves up to 200 B at the peak of device 0, rank 0, in 1 object"
        in report.findings
    )
    assert pasta.run("peak_objects", trace=trace).findings == [
        "3.53 KiB are live in 5 objects at the peak of device 0, rank 0 (tensor memory); the largest has 1.95 KiB"
    ]
    peak = pasta.run("memory_peak", trace=trace).findings
    assert "activations: 2.93 KiB, 83.1 % of it, in 2 objects" in peak
    assert "optimizer state: 400 B, 11.1 % of it, in 1 object" in peak
    assert "set to none before the forward pass would save up to 200 B, in 1 object" in peak
    assert dict(report.tables["savings"].select("advice", "saves_bytes").rows()) == {
        "set to none before the forward pass": 200,
        "offload: only the optimizer uses it": 400,
        "recompute: checkpoint its module": 1000,
        "recompute: its operator is cheap": 2000,
    }


def test_what_is_used_no_more_or_not_for_long(make_trace):
    """At 2e9 B/s, 100 bytes go there and back in 100 ns: idle from 20 to 300 is long enough."""
    rows = [*life(1, 400, 1, 100, object_id=1), *life(2, 400, 2, 50, object_id=2)]
    rows += life(150, 390, 3, 500, object_id=3)
    spans = [
        {"tid": 1, "level": "operator", "name": "use", "span_id": 100 + ts, "ts": ts, "dur": 1}
        for ts in (20, 160, 300)
    ]
    touch = {"device": 0, "launch_id": 0, "space": "tensor", "granularity": 1, "unique_bytes": 1}
    touches = [{**touch, "object_id": one, "span_id": 100 + ts} for one, ts in [(1, 20), (1, 300), (2, 20), (3, 160)]]  # fmt: skip
    trace = make_trace(memory=rows, span=spans, touch=touches)
    report = pasta.run("memory_savings", trace=trace, bandwidth=2_000_000_000)
    assert dict(report.tables["savings"].select("advice", "saves_bytes").rows()) == {
        "offload: idle across the peak": 100,
        "free: not used any more": 50,
    }
    uses = pasta.run("allocation_uses", trace=trace).tables["latest"]
    found = {one: (late, uses) for one, late, uses in uses.select("object_id", "late_ns", "uses").rows()}  # fmt: skip
    assert found == {1: (100, 2), 2: (380, 1), 3: (230, 1)}


def test_running_out_is_the_moment_that_counts(make_trace):
    """The peak of 900 at 10 is over when memory runs out at 50, fragmented, with 400 live."""
    rows = [*life(10, 20, 1, 900), *life(30, 70, 2, 400), *life(60, None, 3, 5000)]
    failure = {"tid": 1, "level": "annotation", "name": "out of memory on device 0: 2 GiB", "span_id": 1, "ts": 50, "dur": 0}  # fmt: skip
    trace = make_trace(memory=rows, span=[failure])
    report = pasta.run("memory_peak", trace=trace)
    assert report.findings[0].startswith(
        "400 B are live on device 0, rank 0, where memory runs out"
    )
    assert sum(report.tables["split"]["bytes"]) == 400


@pytest.mark.parametrize("seed", range(5))
def test_parts_add_up_to_the_peak(make_trace, seed):
    chance, live, rows, totals = random.Random(seed), [], [], {}
    for ts in range(1, 200):
        place = chance.choice([(0, 0), (0, 1), (1, 0)])
        mine = [one for one in live if one[0] == place]
        if mine and chance.random() < 0.5:
            one = chance.choice(mine)
            live.remove(one)
            rows.append(event("release", ts, one[1], one[2], device=place[1], rank=place[0]))
        else:
            one = (place, ts, chance.randrange(1, 1000))
            live.append(one)
            rows.append(event("allocate", ts, ts, one[2], device=place[1], rank=place[0]))
        totals.setdefault(place, []).append(sum(o[2] for o in live if o[0] == place))
    report = pasta.run("memory_peak", trace=make_trace(memory=rows, span=steps(2)))
    found = {}
    for *place, size, share in report.tables["split"].select("rank", "device", "bytes", "share").rows():  # fmt: skip
        sums = found.setdefault(tuple(place), [0, 0.0])
        sums[0] += size
        sums[1] += share
    assert {place: size for place, (size, _) in found.items()} == {place: max(amounts) for place, amounts in totals.items()}  # fmt: skip
    assert [share for _, share in found.values()] == pytest.approx([1.0] * len(found))


def test_categories_of_a_recorded_timeline(samples):
    """The profiler's categories add up to what is live."""
    file = samples / "torch_memory" / "hta_memory_timeline.raw.gz"
    report = pasta.run("memory_peak", trace=file)
    rows = dict(report.tables["categories"].select("name", "category_bytes").rows())
    peak = report.tables["highest"]["peak_bytes"][0]
    assert 0.95 * peak < sum(rows.values()) <= peak
    assert max(rows, key=rows.get) == "memory/ACTIVATION"


def test_no_rows(make_trace):
    trace = make_trace(memory=[event("allocate", 1, 1, 0)])
    assert pasta.run("memory_peak", trace=trace).tables["split"].is_empty()
