"""What a companion is: a program beside the target, and the code that makes tables of what it says.

A new companion is a module here with a subclass of `Companion`, its line in `registry.py` and its entry
in `collectors.py`. `attached.py` starts it, waits until it is ready, feeds it lines and ends it.
"""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar

from pasta.collect.companions.options import HostOptions
from pasta.collect.losses import Losses
from pasta.trace_writer import PartWriter


@dataclass(frozen=True)
class Watch:
    """What a companion works with while one program is recorded.

    Attributes:
        target: process id of the program, which waits to begin.
        offset: ns from CLOCK_MONOTONIC to the trace's clock; adding it is all that a time needs.
        part: where rows go, on the trace's clock, without their rank; for one thread at a time.
        losses: where what was lost is counted.
        folder: for files that are not to stay; removed when the recording ends.
    """

    target: int
    offset: int
    part: PartWriter
    losses: Losses
    folder: Path


class Companion(ABC):
    """A program that watches a target and all its children, and what becomes of its output.

    The calls come in this order: `check`, `settings` and `environment` before anything is started;
    `command` when the target waits to begin; `ready` until it is true, and only then the target
    begins; `take` and `complain`, both on one thread of the companion's, as lines come; `finish` when
    the target and then the companion have ended, whatever ended them. An exception of `take` or
    `complain` is counted as a loss.

    Args:
        level: the level of its collector.
        options: what the user chose beside.

    Attributes:
        name: of its collector.
        stop_signal: what asks it to end properly.
        ready_seconds: how long it may take to be ready.
        end_seconds: how long it may take to end properly; it is killed then, which is counted.
        output: a file for its standard output; `None`: `take` is given its lines.
        passed: file descriptors that it inherits.
        pid: its process; 0: it was not started.
        processor_seconds: what the system counted for the target and the children that it waited for;
            known when the target has ended.
    """

    name: ClassVar[str]
    stop_signal: ClassVar[int] = signal.SIGINT
    ready_seconds: ClassVar[float] = 30.0
    end_seconds: ClassVar[float] = 60.0
    output: IO[bytes] | None = None
    passed: Sequence[int] = ()
    pid: int = 0
    processor_seconds: float = 0.0

    def __init__(self, level: str, options: HostOptions) -> None:
        self.level = level
        self.options = options

    def check(self) -> None:  # noqa: B027 - may stay empty
        """Check what can be checked before anything is started.

        Raises:
            CollectError: it cannot work here, with what to do about it.
        """

    def settings(self) -> Mapping[str, Any]:
        """Return what the trace keeps of how it was set, and of what this level misses."""
        return {}

    def environment(self) -> Mapping[str, str]:
        """Return variables that the target is to have."""
        return {}

    @abstractmethod
    def command(self, watch: Watch) -> Sequence[str]:
        """Return the companion's program and arguments; `watch` is what it works with from now on."""

    @abstractmethod
    def ready(self) -> bool:
        """Tell whether it watches; asked every few milliseconds."""

    def take(self, line: str) -> None:  # noqa: B027 - may stay empty
        """Take a line of its standard output, without its end."""

    def complain(self, line: str) -> None:  # noqa: B027 - may stay empty
        """Take a line of its standard error, without its end."""

    def settled(self) -> bool:
        """Tell whether all that the target did was taken, now that it has ended.

        The companion is asked to end when it was, or after some seconds in any case.
        """
        return True

    def finish(self) -> Sequence[str]:
        """Append what is left, as the companion has ended; return lines that the user should see."""
        return ()

    def close(self) -> None:  # noqa: B027 - may stay empty
        """Give back what was opened; called in any case."""
