"""`launch_windows` on launches at known times."""

from __future__ import annotations

import pytest

import pasta


def kernel(launch, ts):
    return {"device": 0, "launch_id": launch, "ts": ts, "name": "k"}


def touch(launch, accesses, space="global", **more):
    return {"device": 0, "launch_id": launch, "space": space, "object_id": 0, "reads": accesses, "writes": 0, "atomics": 0, **more}  # fmt: skip


KERNELS = [kernel(launch, ts) for launch, ts in ((7, 100), (8, 150), (9, 100), (10, 400))]
TOUCHES = [
    *(touch(launch, 2**place) for place, launch in enumerate((7, 8, 9, 10))),
    touch(8, 1, "unknown"),
    touch(8, 50, "shared"),
    touch(8, 50, block=0),
    touch(8, 50, pc=16),
]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, [(0, 5), (1, 2), (2, 8)]),
        ({"launches": 1}, [(0, 5), (1, 2), (2, 8)]),
        ({"launches": 2}, [(0, 7), (1, 8)]),
        ({"every": 100}, [(0, 7), (3, 8)]),
    ],
)
def test_accesses_by_window(make_trace, parameters, expected):
    """Launches of one time share a place: 7 and 9, then 8, then 10."""
    report = pasta.run("launch_windows", trace=make_trace(kernel=KERNELS, touch=TOUCHES), **parameters)  # fmt: skip
    assert report.tables["windows"].select("window", "accesses").rows() == expected
    assert report.tables["windows"]["unknown"].sum() == 1


def test_at_most_64_windows_by_default(make_trace):
    kernels = [kernel(launch, launch) for launch in range(1, 131)]
    touches = [touch(launch, 1) for launch in range(1, 131)]
    windows = pasta.run("launch_windows", trace=make_trace(kernel=kernels, touch=touches)).tables["windows"]  # fmt: skip
    assert windows["launches"].to_list() == [3] * 43 + [1]


def test_launches_without_a_time_go_by_their_number(make_trace):
    report = pasta.run("launch_windows", trace=make_trace(touch=TOUCHES), launches=1)
    assert report.tables["windows"]["accesses"].to_list() == [1, 2, 4, 8]
