"""Recording a program: it runs once under collectors, and what they see becomes a trace."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import pyarrow as pa

from pasta.collect import cuda, cuda_memory
from pasta.collect.channel import Channel
from pasta.collect.collectors import COLLECTORS, Chosen
from pasta.collect.control import write_control, write_status
from pasta.collect.counters import Focus
from pasta.collect.cuda_memory import MemoryOptions
from pasta.collect.device_silence import NO_KERNEL, DeviceSilence
from pasta.collect.launch import End, Program, check_command
from pasta.collect.nvml.sampling import PERIOD_SECONDS, Sampling, check_library
from pasta.collect.receive import Receiver
from pasta.collect.shared_trace import SharedTrace
from pasta.collect.target.ranks import Place, place, run_id
from pasta.collect.target.session import CHANNEL, SETTINGS
from pasta.collect.wire import WIRE_TABLES
from pasta.collect.wrapped_files import WrappedFiles
from pasta.collect.wrappers import Wrapper, wrapper_of
from pasta.schema import arrow_schema
from pasta.trace import RANK_FOLDER
from pasta.trace_writer import TraceWriter

SITE = Path(__file__).parent / "target" / "site"
SLOTS, SLOT_BYTES = 64, 1 << 17
_LOOK_SECONDS = 0.05
_GRACE_SECONDS = 1.0
_STATUS_SECONDS = 1.0
_OF_DEVICES = frozenset({"cuda", "cuda.memory"})
"""Collectors of kernels that CUDA loads into the program, whether it is Python or not."""
_OUTLIVED = "processes that outlive the command: recorded up to its end"
_SILENT = (
    "no process of the command imported torch or pasta, or did so under python -I, -E or -S:"
    " nothing was recorded in it"
)
_KILLED = "a signal ended the program, which can lose of {}: {}"
_FULL = "the trace has reached its byte limit: recording was switched off"


@dataclass(frozen=True)
class Selection:
    """What of the run is recorded.

    Attributes:
        steps: first step, last step (`None`: to the end), and every how many-th of them.
        seconds: record for so long in all.
        match: regular expression (Python's and Rust's alike) that names of operators and kernels must contain.
        max_bytes: stop when the trace's files are so large.
        idle: record nothing until asked to (`pasta control`, `pasta.start()`).
        stacks: record call stacks: Python's of operators and ranges, native ones of launches.
        cycle_seconds: how long a cycle of PyTorch's profiler lasts at most.
        counters: names of counters that `cuda.counters` takes in place of its level's.
        ranges: NVTX ranges in which `cuda.counters` counts; empty: everywhere.
        period_seconds: time from one sample of `nvml` to the next.
        memory: what `cuda.memory` watches of each launch.
    """

    steps: tuple[int, int | None, int] | None = None
    seconds: float | None = None
    match: str | None = None
    max_bytes: int | None = None
    idle: bool = False
    stacks: bool = False
    cycle_seconds: float | None = None
    counters: tuple[str, ...] = ()
    ranges: tuple[str, ...] = ()
    period_seconds: float = PERIOD_SECONDS
    memory: MemoryOptions = field(default_factory=MemoryOptions)

    def in_program(self) -> dict[str, Any]:
        """Return what the program itself is told of it."""
        return {"steps": self.steps, "seconds": self.seconds, "idle": self.idle}

    def in_collector(self, collector: str) -> dict[str, Any]:
        """Return what a collector in the program is told of it."""
        options = {
            "match": self.match,
            "stacks": self.stacks or None,
            "cycle_seconds": self.cycle_seconds,
        }
        told = {name: value for name, value in options.items() if value is not None}
        return told | self.memory.in_program() if collector == "cuda.memory" else told

    def beside(self, collector: str) -> dict[str, Any]:
        """Return what a collector beside the program is told of it, as the trace keeps it."""
        if collector == "nvml":
            return {"period_seconds": self.period_seconds}
        if collector == "cuda.counters":
            options = {"counters": self.counters, "ranges": self.ranges}
            return {name: list(value) for name, value in options.items() if value}
        return {}


class FirstProcess(NamedTuple):
    """The process that was started; times in ns, exit code negative for a signal."""

    pid: int
    started: int
    ended: int
    exit_code: int


class Reception:
    """The analysis side of a recording: its channel, and the trace that it fills.

    A context manager, which removes the channel.

    Args:
        out: the trace's folder.
        command: what is recorded, for people.
        chosen: collector -> level.
        selection: what of the run is recorded.

    Attributes:
        path: the trace, absolute.
        channel: where the program writes.
        receiver: what turns it into tables.
        warning: what kept the program from being recorded; empty: nothing.

    Raises:
        TraceError: `out` holds something else.
        CollectError: shared memory has no room.
    """

    def __init__(self, out: Path, command: str, chosen: Chosen, selection: Selection) -> None:
        self.path = out.absolute()
        self._command = command
        self._chosen = chosen
        self._selection = selection
        self._place = place(os.environ)
        self._offset = epoch_offset()
        self._began = self.clock()
        self.channel = Channel.create("run", slots=SLOTS, slot_bytes=SLOT_BYTES, tables=WIRE_TABLES)
        try:
            self._trace = _open_trace(self.path, self._info(), self._place)
        except BaseException:
            self.channel.close()
            raise
        self.receiver = Receiver(self.channel, self.path, self.clock, selection.match)
        self._silence = DeviceSilence()
        self.receiver.listeners.append(self._silence)
        self._told_status = 0.0
        self._full = False
        self.warning = ""

    def clock(self) -> int:
        """Return the time in ns since the epoch, on the trace's clock."""
        return time.monotonic_ns() + self._offset

    def files_of(self, wrapper: Wrapper) -> WrappedFiles:
        """Return the files that a vendor's tool is to leave in this trace."""
        rank, _, world_size = self._place
        own = self.path / RANK_FOLDER.format(rank) if world_size > 1 else self.path
        chosen = self._selection
        level = self._chosen[wrapper.name]
        focus = Focus(level, chosen.counters, chosen.ranges, chosen.match)
        folder = own / wrapper.name
        return WrappedFiles(wrapper, focus, folder, self.receiver, rank=rank, pid=os.getpid())

    def samplings(self) -> list[Sampling]:
        """Return what samples the machine beside the program."""
        if "nvml" not in self._chosen:
            return []
        period = self._selection.period_seconds
        return [Sampling(self.receiver.append, self._place.rank, self._offset, period)]

    @property
    def seconds(self) -> float:
        """How long the recording has gone on."""
        return (self.clock() - self._began) / 1e9

    def settings(self) -> dict[str, Any]:
        """Return what the session in a program reads: clock, selection, collectors."""
        collectors = {
            name: {"level": level, **self._selection.in_collector(name)}
            for name, level in self._chosen.items()
        }
        common = {"offset": self._offset, "files": str(self.path)}
        return {**common, **self._selection.in_program(), **collectors}

    def status(self) -> dict[str, Any]:
        """Return how the recording fares."""
        return {
            "command": self._command,
            "path": str(self.path),
            "seconds": round(self.seconds, 1),
            "rows": self.receiver.rows,
            "bytes": self.receiver.bytes,
            "processes": len(self.receiver.processes),
            "fill": round(self.channel.fill, 3),
            "losses": sum(loss.rows or loss.batches for loss in self.channel.losses()),
        }

    def receive(self, seconds: float = _LOOK_SECONDS) -> bool:
        """Take what comes within `seconds`; tell whether anything did."""
        received = self.receiver.receive(seconds)
        now = time.monotonic()
        if now - self._told_status >= _STATUS_SECONDS:
            self._told_status = now
            with contextlib.suppress(OSError):
                write_status(self.channel.folder, self.status())
            limit = self._selection.max_bytes
            if limit is not None and not self._full and self.receiver.bytes >= limit:
                self._full = True
                write_control(self.channel.folder, record=False)
                self._append_loss(_FULL, 1)
        return received

    def receive_rest(self) -> None:
        """Take what is left; processes that still run are waited for as long as they write."""
        quiet_since = time.monotonic()
        while self.channel.producers or self.receiver.importing:
            if self.receive() or self.receiver.importing:
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since >= _GRACE_SECONDS:
                self._append_loss(_OUTLIVED, self.channel.producers)
                return

    def finish(self, ended: str, first: FirstProcess | None = None) -> None:
        """Complete the trace.

        Args:
            ended: how the program ended.
            first: what is known of the process that was started, if one was.
        """
        told = {*_OF_DEVICES, *(name for name, each in COLLECTORS.items() if each.outside)}
        if not self.receiver.processes and self._chosen.keys() - told:
            self.warning = _SILENT
            self._append_loss(_SILENT, 1)
        self._tell_of_devices()
        if first is not None:
            self._append("process", [self._process(first)])
            if first.exit_code < 0:
                self._tell_of_kill()
        ranks = self.receiver.finish({first.pid: first.exit_code} if first else {})
        try:
            self._complete_manifest(ended, ranks)
        except OSError as error:
            self.receiver.failure = self.receiver.failure or f"{self.path}: {error}"

    def _tell_of_devices(self) -> None:
        """Say it where kernels were asked for and there are none, or not all of them."""
        if not _OF_DEVICES & self._chosen.keys():
            return
        if self._silence.unexplained:
            self.warning = self.warning or NO_KERNEL
            self._append_loss(NO_KERNEL, 1)
        elif self._silence.reasons:
            self.warning = self._silence.reasons

    def _tell_of_kill(self) -> None:
        for name, level in self._chosen.items():
            loses = COLLECTORS[name].levels[level].loses
            if loses:
                self._append_loss(_KILLED.format(name, loses), 1)

    def _complete_manifest(self, ended: str, ranks: list[int]) -> None:
        if isinstance(self._trace, SharedTrace):
            self._trace.finish(ended=ended)
            return
        if len(ranks) == 1:
            _flatten(self.path, ranks[0])
        spent = {"write_seconds": self.receiver.spent_ns / 1e9}
        self._trace.finish(ended=ended, ranks=ranks, spent=spent)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.channel.close()

    def _info(self) -> dict[str, Any]:
        return {
            "command": self._command,
            "host": socket.gethostname(),
            "collectors": [
                {
                    "name": f"{name}:{level}",
                    "cost": COLLECTORS[name].levels[level].cost,
                    "a kill loses": COLLECTORS[name].levels[level].loses,
                    **self._selection.in_collector(name),
                    **self._selection.beside(name),
                }
                for name, level in self._chosen.items()
            ],
            "selection": self._selection.in_program(),
            "clock": {"name": "CLOCK_MONOTONIC", "epoch_offset_ns": self._offset},
        }

    def _process(self, process: FirstProcess) -> dict[str, Any]:
        return {
            "pid": process.pid,
            "parent_pid": os.getpid(),
            "host": socket.gethostname(),
            "command": self._command,
            "world_size": self._place.world_size,
            "started": process.started,
            "ended": process.ended,
            "stack_id": 0,
        }

    def _append_loss(self, reason: str, count: int) -> None:
        row = {"pid": os.getpid(), "collector": "pasta", "reason": reason, "count": count}
        self._append("loss", [{**row, "first_ts": self.clock()}])

    def _append(self, table: str, rows: list[dict[str, Any]]) -> None:
        rank = self._place.rank
        rows = [{"rank": rank, **row} for row in rows]
        self.receiver.append(rank, table, pa.Table.from_pylist(rows, schema=arrow_schema(table)))


