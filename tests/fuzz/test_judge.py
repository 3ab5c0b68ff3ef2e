"""The judge finds what is wrong with importers that are made to be wrong."""

# ruff: noqa: ARG001, ARG005 (what is planted takes all that a reader is given)
from __future__ import annotations

import contextlib
import pickle
import subprocess
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from pasta.collect.importer import Imported
from pasta.errors import InputError, TraceError
from tests.fuzz import canary
from tests.fuzz.content import one_file
from tests.fuzz.guards import Forbidden, TooSlow
from tests.fuzz.judge import LOSSES, REFUSED, ROWS, Judge
from tests.fuzz.many import judge_some
from tests.fuzz.tally import Tally, table
from tests.fuzz.targets import Target

KERNEL = {"pid": [1, 1], "ts": [5, 3], "dur": [1, None], "launch_id": [1, 2]}
SPAN = {"pid": [1, 1], "tid": [1, 1], "ts": [3, 5], "span_id": [1, 2], "parent_id": [0, 1]}
SPAN["level"] = ["step", "operator"]


class Planted:
    """An importer that does as it is told."""

    format, version, general = "planted", 1, False

    def __init__(self, act):
        self.act = act

    def recognises(self, source):
        return source.head.startswith(b"x")

    def read(self, source, part, losses):
        self.act(source, part, losses)
        return Imported(pid=1)


@pytest.fixture
def judged(tmp_path):
    def run(act, data=b"x", **options):
        return Judge(tmp_path / "judge", **options).judge(Planted(act), one_file(data))

    return run


def rows(**columns):
    return lambda source, part, losses: part.append("kernel", pa.table(KERNEL | columns))


def spans(**columns):
    return lambda source, part, losses: part.append("span", pa.table(SPAN | columns))


def refuse(source, part, losses):
    raise InputError(f"{source.name}: no")


def test_what_is_right_is_told_apart(judged):
    assert judged(rows()).outcome == ROWS
    assert judged(spans()).outcome == ROWS
    assert judged(refuse).outcome == REFUSED
    assert judged(lambda source, part, losses: losses.skip("left out")).outcome == LOSSES
    damaged = judged(lambda source, part, losses: losses.fault("damage"))
    assert (damaged.outcome, damaged.damage) == (LOSSES, True)
    assert judged(rows(), data=b"y").outcome == "another format"


@pytest.mark.parametrize(
    ("act", "what"),
    [
        (rows(dur=[-1, 0]), "kernel.dur: -1 is negative"),
        (rows(ts=[1 << 62, 0]), "beyond the limit"),
        (rows(dur=[1 << 62, 0]), "beyond the limit"),
        (rows(ts=[1 << 61, 0], dur=[(1 << 63) - 1, 0]), "does not fit into 64 bits"),
        (rows(launch_id=[7, 7]), "1 repeated launch_id"),
        (rows(launch_id=[0, 1]), "kernel.launch_id: is 0"),
        (rows(pid=[None, 1]), "kernel.pid: is null"),
        (spans(parent_id=[0, 9]), "has no such parent 9"),
        (spans(parent_id=[1, 0]), "is its own parent"),
        (spans(parent_id=[2, 0]), "begins before its parent"),
        (spans(tid=[1, 2]), "parent on another thread"),
        (spans(level=["x", "step"]), "{'x'} is none of"),
        (spans(stack_id=[1, 1]), "span: stacks that are not in frame"),
        (lambda source, part, losses: losses.skip("reason", -1), "loss.count: -1 is negative"),
        (lambda source, part, losses: source.file.write_text("xy"), "was changed"),
        (
            lambda source, part, losses: part.folder.with_name("left").mkdir(exist_ok=True),
            "left behind",
        ),
        (lambda source, part, losses: source.file.with_name("x.wal").touch(), "files beside"),
        (lambda source, part, losses: losses.strict and refuse(source, part, losses), "strict"),
    ],
)
def test_broken_promises_are_found(judged, act, what):
    with pytest.raises(AssertionError) as found:
        judged(act)
    assert what in str(found.value)


