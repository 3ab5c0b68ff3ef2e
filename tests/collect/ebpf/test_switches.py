"""Switches of several CPUs become exact intervals, in any order of lines, and losses are counted."""

import random
from types import SimpleNamespace

import pytest

from pasta.collect.ebpf import switches
from pasta.collect.ebpf.switches import Switches, state_name
from pasta.collect.losses import Losses
from pasta.trace import Trace
from pasta.trace_writer import TraceWriter

PID, FIRST, SECOND, OTHER = 70, 70, 71, 5
SLEEPS, PREEMPTED = 1 << 12, 2 << 12
OFFSET = 1_000_000


def record(ts, context, came):
    return [ts, context << 24 | came]


@pytest.fixture
def intervals(tmp_path):
    """A function that gives lines to `Switches` of two CPUs and returns rows and losses."""

    asked = []

    def made(lines, contexts=((SLEEPS, FIRST, 1, 8), (PREEMPTED, SECOND, 0, 9))):
        writer = TraceWriter(tmp_path / "t", {})
        part, losses = writer.part(), Losses("offcpu")
        rounds = SimpleNamespace(cpus=frozenset({0, 1}), ask=lambda: asked.append(pairs))
        pairs = Switches(part, losses, OFFSET, rounds)
        for context, tid, state, stack in contexts:
            pairs.know(context, PID, tid, state, stack)
        for line in lines:
            pairs.take(*line)
        pairs.finish()
        part.finish()
        writer.finish()
        columns = ["tid", "ts", "dur", "state", "stack_id", "weight"]
        trace = Trace.open(tmp_path / "t")
        rows = trace.scan("sample").collect() if "sample" in trace.tables() else None
        return (
            [] if rows is None else rows.sort("ts", "tid").select(columns).rows(),
            {loss.reason: loss.count for loss in losses},
        )

    made.asked = asked
    return made


def test_a_thread_leaves_one_cpu_and_comes_back_on_the_other(intervals):
    rows, losses = intervals(
        [
            (1, 0, 400, record(350, 0, FIRST)),
            (0, 0, 300, record(100, SLEEPS, SECOND) + record(120, PREEMPTED, OTHER)),
            (0, 1, 500, record(450, 0, SECOND)),
        ]
    )
    assert rows == [
        (FIRST, 100 + OFFSET, 250, "sleeping", 8, 250.0),
        (SECOND, 120 + OFFSET, 330, "preempted", 9, 330.0),
    ]
    assert losses == {}


def test_pairs_do_not_depend_on_how_many_are_paired_at_once(intervals, monkeypatch):
    chance = random.Random(1)
    expected, lines = [], []
    numbers, at = [0, 0], 0
    for _ in range(200):
        start = at + chance.randint(1, 5)
        at = start + chance.randint(1, 5)
        for cpu, fields in ((0, record(start, SLEEPS, OTHER)), (1, record(at, 0, FIRST))):
            lines.append((cpu, numbers[cpu], at, fields))
            numbers[cpu] += 1
        expected.append((FIRST, start + OFFSET, at - start))
    monkeypatch.setattr(switches, "CHUNK", 7)
    rows, losses = intervals(lines)
    assert [row[:3] for row in rows] == expected
    assert losses == {}


def test_a_silent_cpu_is_asked_and_holds_nothing_back_for_good(intervals, monkeypatch):
    monkeypatch.setattr(switches, "CHUNK", 4)
    waiting = []

    def lines():
        for number in range(100):
            start = 10 * number
            yield 0, number, start + 3, record(start, SLEEPS, OTHER) + record(start + 2, 0, FIRST)
            if intervals.asked:
                waiting.append(len(intervals.asked[-1]._waiting))
                intervals.asked.clear()
                yield 1, len(waiting) - 1, start + 4, []

    rows, losses = intervals(lines())
    assert len(rows) == 100
    assert losses == {}
    assert len(waiting) > 10
    assert max(waiting) <= 8


def test_what_lies_around_a_lost_line_is_not_trusted(intervals):
    rows, losses = intervals(
        [
            (0, 0, 100, record(90, SLEEPS, OTHER)),
            (0, 2, 300, record(290, 0, FIRST)),  # line 1 may have told of coming and leaving
            (1, 0, 300, record(10, PREEMPTED, OTHER) + record(60, 0, SECOND)),
        ]
    )
    assert [row[0] for row in rows] == [SECOND]
    assert losses[switches._LOST_LINES] == 1
    assert losses[switches._DOUBTFUL] == 1


def test_what_never_ends_or_is_not_known_is_counted(intervals):
    rows, losses = intervals(
        [
            (0, 0, 9, record(1, SLEEPS, OTHER) + record(2, SLEEPS, OTHER)),
            (1, 0, 9, record(3, 99 << 12, OTHER)),
        ]
    )
    assert rows == []
    assert losses == {
        switches._UNPAIRED: 1,
        switches._OPEN: 1,
        switches._UNKNOWN_CONTEXT: 1,
    }


@pytest.mark.parametrize(
    ("bits", "name"),
    [(0, "preempted"), (256, "preempted"), (1, "sleeping"), (2, "uninterruptible"), (16, "dead")],
)
def test_states(bits, name):
    assert state_name(bits) == name