@dataclass
class Recorded:
    """What came of a recording.

    Attributes:
        path: the trace.
        end: how the program ended.
        rows: rows by table.
        warning: what the program kept from being recorded; empty: nothing.
        failure: why part of what arrived could not be written; empty: all was.
        notes: what became of files of a vendor's tool that could not be imported.
    """

    path: Path
    end: End
    rows: dict[str, int] = field(default_factory=dict)
    warning: str = ""
    failure: str = ""
    notes: Sequence[str] = ()

    @property
    def exit_code(self) -> int:
        """The program's own code, as a shell tells it; 1 where it did well but pasta did not."""
        return self.end.shell_code or (1 if self.failure else 0)


Watcher = Callable[[Reception], None]


def record_command(
    command: Sequence[str],
    out: Path,
    chosen: Chosen,
    selection: Selection,
    watchers: Sequence[Watcher] = (),
) -> Recorded:
    """Run a command under collectors and keep what they see as a trace.

    Args:
        command: program and arguments.
        out: folder of the trace, absent or empty.
        chosen: collector -> level.
        selection: what of the run is recorded.
        watchers: called many times a second while the program runs.

    Raises:
        CollectError: there is no such program, no such tool to run it under, or no NVML.
        TraceError: `out` holds something.
    """
    check_command(command)
    wrapper = wrapper_of(chosen)
    if "nvml" in chosen:
        check_library()
    injected = cuda.environment() if "cuda" in chosen else {}
    if "cuda.memory" in chosen:
        injected = cuda_memory.environment()
    with (
        Reception(out, shlex.join(command), chosen, selection) as reception,
        contextlib.ExitStack() as stack,
    ):
        files = reception.files_of(wrapper) if wrapper else None
        samplings = [stack.enter_context(sampling) for sampling in reception.samplings()]
        run = files.around(command) if files else command
        started = reception.clock()
        with Program(run, {**_environment(reception), **injected}) as program:
            while (end := program.ended()) is None:
                for watcher in watchers:
                    watcher(reception)
                for sampling in samplings:
                    sampling.receive()
                reception.receive()
            first = FirstProcess(program.pid, started, reception.clock(), end.code)
            notes = [note for sampling in samplings for note in sampling.finish()]
            reception.receive_rest()
            notes += files.add() if files else []
            reception.finish(str(end), first)
        rows, failure = reception.receiver.rows, reception.receiver.failure
        return Recorded(reception.path, end, rows, reception.warning, failure, notes)


