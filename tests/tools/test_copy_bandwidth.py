"""`copy_bandwidth` on copies whose rates are worked out by hand, on planted slow ones and on clean ones."""

from __future__ import annotations

import random

import pytest

import pasta


def copy(kind, ts, dur, size, *, source="device", destination="device", correlation=0):
    row = {"device": 0, "kind": kind, "ts": ts, "dur": dur, "bytes": size, "correlation": correlation}  # fmt: skip
    return {**row, "source": source, "destination": destination}


def upload(ts, dur, size, memory="pinned", **more):
    return copy("HtoD", ts, dur, size, source=memory, **more)


def test_rates_by_hand(make_trace):
    """8000 bytes in 1000 ns are 8 GB/s; at 16 GB/s they would take 500 ns."""
    trace = make_trace(
        copy=[
            upload(0, 400, 5000),
            upload(100, 600, 3000),
            copy("DtoD", 0, 100, 4096),
            copy("memset", 0, 0, 64, source=""),
            copy("DtoH", 0, 10, None, destination="pageable"),
        ],
        device=[{"device": 0, "peak_bandwidth": 163.84e9}],
    )
    report = pasta.run("copy_bandwidth", trace=trace, link=16e9)
    ways = report.tables["ways"].select(
        "way", "copies", "bytes", "time_ns", "gigabytes_per_second", "peak_share"
    )
    assert ways.rows() == [
        ("HtoD, pinned host memory", 2, 8000, 1000, 8.0, pytest.approx(0.5)),
        ("DtoD", 1, 4096, 100, 40.96, pytest.approx(0.5)),
    ]
    sizes = report.tables["sizes"].select("way", "size_from_bytes", "bytes", "time_ns")
    assert sizes.rows() == [
        ("DtoD", 4096, 4096, 100),
        ("HtoD, pinned host memory", 1, 3000, 600),
        ("HtoD, pinned host memory", 4096, 5000, 400),
    ]
    assert (report.facts["copies"], report.facts["measured"]) == (5, 3)
    assert report.findings[0] == (
        "HtoD, pinned host memory: 7.81 KiB in 2 copies take 1.00 us (90.9 % of copying), 8 GB/s, 50.0 % of the peak"
    )
    assert "of 5 copies 3 have bytes and take time; nothing is said of the others" in report.findings  # fmt: skip


def test_no_peak_is_guessed_and_none_exceeded(make_trace):
    copies = [upload(0, 100, 5000), copy("DtoD", 0, 1, 4096)]
    trace = make_trace(copy=copies, device=[{"device": 0, "peak_bandwidth": 1e9}])
    assert pasta.run("copy_bandwidth", trace=trace).tables["ways"]["peak_share"].to_list() == [None, None]  # fmt: skip


def test_pageable_memory_is_compared_with_pinned_of_the_same_size(make_trace):
    """Pinned copies reach 10 GB/s, so 100,000 pageable bytes would take 10 us of 40."""
    copies = [upload(0, 10_000, 100_000), upload(0, 40_000, 100_000, "pageable")]
    copies.append(upload(0, 40_000, 4_000, "pageable"))
    report = pasta.run("copy_bandwidth", trace=make_trace(copy=copies))
    (saving,) = (text for text in report.findings if "would save" in text)
    assert saving == (
        "HtoD, pageable host memory, 1 copies of 64.00 KiB or more: pinned memory would save 30.00 us of 40.00 us,"
        " at the 10 GB/s that this trace reaches with it"
    )


def noisy_copies(seed):
    """A hundred copies of four sizes, within a tenth of 12 GB/s and a latency of 2 us."""
    noise = random.Random(seed)
    return [
        upload(n * 10**7, round((2000 + size / 12) * noise.uniform(0.9, 1.1)), size, correlation=n + 1)
        for n in range(100)
        for size in [noise.choice([4, 5_000, 1 << 20, 1 << 24])]
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_a_slow_copy_is_named_and_none_in_a_clean_trace(make_trace, seed):
    copies = noisy_copies(seed)
    clean = pasta.run("copy_bandwidth", trace=make_trace("clean", copy=copies))
    assert clean.tables["slow"].is_empty()
    assert all("GB/s" in text for text in clean.findings)
    large = next(row for row in copies if row["bytes"] == 1 << 24)
    large["dur"] += 20 * 10**6
    begin = large["ts"] - 50
    calls = [{"tid": 1, "ts": begin, "dur": 5, "name": "cudaMemcpyAsync", "correlation": large["correlation"]}]  # fmt: skip
    spans = [{"tid": 1, "ts": begin - 5, "dur": 20, "span_id": 1, "level": "operator", "name": "aten::to"}]  # fmt: skip
    report = pasta.run("copy_bandwidth", trace=make_trace("slow", copy=copies, call=calls, span=spans))  # fmt: skip
    assert report.tables["slow"].select("ts", "in_operator").rows() == [(large["ts"], "aten::to")]
    assert report.tables["slow"]["lost_ns"].item() == large["dur"] - report.tables["slow"]["usual_ns"].item()  # fmt: skip
    assert any(text.startswith("the slowest: HtoD, pinned host memory, 16.00 MiB, in aten::to") for text in report.findings)  # fmt: skip
