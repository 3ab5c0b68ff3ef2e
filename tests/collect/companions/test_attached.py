"""Companions watch before the program begins, are drained when it ends, and leave nothing behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import pasta
from pasta.collect.collectors import COLLECTORS, Collector, Level
from pasta.collect.companions import registry
from pasta.collect.recording import record_command
from pasta.collect.selection import Selection
from pasta.errors import CollectError
from pasta.trace import Trace
from tests.collect.companions.stand_in import StandIn
from tests.collect.recorded_programs import losses, table

WATCHER = Collector(
    "stand_in",
    "nothing of use",
    {"lines": Level(frozenset({"sample"}), "little", "all of it")},
    by_name_only=True,
    outside=True,
)


@pytest.fixture
def attach(monkeypatch, tmp_path):
    """A function that records a command with a stand-in companion of a certain script."""

    def record(command, script=StandIn.script, **attributes):
        kind = type("OfTest", (StandIn,), {"script": script, **attributes})
        made = []

        def make(level, options):
            made.append(kind(level, options))
            return made[-1]

        monkeypatch.setitem(registry.COMPANIONS, "stand_in", make)
        monkeypatch.setitem(COLLECTORS, "stand_in", WATCHER)
        done = record_command(command, tmp_path / "t", {"stand_in": "lines"}, Selection())
        return done, made[0]

    return record


def test_the_program_begins_when_the_companion_is_ready(attach, tmp_path):
    slow = f"sleep 0.3; touch {tmp_path}/watching;" + StandIn.script
    done, _ = attach(["sh", "-c", f"test -e {tmp_path}/watching"], slow)
    assert str(done.end) == "exit 0"


def test_it_watches_the_process_that_becomes_the_program(attach):
    done, companion = attach(["sh", "-c", "exit 3"])
    trace = Trace.open(done.path)
    process = table(trace, "process").row(0, named=True)
    assert companion.lines[0].split()[0] == str(process["pid"])
    assert process["exit_code"] == 3
    assert done.exit_code == 3


def test_what_it_says_at_its_end_is_in_the_trace(attach):
    done, companion = attach(["true"])
    kinds = table(Trace.open(done.path), "sample")["kind"].to_list()
    assert len(kinds) == 3
    assert '{"left": 1}' in kinds
    assert list(done.notes) == ["stand_in: a note"]
    assert companion.finished
    assert companion.closed


def test_the_program_has_the_environment_it_was_given(attach, monkeypatch, tmp_path):
    monkeypatch.setenv("LC_CTYPE", "C")
    monkeypatch.delenv("LC_ALL", raising=False)
    attach(["sh", "-c", f"env > {tmp_path}/environment; exec true"])
    given = dict(line.split("=", 1) for line in (tmp_path / "environment").read_text().splitlines())
    assert given["STAND_IN"] == "lines"
    assert given["LC_CTYPE"] == "C"
    assert given["PASTA_CHANNEL"]


def test_signals_are_as_a_program_expects_them(attach, tmp_path):
    attach(["sh", "-c", f"grep ^Sig /proc/self/status > {tmp_path}/signals"])
    lines = (tmp_path / "signals").read_text().splitlines()
    masks = {
        name: int(value, 16)
        for name, value in (line.split(":\t") for line in lines if "/" not in line)
    }
    assert masks["SigBlk"] == 0
    assert not masks["SigIgn"] >> signal.SIGPIPE - 1 & 1


def command_lines() -> Iterator[str]:
    """The command line of each process."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            yield os.fsdecode((process / "cmdline").read_bytes())


def test_nothing_is_left_of_it(attach):
    done, companion = attach(["true"])
    folder = companion.lines[0].split()[1]
    assert not Path(folder).exists()
    assert not list(done.path.glob(".*"))
    assert not [line for line in command_lines() if folder in line]


def test_one_that_fails_at_its_start_is_named_and_the_program_never_begins(attach, tmp_path):
    with pytest.raises(CollectError, match="--with stand_in: no rights"):
        attach(["touch", f"{tmp_path}/begun"], "echo 'no rights' >&2; exit 1")
    assert not (tmp_path / "begun").exists()
    assert not (tmp_path / "t").exists()


def test_one_that_is_never_ready_is_given_up(attach):
    with pytest.raises(CollectError, match="not ready within"):
        attach(["true"], "sleep 60", ready_seconds=0.2)


def test_one_that_does_not_end_is_killed_and_counted(attach):
    script = "trap '' INT; echo ready; exec sleep 60"
    done, _ = attach(["true"], script, end_seconds=0.2)
    assert any("was killed" in reason for reason in losses(Trace.open(done.path)))


def test_one_that_fails_later_is_told(attach):
    done, _ = attach(["sleep", "0.2"], "trap '' INT; echo ready; echo 'lost it' >&2; exit 4")
    assert "stand_in: bash failed: lost it" in done.notes
    assert any("lost it" in reason for reason in losses(Trace.open(done.path)))


def test_a_line_that_makes_no_sense_is_counted(attach):
    done, companion = attach(["true"], "echo nonsense;" + StandIn.script)
    counted = losses(Trace.open(done.path))
    assert any("could not be understood" in reason for reason in counted)
    assert "ready" in companion.lines


def test_where_its_rows_cannot_be_written_the_program_s_end_is_known_all_the_same(
    attach, monkeypatch
):
    def finish(_self):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(StandIn, "finish", finish)
    done, _ = attach(["sh", "-c", "exit 3"])
    assert done.end.code == 3
    assert "No space left on device" in done.failure
    assert Trace.open(done.path).info["ended"] == "exit 3"
    assert "No space left on device" in " ".join(pasta.run("summary", done.path).notes)


def test_what_it_misses_is_in_the_manifest(attach):
    done, _ = attach(["true"])
    (collector,) = json.loads((done.path / "trace.json").read_text())["collectors"]
    assert (collector["name"], collector["misses"]) == ("stand_in:lines", ["everything"])
