"""The level `pyspy` of the collector `cpu`: py-spy beside the program."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from pasta.collect import gate
from pasta.collect.companions.companion import Companion, Watch
from pasta.collect.companions.cpu import pyspy_watch
from pasta.collect.companions.cpu.pyspy_stacks import PySpyStacks
from pasta.collect.companions.cpu.rungs import PYSPY, misses, pyspy_rung
from pasta.collect.companions.options import HostOptions
from pasta.errors import CollectError

_WAITED = (
    "py-spy's samples stand for {:.1f} s on the CPU, of which the system counted {:.1f} s: threads that"
    " waited for a CPU are in them; shares hold, sums do not"
)
_TOO_MUCH, _TOO_MUCH_SECONDS = 0.1, 0.2
_ITS_OWN = "py-spy> "
_ABSENT = "no Python process was found: nothing was sampled"
_WROTE = re.compile(r"Samples: (\d+) Errors: (\d+)")
_BEHIND = re.compile(r"([\d.]+)s behind in sampling")
_ERRORS = "stacks that py-spy could not read: left out"
_LATE = "times that py-spy said it was behind: it samples less often then, and counts too little"


class PySpySampling(Companion):
    """Samples Python's stacks by py-spy, of all Pythons under the program.

    Raises:
        CollectError: events are asked for, which py-spy cannot count.
    """

    name = "cpu"

    def __init__(self, level: str, options: HostOptions) -> None:
        super().__init__(level, options)
        if options.events:
            raise CollectError("--event goes with perf: --with cpu:fp or cpu:dwarf")
        self._pyspy = ""
        self._ready = False
        self._told: list[str] = []

    def check(self) -> None:
        """Check that py-spy works here.

        Raises:
            CollectError: it does not, with what to do about it.
        """
        rung = pyspy_rung()
        if rung.lacks:
            raise CollectError(f"--with cpu:{PYSPY}: {rung.lacks}; {rung.advice}")
        self._pyspy = rung.path

    def settings(self) -> Mapping[str, Any]:
        """Return the frequency, which stacks are kept, and what this level misses."""
        return {
            "frequency": self.options.frequency,
            "native": self.options.native,
            "gil": self.options.gil,
            "idle": self.options.idle,
            "misses": misses(PYSPY, kernel=False),
        }

    def command(self, watch: Watch) -> Sequence[str]:
        """Return the command that runs `py-spy record`, which prints its stacks when it ends."""
        self._watch = watch
        frequency, idle = self.options.frequency, self.options.idle
        self._stacks = PySpyStacks(watch.part, watch.losses, frequency, idle=idle)
        wanted = {
            "--native": self.options.native,
            "--gil": self.options.gil,
            "--idle": self.options.idle,
        }
        return [
            *(sys.executable, "-I", "-S", pyspy_watch.__file__),
            *(str(watch.target), gate.__file__),
            *(self._pyspy, "record", "--pid", str(watch.target), "--subprocesses", "--threads"),
            *("--full-filenames", "--rate", str(self.options.frequency)),
            *("--format", "raw", "--output", "/dev/stdout"),
            *(option for option, is_wanted in wanted.items() if is_wanted),
        ]

    def ready(self) -> bool:
        """Tell whether it waits for the program to begin."""
        return self._ready

    def take(self, line: str) -> None:
        """Take a stack and its count, or what py-spy says of itself, which it prints there too."""
        if line.startswith(_ITS_OWN):
            self.complain(line)
        else:
            self._stacks.take(line)

    def complain(self, line: str) -> None:
        """Take what py-spy says of itself."""
        losses = self._watch.losses
        if line == pyspy_watch.READY:
            self._ready = True
        elif line == pyspy_watch.NO_PYTHON:
            losses.fault(_ABSENT)
            self._told.append(_ABSENT)
        elif found := _WROTE.search(line):
            losses.fault(_ERRORS, int(found[2]))
        elif _BEHIND.search(line):
            losses.fault(_LATE)

    def finish(self) -> Sequence[str]:
        """Append the stacks, and tell of sums that cannot be."""
        self._stacks.finish()
        sampled, counted = self._stacks.sampled_seconds, self.processor_seconds
        if not self.options.idle and sampled > counted * (1 + _TOO_MUCH) + _TOO_MUCH_SECONDS:
            self._watch.losses.fault(_WAITED.format(sampled, counted))
        return self._told
