"""Recording a program: it runs once under collectors, and what they see becomes a trace."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import pyarrow as pa

from pasta.collect.channel import Channel
from pasta.collect.collectors import COLLECTORS, Chosen
from pasta.collect.companions.attached import AttachedCompanions
from pasta.collect.companions.companion import Companion
from pasta.collect.companions.cpu import own_samples
from pasta.collect.companions.cpu.rungs import PYTHON
from pasta.collect.companions.registry import companions_of, with_levels_chosen
from pasta.collect.control import write_control, write_status
from pasta.collect.counters import Focus
from pasta.collect.device_silence import NO_KERNEL, DeviceSilence
from pasta.collect.environment import environment_of, injected
from pasta.collect.launch import End, Program, check_command, command_text
from pasta.collect.nvml.sampling import Sampling, check_library
from pasta.collect.receive import Receiver
from pasta.collect.rescue import rescuer
from pasta.collect.selection import Selection
from pasta.collect.serial import VARIABLES
from pasta.collect.shared_trace import SharedTrace
from pasta.collect.target.ranks import Place, place, run_id
from pasta.collect.wire import WIRE_TABLES
from pasta.collect.wrapped_files import WrappedFiles
from pasta.collect.wrappers import Wrapper, wrapper_of
from pasta.errors import CollectError
from pasta.schema import arrow_schema
from pasta.trace import RANK_FOLDER
from pasta.trace_writer import TraceWriter, flatten

RING = {"slots": 64, "slot_bytes": 1 << 17}
ACCESS_RING = {"slots": 16, "slot_bytes": 1 << 20}
"""Of recordings of raw accesses: what receiving them takes is by batch, whatever its size."""
_LOOK_SECONDS = 0.05
_GRACE_SECONDS = 1.0
_STATUS_SECONDS = 1.0
_OF_DEVICES = frozenset({"cuda", "cuda.memory"})
"""Collectors of kernels that CUDA loads into the program, whether it is Python or not."""
_OUTLIVED = "processes that outlive the command: recorded up to its end"
_SILENT = (
    "no process of the command imported torch or pasta, or marked regions by pasta.h, or did so under"
    " python -I, -E or -S: nothing was recorded in it"
)
_NOTHING = "nothing"
_KILLED = "a signal ended the program, which can lose of {}: {}"
_FULL = "the trace has reached its byte limit: recording was switched off"


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
        companions: what watches the program from beside it.

    Attributes:
        path: the trace, absolute.
        channel: where the program writes.
        receiver: what turns it into tables.
        warning: what kept the program from being recorded; empty: nothing.

    Raises:
        TraceError: `out` holds something else.
        CollectError: shared memory has no room.
    """

    def __init__(
        self,
        out: Path,
        command: str,
        chosen: Chosen,
        selection: Selection,
        companions: Sequence[Companion] = (),
    ) -> None:
        self.path = out.absolute()
        self._companions = companions
        self._command = command
        self._chosen = chosen
        self._selection = selection
        self._place = place(os.environ)
        self._own = self.path  # nobody else's, where several launchers write one trace
        if self._place.world_size > 1:
            self._own /= RANK_FOLDER.format(self._place.rank)
        self._offset = epoch_offset()
        self._began = self.clock()
        ring = ACCESS_RING if chosen.get("cuda.memory") == "access" else RING
        self.channel = Channel.create(
            "run", **ring, tables=WIRE_TABLES, if_killed=rescuer(self.path, self._place)
        )
        try:
            self._trace = _open_trace(self.path, self._info(), self._place)
        except BaseException:
            self.channel.close()
            raise
        self.receiver = Receiver(self.channel, self.path, self.clock, selection.match)
        self._silence = DeviceSilence()
        self.receiver.listeners.append(self._silence)
        self._sampled = own_samples.SampledTime()
        self.receiver.listeners.append(self._sampled)
        self._told_status = 0.0
        self._full = False
        self.warning = ""

    @property
    def _samples_itself(self) -> bool:
        return self._chosen.get("cpu") == PYTHON

    def clock(self, monotonic_ns: int | None = None) -> int:
        """Return the time in ns since the epoch, on the trace's clock: now, or of another clock's."""
        return (time.monotonic_ns() if monotonic_ns is None else monotonic_ns) + self._offset

    def files_of(self, wrapper: Wrapper) -> WrappedFiles:
        """Return the files that a vendor's tool is to leave in this trace."""
        rank = self._place.rank
        chosen = self._selection
        level = self._chosen[wrapper.name]
        focus = Focus(level, chosen.counters, chosen.ranges, chosen.match)
        folder = self._own / wrapper.name
        return WrappedFiles(wrapper, focus, folder, self.receiver, rank=rank, pid=os.getpid())

    def samplings(self) -> list[Sampling]:
        """Return what samples the machine beside the program."""
        if "nvml" not in self._chosen:
            return []
        period = self._selection.period_seconds
        return [Sampling(self.receiver.append, self._place.rank, self._offset, period)]

    def attached(self) -> AttachedCompanions:
        """Return what watches the program from beside it, not started yet."""
        rank, offset = self._place.rank, self._offset
        return AttachedCompanions(
            self._companions, self.receiver, self._own, rank=rank, offset=offset
        )

    @contextlib.contextmanager
    def discarded_on_failure(self) -> Iterator[None]:
        """Remove the trace where the block fails, as the program has not begun."""
        try:
            yield
        except CollectError:
            if not isinstance(self._trace, SharedTrace):
                shutil.rmtree(self.path)
            raise

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

    def finish(
        self, ended: str, first: FirstProcess | None = None, processor_seconds: float = 0.0
    ) -> None:
        """Complete the trace.

        Args:
            ended: how the program ended.
            first: what is known of the process that was started, if one was.
            processor_seconds: what the system counted for it, and for the children that it waited for.
        """
        told = {*_OF_DEVICES, *(name for name, each in COLLECTORS.items() if each.outside)}
        if not self.receiver.processes and self._chosen.keys() - told:
            self.warning = _SILENT
            self._append_loss(_SILENT, 1)
        elif not self.receiver.processes and self._samples_itself:
            self.warning = own_samples.SILENT
            self._append_loss(own_samples.SILENT, 1)
        elif self._samples_itself and not self._selection.host.gil:
            self._tell_of_unsampled(processor_seconds)
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

    def told_of_forbidden(self, forbidden: Mapping[str, str]) -> list[str]:
        """Count collectors that were left out as losses; return a line for each."""
        for name, reason in forbidden.items():
            self._append_loss(reason, 1, name)
        return [f"recorded without what is not allowed here: {each}" for each in forbidden.values()]

    def _tell_of_unsampled(self, processor_seconds: float) -> None:
        if lacks := self._sampled.lacks(processor_seconds):
            self._append_loss(lacks, 1)

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
            if loses and not loses.startswith(_NOTHING):
                self._append_loss(_KILLED.format(name, loses), 1)

    def _complete_manifest(self, ended: str, ranks: list[int]) -> None:
        failure = self.receiver.failure
        told = {"ended": ended, **({"failure": failure} if failure else {})}
        if isinstance(self._trace, SharedTrace):
            self._trace.finish(**told)
            return
        if len(ranks) == 1:
            flatten(self.path, ranks[0])
        spent = {"write_seconds": self.receiver.spent_ns / 1e9}
        self._trace.finish(**told, ranks=ranks, spent=spent)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.receiver.end()
        self.channel.close()

    def _info(self) -> dict[str, Any]:
        beside = {companion.name: companion.settings() for companion in self._companions}
        if self._samples_itself:
            beside["cpu"] = own_samples.settings(self._selection.host)
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
                    **beside.get(name, {}),
                }
                for name, level in self._chosen.items()
            ],
            "selection": self._selection.in_program(),
            **({"serialized": VARIABLES} if self._selection.serialize else {}),
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

    def _append_loss(self, reason: str, count: int, collector: str = "pasta") -> None:
        row = {"pid": os.getpid(), "collector": collector, "reason": reason, "count": count}
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
        interrupted: the signal that asked pasta, and with it the program, to end early; 0: none.
    """

    path: Path
    end: End
    rows: dict[str, int] = field(default_factory=dict)
    warning: str = ""
    failure: str = ""
    notes: Sequence[str] = ()
    interrupted: int = 0

    @property
    def exit_code(self) -> int:
        """The program's own code, as a shell tells it; 1 where it did well but pasta did not."""
        return self.end.shell_code or (1 if self.failure else 0)


