"""`coalescing` on warps whose sectors are known."""

from __future__ import annotations

import pytest

import pasta


def warp(request, stride, *, size=4, lanes=32, launch=1, base=0x1000, **more):
    return [
        {"device": 0, "launch_id": launch, "request": request, "lane": lane, "address": base + stride * lane, "bytes": size, "op": 0, "space": 0, **more}
        for lane in range(lanes)
    ]  # fmt: skip


KERNELS = [{"device": 0, "launch_id": launch, "ts": launch, "name": "k"} for launch in (1, 2)]


@pytest.mark.parametrize(
    ("rows", "sectors", "ideal"),
    [
        (warp(0, 4), 4, 4),
        (warp(0, 128), 32, 4),
        (warp(0, 0), 1, 4),
        (warp(0, 16, size=16), 16, 16),
        (warp(0, 4, base=0x1010), 5, 4),
        (warp(0, 32, size=8, lanes=4, base=0x101C), 5, 1),
        (warp(0, 0, size=1_024, lanes=1), 32, 32),
    ],
)
def test_sectors_of_one_request(make_trace, rows, sectors, ideal):
    report = pasta.run("coalescing", trace=make_trace(access=rows, kernel=KERNELS))
    row = report.tables["worst"].to_dicts()[0]
    assert (row["sectors"], row["ideal_sectors"], row["requests"]) == (sectors, ideal, 1)
    assert row["lanes_per_request"] == len(rows)


def test_requests_of_a_kernel_are_averaged(make_trace):
    """Requests are numbered anew in each launch; shared memory and prefetches do not count."""
    rows = [*warp(0, 4), *warp(1, 128), *warp(0, 4, launch=2), *warp(2, 8, space=1), *warp(3, 8, op=3)]  # fmt: skip
    report = pasta.run("coalescing", trace=make_trace(access=rows, kernel=KERNELS))
    row = report.tables["worst"].to_dicts()[0]
    assert (row["requests"], row["sectors_per_request"], row["needless_sectors"]) == (3, 40 / 3, 28)
    assert report.findings == [
        "k needs 13.33 sectors of 32 bytes for a request, where 4 would hold the bytes it asks for",
        "3 requests need 40 sectors; 12 would hold the bytes",
    ]