def _environment(reception: Reception) -> dict[str, str]:
    """Return the environment of a program that is recorded; docs/collecting.md describes it."""
    environment = dict(os.environ)
    given = environment.get("PYTHONPATH")
    others = given.split(os.pathsep) if given else []  # an empty part is the working directory
    environment["PYTHONPATH"] = os.pathsep.join([str(SITE), *(p for p in others if p != str(SITE))])
    environment[CHANNEL] = str(reception.channel.folder)
    environment[SETTINGS] = json.dumps(reception.settings())
    environment.setdefault("KINETO_LOG_LEVEL", "6")
    return environment


def epoch_offset() -> int:
    """Return what takes the monotonic clock to the time since the epoch, in ns."""
    before = time.monotonic_ns()
    epoch = time.time_ns()
    return epoch - (before + time.monotonic_ns()) // 2


def _open_trace(out: Path, info: Mapping[str, Any], where: Place) -> TraceWriter | SharedTrace:
    if where.world_size > 1:
        return SharedTrace(out, info, where, run_id(os.environ))
    return TraceWriter(out, info)


def _flatten(trace: Path, rank: int) -> None:
    """Move the tables of a run's only rank to the trace's root."""
    folder = trace / RANK_FOLDER.format(rank)
    if not folder.exists():
        return
    for table in folder.iterdir():
        table.rename(trace / table.name)
    shutil.rmtree(folder)
