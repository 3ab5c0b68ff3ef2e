"""`byte_flow` on programs whose flow is known, and against walking through launches."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pasta
from pasta.tools.report import ChartPart
from tests.conftest import write_trace
from tests.tools.memory_run import allocate
from tests.tools.warps import FEW

SIZE = 1_000


def kernel(launch, name="", **more):
    return {"device": 0, "launch_id": launch, "ts": 10 * launch, "dur": 5, "name": name or f"k{launch}", **more}  # fmt: skip


def touch(launch, thing, read=0, written=0, space="tensor", **more):
    return {"device": 0, "launch_id": launch, "span_id": 0, "space": space, "object_id": thing, "granularity": 1, "unique_read": read, "unique_written": written, "unique_bytes": max(read or 0, written or 0), **more}  # fmt: skip


def block(launch, number, reads=0, writes=0, size=512):
    return {"device": 0, "launch_id": launch, "span_id": 0, "space": "device", "object_id": 1, "block": number, "granularity": size, "reads": reads, "writes": writes, "atomics": 0}  # fmt: skip


def tensors(*things, released=()):
    made = [allocate(0, "tensor", thing, 4096 * thing, SIZE) for thing in things]
    gone = [allocate(ts, "tensor", thing, 4096 * thing, SIZE) for thing, ts in released]
    return made + [{**row, "event": "release"} for row in gone]


def run(touches, memory, launches=9, **parameters):
    kernels = parameters.pop("kernels", [kernel(launch) for launch in range(1, launches)])
    spans = parameters.pop("spans", None)
    with tempfile.TemporaryDirectory() as folder:
        tables = {"touch": touches, "memory": memory, "kernel": kernels}
        tables |= {"span": spans} if spans else {}
        trace = write_trace(Path(folder) / "t", **{k: v for k, v in tables.items() if v})
        return pasta.run("byte_flow", trace=trace, top=1000, **parameters)


def pairs(report):
    columns = ("writer", "name", "passed_bytes", "fusable_bytes", "saved_bytes")
    return sorted(report.tables["pairs"].select(columns).rows())


def test_a_chain_that_fuses():
    """1 writes a, 2 reads a and writes b, 3 reads b; a is released, b is kept."""
    touches = [
        touch(1, 1, written=SIZE),
        touch(2, 1, read=SIZE),
        touch(2, 2, written=SIZE),
        touch(3, 2, read=SIZE),
    ]
    report = run(touches, tensors(1, 2, released=[(1, 25)]))
    assert pairs(report) == [("k1", "k2", SIZE, SIZE, 2 * SIZE), ("k2", "k3", SIZE, SIZE, SIZE)]
    assert report.facts == {
        "coarse": 4,
        "read_bytes": 2 * SIZE,
        "passed_bytes": 2 * SIZE,
        "written_bytes": 2 * SIZE,
        "saved_bytes": 3 * SIZE,
        "dead_bytes": 0,
        "kept_bytes": 0,
    }
    assert report.findings[0] == "fusing k1 with the k2 right after it would save 1.95 KiB of reads and writes, in 1 pair"  # fmt: skip
    assert "whole tensors" in report.findings[-1]


def test_a_bar_is_all_that_follows_one_writer():
    """k1 is read by k2 right after it, and, when it runs again, by k4."""
    named = [kernel(1, "k1"), kernel(2, "k2"), kernel(3, "k1"), kernel(4, "k4")]
    touches = [touch(launch, launch, written=SIZE) for launch in (1, 3)]
    touches += [touch(launch + 1, launch, read=SIZE) for launch in (1, 3)]
    report = run(touches, tensors(1, 3), kernels=named)
    (bars,) = (part for part in report.parts if isinstance(part, ChartPart) and part.kind == "bar")
    assert bars.rows.rows() == [("k1", 2 * SIZE)]


def test_who_reads_later_needs_the_write():
    touches = [touch(1, 1, written=SIZE), touch(2, 1, read=SIZE), touch(4, 1, read=SIZE)]
    report = run([*touches, touch(3, 2, read=5)], tensors(1, 2, released=[(1, 50)]))
    assert pairs(report) == [("k1", "k2", SIZE, SIZE, SIZE), ("k1", "k4", SIZE, 0, 0)]


@pytest.mark.parametrize("counted", [{}, {"reads": 0, "writes": 0, "atomics": 0}])
def test_what_a_launch_reads_or_writes_counts_as_read(counted):
    """2 touches all of a by a tensor map, which does not say how."""
    touches = [touch(1, 1, written=SIZE), touch(2, 1, None, None, unique_bytes=SIZE, **counted)]
    report = run(touches, tensors(1))
    assert pairs(report) == [("k1", "k2", SIZE, SIZE, SIZE)]
    assert (report.facts["read_bytes"], report.facts["written_bytes"]) == (SIZE, SIZE)


def test_writes_for_nobody():
    """1 is overwritten whole by 2, 2 in a part only by 3, 3 is released; 4 is kept."""
    touches = [
        touch(1, 1, written=SIZE),
        touch(2, 1, written=SIZE),
        touch(3, 1, written=10),
        touch(4, 2, written=7),
    ]
    report = run(touches, tensors(1, 2, released=[(1, 50)]))
    dead = report.tables["dead"].select("name", "ends", "dead_bytes").rows()
    assert sorted(dead) == [("k1", "overwritten", SIZE), ("k3", "released", 10)]
    assert (report.facts["dead_bytes"], report.facts["kept_bytes"]) == (SIZE + 10, 7)


def test_blocks_tell_parts_apart():
    """2 reads what 1 did not write; whole objects would call it passed."""
    memory = [allocate(0, "device", 1, 0, 4096)]
    whole = [touch(1, 1, written=512, space="device"), touch(2, 1, read=512, space="device")]
    touches = [*whole, block(1, 0, writes=4), block(2, 1, reads=4), block(3, 0, reads=9)]
    report = run(touches, memory)
    assert pairs(report) == [("k1", "k3", 512, 0, 0)]
    assert report.facts["coarse"] == 0
    assert pairs(run(whole, memory)) == [("k1", "k2", 512, 512, 512)]


def test_coarse_blocks_give_way_to_tensors():
    memory = [allocate(0, "device", 1, 0, 1 << 20), allocate(0, "tensor", 2, 0, SIZE)]
    touches = [
        *(block(1, 0, writes=4, size=65_536), block(2, 0, reads=4, size=65_536)),
        *(touch(1, 2, written=SIZE), touch(2, 2, read=SIZE)),
    ]
    assert pairs(run(touches, memory)) == [("k1", "k2", SIZE, SIZE, SIZE)]
    found = pairs(run(touches, memory, largest_block=65_536))
    assert found == [("k1", "k2", 65_536, 65_536, 65_536)]


def test_operators_and_steps():
    """Without kernels operators pass bytes; of step 1 only its own reads count."""
    spans = [
        {"tid": 1, "ts": 0, "dur": 50, "span_id": 8, "level": "step", "name": "step 0"},
        {"tid": 1, "ts": 50, "dur": 50, "span_id": 9, "level": "step", "name": "step 1"},
        *({"tid": 1, "ts": ts, "dur": 5, "span_id": span, "level": "operator", "name": name}
          for span, ts, name in ((1, 10, "a"), (2, 20, "b"), (3, 60, "c"))),
    ]  # fmt: skip
    touches = [
        {**touch(0, 1, **given), "span_id": span, "device": -1}
        for span, given in ((1, {"written": 9}), (2, {"read": 9}), (3, {"read": 9}))
    ]
    memory = tensors(1)
    report = run(touches, memory, kernels=[], spans=spans)
    assert pairs(report) == [("a", "b", 9, 9, 9), ("a", "c", 9, 0, 0)]
    assert pairs(run(touches, memory, kernels=[], spans=spans, step=1)) == [("a", "c", 9, 0, 0)]
    nothing = run(touches, memory, kernels=[], spans=spans, step=7)
    assert pairs(nothing) == []
    assert nothing.findings == [
        "no launch or operator of step 7 is known to have read or written anything"
    ]


def test_processes_do_not_read_each_other():
    touches = [touch(1, 1, written=SIZE), {**touch(2, 1, read=SIZE), "pid": 2}]
    memory = [*tensors(1), *({**row, "pid": 2} for row in tensors(1))]
    kernels = [{**kernel(launch), "pid": pid} for launch in (1, 2) for pid in (1, 2)]
    assert pairs(run(touches, memory, kernels=kernels)) == []


TOUCHES = st.dictionaries(
    st.tuples(st.integers(1, 8), st.integers(1, 3)),
    st.tuples(st.sampled_from([0, 300, SIZE]), st.sampled_from([0, 400, SIZE])),
    min_size=1,
    max_size=20,
)


@FEW
@given(TOUCHES, st.sets(st.integers(1, 3)))
def test_equals_a_walk_through_launches(given_touches, released):
    touches = [touch(*key, *value) for key, value in sorted(given_touches.items())]
    report = run(touches, tensors(1, 2, 3, released=[(thing, 99) for thing in released]))
    order = sorted({launch for launch, _ in given_touches})
    passed, saved, dead = Counter(), Counter(), 0
    for (launch, thing), (read, written) in given_touches.items():
        mine = sorted(at for at, of in given_touches if of == thing)
        later = [at for at in mine if at > launch]
        if later:
            next_read, next_written = given_touches[later[0], thing]
            gone = next_read == 0 and next_written == SIZE
        else:
            gone = thing in released
        dead += written if gone else 0
        writers = [at for at in mine if at < launch and given_touches[at, thing][1]]
        if read and writers:
            count = min(read, given_touches[writers[-1], thing][1])
            pair = (f"k{writers[-1]}", f"k{launch}")
            passed[pair] += count
            if order.index(writers[-1]) == order.index(launch) - 1:
                saved[pair] += count * (2 if gone or written == SIZE else 1)
    found = {row[:2]: (row[2], row[4]) for row in pairs(report)}
    assert found == {pair: (count, saved[pair]) for pair, count in passed.items()}
    assert report.facts["dead_bytes"] == dead
    assert report.facts["saved_bytes"] == saved.total()