def swallowed(act):
    """The same within a handler that lets nothing through."""

    def run(source, part, losses):
        with contextlib.suppress(BaseException):
            act(source, part, losses)

    return run


@pytest.mark.parametrize("how", [lambda act: act, swallowed])
@pytest.mark.parametrize(
    "act",
    [
        lambda source, part, losses: Path("/etc/passwd").read_text(),
        lambda source, part, losses: Path("canary").write_text("x"),
        lambda source, part, losses: (part.folder / "../../../canary").touch(),
        lambda source, part, losses: Path("/nowhere/at/all").unlink(missing_ok=True),
        lambda source, part, losses: subprocess.run(["true"], check=False),
        lambda source, part, losses: pickle.loads(pickle.dumps(canary.sing)),
        lambda source, part, losses: canary.sing("directly"),
    ],
)
def test_what_no_reader_may_do_is_found(judged, act, how, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Forbidden):
        judged(how(act))
    assert not list(tmp_path.rglob("canary"))


def test_what_a_thread_of_the_reader_does_is_the_readers(judged):
    def aside(source, part, losses):
        thread = threading.Thread(target=lambda: suppressed(Path("/etc/passwd").read_text))
        thread.start()
        thread.join()

    def suppressed(act):
        with contextlib.suppress(BaseException):
            act()

    with pytest.raises(Forbidden, match="opened '/etc/passwd'"):
        judged(aside)


def test_what_another_thread_does_meanwhile_is_not(judged):
    asked, done, read = threading.Event(), threading.Event(), []

    def another():
        asked.wait()
        read.append(Path("/etc/passwd").read_text())
        done.set()

    def wait(source, part, losses):
        asked.set()
        done.wait(10)

    thread = threading.Thread(target=another)
    thread.start()
    judged(wait)
    thread.join()
    assert read


def test_what_takes_too_long_is_ended(judged):
    def endless(source, part, losses):
        while True:
            pass

    with pytest.raises(TooSlow):
        judged(endless, seconds=0.3)


def test_whatever_else_escapes_is_let_out(judged):
    with pytest.raises(ZeroDivisionError):
        judged(lambda source, part, losses: 1 // 0)
    with pytest.raises(TraceError, match="has no column"):
        judged(rows(unheard_of=[1, 2]))


class Progress:
    value = -1


def test_failures_of_many_inputs_are_counted_by_kind(tmp_path, monkeypatch):
    # The process of the tests may itself hold more than one that only reads inputs.
    monkeypatch.setattr("tests.fuzz.many.peak_bytes", lambda: 1 << 20)

    def fail(source, part, losses):
        rows()(source, part, losses)
        if source.size > 10:
            raise ZeroDivisionError

    target = Target("planted", Planted(fail), [one_file(b"x" * 10, "bytes")])
    progress = Progress()
    tally = judge_some(target, Judge(tmp_path / "judge"), range(200), progress)
    assert progress.value == 199
    assert tally.inputs == 200
    assert len(tally.findings) == 1
    [(failure, numbers)] = tally.findings.items()
    assert failure.startswith("ZeroDivisionError in test_judge.py:")
    assert tally.outcomes["failures"] == len(numbers) > 10
    assert tally.outcomes[ROWS] > 10


def test_tallies_add_up_in_the_table():
    one, other = Tally(), Tally()
    one.outcomes[ROWS] = 1500
    one.time(0.25, 7)
    one.peak = 300 << 20
    other.note("crash", 3)
    lines = list(table({"a": one, "b": other}))
    assert lines[2] == "| a | 1,500 | 1,500 | 0 | 0 | 0 | 0 | 250 | 300 |"
    assert lines[4] == "| all | 1,501 | 1,500 | 0 | 0 | 0 | 1 | 250 | 300 |"
