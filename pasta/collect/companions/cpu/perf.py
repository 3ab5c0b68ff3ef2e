"""The levels `fp` and `dwarf` of the collector `cpu`: `perf record` beside the program."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from pasta.collect.companions.companion import Companion, Watch
from pasta.collect.companions.cpu import python_frames
from pasta.collect.companions.cpu.events import parse_events, perf_arguments
from pasta.collect.companions.cpu.rungs import DWARF, may_see_kernel, misses, perf_rung
from pasta.collect.companions.options import HostOptions
from pasta.collect.companions.program import start_bound
from pasta.collect.importers.perf_script.samples import Samples
from pasta.errors import CollectError

_STACK_BYTES = 32 << 10
_CALL_GRAPHS = {"fp": "fp", DWARF: f"dwarf,{_STACK_BYTES}"}
_PRINTED = "comm,pid,tid,time,period,event,ip,sym,symoff,dso"
_FAILED = "perf {} failed, and what it had not given yet is lost: {}"


class PerfSampling(Companion):
    """Samples the program's stacks by perf, and prints them once it has ended.

    What perf writes is a file without a name, which nothing can leave behind. It is enabled through
    its control pipe, whose answer says that it watches.
    """

    name = "cpu"

    def __init__(self, level: str, options: HostOptions) -> None:
        super().__init__(level, options)
        self._events = parse_events(options.events)
        self._kernel = may_see_kernel()
        self._perf = ""
        self._asked = False
        self._ends: list[int] = []

    def check(self) -> None:
        """Check that perf samples here.

        Raises:
            CollectError: it does not, with what to do about it.
        """
        rung = perf_rung()
        if rung.lacks:
            raise CollectError(f"--with cpu:{self.level}: {rung.lacks}; {rung.advice}")
        self._perf = rung.path

    def settings(self) -> Mapping[str, Any]:
        """Return frequency, events with their units, and what this level misses here."""
        return {
            "frequency": self.options.frequency,
            "kernel": self._kernel,
            "events": {event.text: event.unit for event in self._events},
            "misses": misses(self.level, kernel=self._kernel),
        }

    def environment(self) -> Mapping[str, str]:
        """Return what has CPython tell perf of its functions, where that is wanted."""
        return python_frames.environment(self.level) if self.options.python_frames else {}

    def command(self, watch: Watch) -> Sequence[str]:
        """Return the command of `perf record`."""
        self._watch = watch
        self.output: IO[bytes] = tempfile.TemporaryFile(dir=watch.folder)  # noqa: SIM115 - see close
        control, self._control = os.pipe()
        self._answer, answer = os.pipe()
        os.set_blocking(self._answer, False)
        self._ends = [control, self._control, self._answer, answer]
        self.passed = (control, answer)
        events, self._kinds = perf_arguments(
            self._events, self.options.frequency, kernel=self._kernel
        )
        return [
            *(self._perf, "record", "--no-buildid-cache", "-k", "CLOCK_MONOTONIC"),
            *("--call-graph", _CALL_GRAPHS[self.level], *events),
            *("-D", "-1", "--control", f"fd:{control},{answer}"),
            *("-p", str(watch.target), "-o", "-"),
        ]

    def ready(self) -> bool:
        """Tell whether perf has answered that its events are enabled."""
        if not self._asked:
            self._asked = True
            os.write(self._control, b"enable\n")
        with contextlib.suppress(BlockingIOError):
            return b"ack" in os.read(self._answer, 64)
        return False

    def finish(self) -> Sequence[str]:
        """Have perf print what it recorded, and take that."""
        if not os.fstat(self.output.fileno()).st_size:
            return []
        samples = Samples(
            self._watch.part, self._watch.losses, offset=self._watch.offset, kinds=self._kinds
        )
        told: list[str] = []
        with contextlib.ExitStack() as stack:
            recorded = self.output
            if self.options.python_frames and self.level == DWARF:
                recorded = stack.enter_context(tempfile.TemporaryFile(dir=self._watch.folder))
                inject = ["inject", "--jit", "-i", "-", "-o", "-"]
                with self._perf_on(inject, self.output, recorded, told):
                    pass
            for line in self._printed(recorded, told):
                samples.take(line)
        samples.finish(cut=False)
        if self.options.python_frames:
            python_frames.remove_files(samples.pids)
        return told

    def close(self) -> None:
        """Close the pipes and the file."""
        for end in self._ends:
            os.close(end)
        self._ends = []
        if self.output is not None:
            self.output.close()

    def _printed(self, recorded: IO[bytes], told: list[str]) -> Iterator[str]:
        """Yield the lines of `perf script`."""
        shown = ("--show-task-events", "--show-lost-events")
        arguments = ["script", "-i", "-", "--ns", "--no-inline", "-F", _PRINTED, *shown]
        with self._perf_on(arguments, recorded, subprocess.PIPE, told) as script:
            assert script.stdout is not None  # noqa: S101
            for line in script.stdout:
                yield line.decode("utf-8", "replace").rstrip("\n")

    @contextlib.contextmanager
    def _perf_on(
        self, arguments: list[str], recorded: IO[bytes], output: IO[bytes] | int, told: list[str]
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run a command of perf on a recording; where it fails, count that and tell of it."""
        recorded.seek(0)
        with tempfile.TemporaryFile(dir=self._watch.folder) as complaints:
            command = [self._perf, *arguments]
            with start_bound(command, stdin=recorded, stdout=output, stderr=complaints) as perf:
                yield perf
            if perf.returncode:
                complaints.seek(0)
                why = " ".join(complaints.read(1000).decode("utf-8", "replace").split())
                self._watch.losses.fault(_FAILED.format(arguments[0], why))
                told.append(f"perf {arguments[0]} failed: {why}")
