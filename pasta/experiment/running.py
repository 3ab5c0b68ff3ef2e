"""The runs of an experiment, each recorded in a folder of its own; those that are there stay."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from pasta.collect.launch import Program
from pasta.collect.recording import Recorded, check_recordable, record_command
from pasta.collect.selection import Selection
from pasta.collect.target.ranks import place
from pasta.errors import CollectError, PastaError, TraceError
from pasta.experiment.plan import Experiment, PlannedRun, read_experiment
from pasta.schema import arrow_schema
from pasta.trace import Trace
from pasta.trace_writer import TraceWriter

PLAN, RUNS = "experiment.yaml", "runs"
"""In the folder of an experiment: its YAML, and the traces of its runs."""
LOCK = "experiment.lock"
"""In the same folder: an empty file, locked while an experiment runs there."""
OUTPUT = "output.txt"
"""Beside the traces of the rounds of one level: what the program printed, by round."""


class FailedRunError(PastaError):
    """A run of the program failed; the exit code is the program's own."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def check_folder(experiment: Experiment, out: Path) -> None:
    """Check that a folder can take the runs of an experiment.

    Args:
        experiment: what is to run.
        out: folder that is absent, empty, or holds runs of the same experiment, of any number of rounds.

    Raises:
        TraceError: the folder holds something else.
        CollectError: this is one of several ranks, which would make the runs of each other.
    """
    if place(os.environ).world_size > 1:
        raise CollectError(
            "an experiment starts all ranks itself: run it once, with the launcher in its command"
        )
    kept = out / PLAN
    if kept.exists():
        if not _goes_on(read_experiment(kept), experiment):
            raise TraceError(f"{out}: holds runs of another experiment; choose another -o")
    elif out.exists() and (not out.is_dir() or any(file.name != LOCK for file in out.iterdir())):
        raise TraceError(f"{out}: already exists and is not empty; choose another -o")


@contextlib.contextmanager
def alone_in(out: Path) -> Iterator[None]:
    """Make the folder of an experiment, and keep all others out of it for a while.

    Raises:
        TraceError: another experiment runs there, or the folder cannot be made.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / LOCK).open("ab")
    except OSError as error:
        raise TraceError(f"{error.filename or out}: {error.strerror}; choose another -o") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TraceError(
                f"{out}: another experiment runs there; wait for its end, or choose another -o"
            ) from None
        yield


def prepare(experiment: Experiment, source: Path, out: Path) -> None:
    """Put a copy of an experiment's YAML into its folder.

    Raises:
        TraceError: the folder holds something else by now, or cannot be written.
    """
    check_folder(experiment, out)
    try:
        with contextlib.suppress(shutil.SameFileError):
            shutil.copyfile(source, out / PLAN)
    except OSError as error:
        raise TraceError(f"{error.filename or out}: {error.strerror}; choose another -o") from error


def _goes_on(before: Experiment, now: Experiment) -> bool:
    """Tell whether runs of one experiment are runs of another, which may have more or fewer rounds."""
    return replace(before, about=now.about, repeats=now.repeats) == now


def to_do(experiment: Experiment, out: Path) -> list[PlannedRun]:
    """Return the runs that a folder lacks, in their order."""
    return [run for run in experiment.runs() if not is_done(out / RUNS / run.folder)]


def is_done(folder: Path) -> bool:
    """Tell whether a folder holds the trace of a run that ended well."""
    if not folder.is_dir():
        return False
    try:
        return Trace.open(folder).info.get("ended") == "exit 0"
    except PastaError:
        return False


def make_runs(runs: list[PlannedRun], out: Path, say: Callable[[str], None]) -> None:
    """Make runs of an experiment, one after another.

    Args:
        runs: those to be made; what an interrupted one left in its folder is thrown away.
        out: folder of the experiment.
        say: tells people what happens.

    Raises:
        FailedRunError: the program failed, or was interrupted; the experiment can go on where it stopped.
        CollectError: there is no such program, or a level cannot be recorded here.
        TraceError: a trace could not be written.
    """
    for (command, _), level in {(run.command, run.level.name): run.level for run in runs}.items():
        check_recordable(command, level.chosen or {})
    for number, run in enumerate(runs, 1):
        folder = out / RUNS / run.folder
        say(f"run {number} of {len(runs)}: {run}")
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        output = folder.with_name(f"{folder.name}-{OUTPUT}")
        with _output_into(output):
            done = _make(run, folder)
        for said in (done.warning if run.level.chosen else "", *done.notes):
            if said:
                say(said)
        _check(run, done, output)


def _make(run: PlannedRun, folder: Path) -> Recorded:
    if run.level.chosen is None:
        return _run_alone(run, folder)
    return record_command(run.command, folder, run.level.chosen, Selection())


def _check(run: PlannedRun, done: Recorded, output: Path) -> None:
    """Check that a run is whole; the trace of one that only seems so is thrown away."""
    if done.interrupted:
        shutil.rmtree(done.path, ignore_errors=True)
        name = signal.Signals(done.interrupted).name
        raise FailedRunError(
            f"{run}: interrupted by {name}. The same command goes on from here",
            128 + done.interrupted,
        )
    if done.end.shell_code:
        raise FailedRunError(
            f"{run}: the program ended with {done.end}; what it printed is in {output}."
            " The same command goes on from here",
            done.end.shell_code,
        )
    if done.failure:
        shutil.rmtree(done.path, ignore_errors=True)
        raise TraceError(f"{run}: {done.failure}. The same command goes on from here")


def _run_alone(run: PlannedRun, folder: Path) -> Recorded:
    """Run the program as it is, and keep when it started and ended as a trace."""
    command = shlex.join(run.command)
    started = time.time_ns()
    began = time.monotonic_ns()
    with Program(run.command, dict(os.environ)) as program:
        took = program.ended_ns - began
    end = program.ended()
    assert end is not None  # noqa: S101 (for mypy)
    writer = TraceWriter(folder, {"command": command, "collectors": []})
    part = writer.part()
    process = {
        "rank": 0,
        "pid": program.pid,
        "parent_pid": os.getpid(),
        "host": socket.gethostname(),
        "command": command,
        "world_size": 1,
        "started": started,
        "ended": started + took,
        "exit_code": end.code,
        "stack_id": 0,
    }
    part.append("process", pa.Table.from_pylist([process], schema=arrow_schema("process")))
    part.finish()
    writer.finish(ended=str(end))
    return Recorded(folder, end, interrupted=program.interrupted)


@contextlib.contextmanager
def _output_into(file: Path) -> Iterator[None]:
    """Let what this process and its children write to the standard streams go to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(stream) for stream in (1, 2)]
    try:
        with file.open("wb") as into:
            for stream in (1, 2):
                os.dup2(into.fileno(), stream)
        yield
    finally:
        for stream, own in zip((1, 2), kept, strict=True):
            os.dup2(own, stream)
            os.close(own)
