"""What managed memory is predicted to do beside what it did, of traces as both collectors write them."""

from __future__ import annotations

import pytest

from benchmarks.managed_migrations import BEFORE, moved, predicted

PAGE = 65_536
NAMES = ("all_pages(Pages, int*)", "all_pages_again(Pages, int*)")
KERNELS = [
    {"launch_id": number, "correlation": number, "device": 0, "ts": 1_000 * number, "dur": 500, "name": name}
    for number, name in enumerate(NAMES, start=1)
]  # fmt: skip
MEMORY = [
    {"device": 0, "space": "managed", "ts": 10, "event": "allocate", "address": 64 << 30, "bytes": 4 * PAGE, "object_id": 1}
]  # fmt: skip
TOUCHES = [
    {"device": 0, "launch_id": launch, "span_id": 0, "space": "managed", "object_id": 1, "block": block, "granularity": PAGE, "reads": 5}
    for launch in (1, 2)
    for block in range(4)
]  # fmt: skip


def migration(ts, size, destination="device"):
    ends = {"source": "host" if destination == "device" else "device", "destination": destination}
    return {"device": 0, "ts": ts, "dur": 5, "kind": "migration", "bytes": size, **ends}


def faults(ts, groups):
    return {"device": 0, "ts": ts, "name": "gpu_page_faults", "value": groups}


def test_pages_that_the_host_wrote_fault_once(make_trace, tmp_path):
    found = predicted(make_trace(kernel=KERNELS, memory=MEMORY, touch=TOUCHES), tmp_path)
    assert found.rows() == [("all_pages", 4, 4 * PAGE, 0), ("all_pages_again", 0, 0, 0)]


def test_what_moves_is_of_the_kernel_that_began_last(make_trace):
    copies = [migration(1_100, PAGE), migration(1_999, PAGE), migration(1_200, PAGE, "host")]
    trace = make_trace(kernel=KERNELS, copy=copies, metric=[faults(1_050, 3.0)])
    assert moved(trace).rows() == [("all_pages", 2 * PAGE, 3.0), ("all_pages_again", 0, 0.0)]


def test_what_moves_before_any_kernel_has_a_row(make_trace):
    trace = make_trace(
        kernel=KERNELS,
        copy=[migration(900, PAGE), migration(2_000, 7)],
        metric=[faults(2_001, 1.0)],
    )
    assert moved(trace).rows() == [
        (BEFORE, PAGE, 0.0),
        ("all_pages", 0, 0.0),
        ("all_pages_again", 7, 1.0),
    ]


def test_without_migrations_it_says_what_was_lost(make_trace):
    losses = [{"source": "cuda", "reason": "migrations cannot be recorded", "count": 1, "ts": 1}]
    with pytest.raises(SystemExit, match="migrations cannot be recorded"):
        moved(make_trace(kernel=KERNELS, loss=losses))
