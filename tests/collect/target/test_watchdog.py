from __future__ import annotations

import threading

import pytest

from pasta.collect.target.rows import Losses, Rows
from pasta.collect.target.spans import SPAN_COLUMNS, Spans
from pasta.collect.target.stacks import FRAME_COLUMNS, Stacks
from pasta.collect.target.watchdog import SAMPLE_COLUMNS, Watchdog

SECOND = 1_000_000_000


class Program:
    """Spans and a watchdog with a clock set by hand."""

    def __init__(self) -> None:
        self.now = 0
        self.ended = Rows("span", SPAN_COLUMNS, {})
        self.open = Rows("span", SPAN_COLUMNS, {})
        self.samples = Rows("sample", SAMPLE_COLUMNS, {})
        self.frames = Rows("frame", FRAME_COLUMNS, {})
        losses, threads = Losses(), Rows("thread", ("tid", "name", "started"), {})
        self.spans = Spans("run", self.ended, threads, losses, self.clock)
        self.watchdog = Watchdog(
            self.spans,
            self.ended,
            open_rows=self.open,
            samples=self.samples,
            stacks=Stacks(self.frames, losses, self.clock),
            clock=self.clock,
            hang_seconds=5,
        )

    def clock(self) -> int:
        return self.now

    def passes(self, seconds: float, **options: bool) -> None:
        """Let time pass, with ten looks a second."""
        for _ in range(round(seconds * 10)):
            self.now += SECOND // 10
            self.watchdog.look(**options)

    def opened(self) -> list[str]:
        """Names of the spans written while they were open, since the last call."""
        return list(self.open.take().get("name", ()))

    def told(self) -> int:
        """How many samples there have been since the last call."""
        return len(self.samples.take().get("tid", ()))


@pytest.fixture
def program():
    """A program with one more thread, as the one that looks is left out of samples."""
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    yield Program()
    end.set()
    thread.join()


def test_a_span_is_written_once_when_it_has_been_open_for_a_second(program):
    program.spans.open("annotation", "long", "long")
    program.passes(1.0)
    assert program.opened() == []
    program.passes(0.1)
    row = program.open.take()
    assert row["name"] == ("run", "step 0", "long")
    assert row["dur"] == (None, None, None)
    program.passes(3)
    assert program.opened() == []
    program.spans.close("annotation", "long")
    ended = program.ended.take()
    assert ended["name"] == ("long",)
    for column in ("ts", "span_id", "parent_id", "tid", "level"):
        assert row[column][2] == ended[column][0]
    assert ended["dur"] == (program.now,)


def test_a_short_span_is_written_when_it_ends_only(program):
    program.passes(1.1)
    assert program.opened() == ["run"]
    for _ in range(20):
        program.spans.open("annotation", "short", 1)
        program.passes(0.2)
        program.spans.close("annotation", 1)
    assert "short" not in program.opened()


def test_spans_of_all_threads_are_seen_until_the_thread_ends(program):
    ready, go = threading.Event(), threading.Event()

    def work() -> None:
        program.spans.open("annotation", "elsewhere", 1)
        ready.set()
        go.wait(300)

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait(300)
    program.passes(1.2)
    rows = program.open.take()
    assert dict(zip(rows["name"], rows["tid"], strict=True)) == {
        "run": threading.get_native_id(),
        "elsewhere": thread.native_id,
    }
    go.set()
    thread.join()
    assert [tid for tid, _ in program.spans.all_open()] == [threading.get_native_id()]


def test_where_nothing_moves_the_stacks_are_written_once(program):
    waiting, go = threading.Event(), threading.Event()

    def stand_still() -> None:
        waiting.set()
        go.wait(300)

    thread = threading.Thread(target=stand_still)
    thread.start()
    waiting.wait(300)
    program.spans.open("annotation", "stuck", 1)
    program.passes(5)
    assert program.told() == 0
    looker = threading.Thread(target=program.passes, args=(0.2,), name="looks")
    looker.start()
    looker.join()
    samples, frames = program.samples.take(), program.frames.take()
    assert set(samples["tid"]) >= {threading.get_native_id(), thread.native_id}
    assert looker.native_id not in samples["tid"]
    assert set(samples["kind"]) == {"hang"}
    assert set(samples["ts"]) == {5 * SECOND + SECOND // 10}
    assert set(samples["weight"]) == {5.0}
    stack = samples["stack_id"][samples["tid"].index(thread.native_id)]
    functions = zip(frames["stack_id"], frames["function"], strict=True)
    assert "stand_still" in "".join(name for stack_id, name in functions if stack_id == stack)
    program.passes(30)
    assert program.told() == 0
    go.set()
    thread.join()


def test_a_new_spell_is_told_again(program):
    program.spans.open("annotation", "first", 1)
    program.passes(6)
    assert program.told() > 0
    program.spans.close("annotation", 1)
    program.passes(5)
    assert program.told() == 0
    program.passes(0.2)
    assert program.told() > 0


@pytest.mark.parametrize("begins", [True, False])
def test_a_begin_or_an_end_is_a_sign_of_life(program, begins):
    spans = program.spans
    for number in range(10):
        spans.open("annotation", "a", number)
    for number in range(9, -1, -1):
        if begins:
            spans.open("annotation", "b", -1 - number)
        else:
            spans.close("annotation", number)
        program.passes(4)
    assert program.told() == 0


def test_operators_are_a_sign_of_life_where_others_count_them(program):
    count = 0
    program.watchdog.watch(lambda: count)
    for _ in range(10):
        count += 1
        program.passes(4)
    assert program.told() == 0
    program.passes(6)
    assert program.told() > 0


def test_time_in_which_the_process_stood_still_counts_for_one_look(program):
    program.passes(1)
    program.now += 100 * SECOND
    program.passes(2)
    assert program.told() == 0


def test_nothing_is_told_while_nothing_is_recorded_or_the_program_waits_for_the_collector(program):
    program.passes(20, recording=False)
    with program.watchdog.paused():
        program.passes(20)
    assert program.told() == 0
    program.passes(6)
    assert program.told() > 0