Watcher = Callable[[Reception], None]


def check_recordable(command: Sequence[str], chosen: Chosen) -> None:
    """Check that a program, and what is to record it, are there.

    Raises:
        CollectError: there is no such program, no such tool to run it under, or no NVML.
    """
    check_command(command)
    wrapper_of(chosen)
    if "nvml" in chosen:
        check_library()


def record_command(
    command: Sequence[str],
    out: Path,
    chosen: Chosen,
    selection: Selection,
    watchers: Sequence[Watcher] = (),
    *,
    hold: Callable[[int], None] | None = None,
) -> Recorded:
    """Run a command under collectors and keep what they see as a trace.

    Args:
        command: program and arguments.
        out: folder of the trace, absent or empty.
        chosen: collector -> level.
        selection: what of the run is recorded.
        watchers: called many times a second while the program runs.
        hold: called with the process id of the program, which waits, when all that records it is
            ready; the program begins when it returns.

    Raises:
        CollectError: there is no such program, no such tool to run it under, or no NVML; what `hold` raises.
        TraceError: `out` holds something.
    """
    check_recordable(command, chosen)
    chosen = with_levels_chosen(chosen, command, selection.host)
    companions, forbidden = companions_of(chosen, selection.host)
    chosen = {name: level for name, level in chosen.items() if name not in forbidden}
    gated = bool(companions) or hold is not None
    wrapper = wrapper_of(chosen)
    native = injected(chosen, selection)
    with (
        Reception(out, command_text(command), chosen, selection, companions) as reception,
        contextlib.ExitStack() as stack,
    ):
        files = reception.files_of(wrapper) if wrapper else None
        samplings = [stack.enter_context(sampling) for sampling in reception.samplings()]
        attached = stack.enter_context(reception.attached())
        run = files.around(command) if files else command
        environment = {
            **environment_of(reception.channel.folder, reception.settings()),
            **native,
            **attached.environment(),
        }
        started = reception.clock()
        with Program(run, environment, gated=gated) as program:
            if gated:
                with reception.discarded_on_failure():
                    attached.start(program.pid, program.ended)
                    if hold is not None:
                        hold(program.pid)
                    started = reception.clock()
                    program.release()
            end = _received(program, reception, watchers, samplings)
            ended = reception.clock(program.ended_ns)
            first = FirstProcess(program.pid, started, ended, end.code)
            notes = reception.told_of_forbidden(forbidden)
            notes += [note for sampling in samplings for note in sampling.finish()]
            reception.receive_rest()
            notes += attached.finish(program.processor_seconds)
            notes += files.add() if files else []
            reception.finish(str(end), first, program.processor_seconds)
        rows, failure = reception.receiver.rows, reception.receiver.failure
        interrupted = program.interrupted
        return Recorded(reception.path, end, rows, reception.warning, failure, notes, interrupted)


def _received(
    program: Program,
    reception: Reception,
    watchers: Sequence[Watcher],
    samplings: Sequence[Sampling],
) -> End:
    """Receive what is recorded until the program ends, and return how it did."""
    while (end := program.ended()) is None:
        for watcher in watchers:
            watcher(reception)
        for sampling in samplings:
            sampling.receive()
        reception.receive()
    return end


def epoch_offset() -> int:
    """Return what takes the monotonic clock to the time since the epoch, in ns."""
    before = time.monotonic_ns()
    epoch = time.time_ns()
    return epoch - (before + time.monotonic_ns()) // 2


def _open_trace(out: Path, info: Mapping[str, Any], where: Place) -> TraceWriter | SharedTrace:
    if where.world_size > 1:
        return SharedTrace(out, info, where, run_id(os.environ))
    return TraceWriter(out, info)
