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
        "HtoD, pageable host memory, 1 copy of 64.00 KiB or more: pinned memory would save 30.00 us of 40.00 us,"
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


SEEDS = 100


def slowed(copies, seed):
    """Return copies of which one takes twice and a half as long as it did, and that one; of four sizes in turn."""
    size = [4, 5_000, 1 << 20, 1 << 24][seed % 4]
    slow = next(row for row in copies if row["bytes"] == size)
    longer = {**slow, "dur": round(2.5 * slow["dur"])}
    return [longer if row is slow else row for row in copies], longer


def test_nothing_is_found_in_clean_runs(make_trace):
    traces = [make_trace(f"{seed}", copy=noisy_copies(seed)) for seed in range(SEEDS)]
    report = pasta.run("copy_bandwidth", trace=traces, top=10**6)
    assert report.tables["slow"].is_empty()
    ways = report.tables["ways"]["trace"]
    assert ways.n_unique() == len(ways) == SEEDS
    assert all("GB/s" in text for text in report.findings[:-1])
    assert report.findings[-1] == f"... and {SEEDS - 5} more of this kind"


def test_a_slow_copy_is_named_in_every_seed(make_trace):
    traces, planted = [], []
    for seed in range(SEEDS):
        copies, slow = slowed(noisy_copies(seed), seed)
        begin = slow["ts"] - 50
        calls = [{"tid": 1, "ts": begin, "dur": 5, "name": "cudaMemcpyAsync", "correlation": slow["correlation"]}]  # fmt: skip
        spans = [{"tid": 1, "ts": begin - 5, "dur": 20, "span_id": 1, "level": "operator", "name": f"aten::to_{seed}"}]  # fmt: skip
        traces.append(make_trace(f"{seed}", copy=copies, call=calls, span=spans))
        planted.append((f"{seed}", slow["ts"], slow["dur"], f"aten::to_{seed}"))
    found = pasta.run("copy_bandwidth", trace=traces, top=10**6).tables["slow"]
    assert sorted(found.select("trace", "ts", "dur", "in_operator").rows()) == sorted(planted)
    assert (found["lost_ns"] == found["dur"] - found["usual_ns"]).all()


def test_what_a_slow_copy_loses_is_compared_with_the_copying_of_its_trace(make_trace):
    """The sums of both, 14.5 us of what the longer one copies, would be those of neither."""
    runs = {"long": [10_000] * 6 + [20_001], "short": [500] * 8 + [5_000]}
    traces = [make_trace(name, copy=[upload(n * 10**6, dur, 64) for n, dur in enumerate(durations)]) for name, durations in runs.items()]  # fmt: skip
    findings = pasta.run("copy_bandwidth", trace=traces).findings
    kind = "copies that take more than twice what copies of the same way and size usually take: 1"
    assert f"long: {kind}, which lose 10.00 us of 80.00 us" in findings
    assert f"short: {kind}, which lose 4.50 us of 9.00 us" in findings
    assert any(text.startswith("long: the slowest: HtoD, pinned host memory, 64 B") for text in findings)  # fmt: skip
