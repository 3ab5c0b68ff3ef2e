"""All companions of one program: started before it begins, ended after it, their rows in its trace."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from pasta.collect.companions.companion import Companion, Watch
from pasta.collect.companions.running import Running
from pasta.collect.losses import Losses
from pasta.collect.part_rows import append_part
from pasta.collect.receive import Receiver
from pasta.trace_writer import PartWriter


class AttachedCompanions:
    """The companions of one program; a context manager that leaves none behind.

    Rows wait in a folder of the trace until the program has ended: only then it is known of which
    rank each of its processes was.

    Args:
        companions: the companions.
        receiver: what takes their rows in the end.
        folder: the trace.
        rank: rank of the launcher, and of processes that no other collector knows.
        offset: ns from CLOCK_MONOTONIC to the trace's clock.
    """

    def __init__(
        self,
        companions: Sequence[Companion],
        receiver: Receiver,
        folder: Path,
        *,
        rank: int,
        offset: int,
    ) -> None:
        self._companions = companions
        self._receiver = receiver
        self._folder = folder
        self._rank = rank
        self._offset = offset
        self._stack = contextlib.ExitStack()
        self._attached: list[tuple[Running, Watch]] = []

    def environment(self) -> dict[str, str]:
        """Return the variables that the program is to have for its companions."""
        variables: dict[str, str] = {}
        for companion in self._companions:
            variables.update(companion.environment())
        return variables

    def start(self, target: int, ended: Callable[[], object]) -> None:
        """Start the companions of a program that waits to begin; return when all of them watch it.

        Args:
            target: its process id.
            ended: what is no longer `None` when it has ended while it waited.

        Raises:
            CollectError: a companion could not be started, or ended.
        """
        for companion in self._companions:
            scratch = tempfile.TemporaryDirectory(prefix=f".{companion.name}-", dir=self._folder)
            folder = Path(self._stack.enter_context(scratch))
            part = PartWriter(folder / "rows")
            watch = Watch(target, self._offset, part, Losses(companion.name), folder)
            self._stack.callback(companion.close)
            running = Running(companion, watch)
            self._stack.callback(running.close)
            self._attached.append((running, watch))
        for running, _ in self._attached:
            running.await_ready(lambda: ended() is not None)

    def finish(self, processor_seconds: float) -> list[str]:
        """End the companions and add what they saw to the trace.

        Args:
            processor_seconds: processor time of the program and the children that it waited for.

        Returns:
            A line for each thing that the user should know.
        """
        for running, _ in self._attached:
            running.companion.processor_seconds = processor_seconds
            running.stop()
        notes: list[str] = []
        for running, watch in self._attached:
            with self._receiver.failures_kept():
                notes += running.drain()
                watch.part.finish()
                append_part(watch.part, self._receiver, self._rank)
            losses = watch.losses.rows(self._rank, os.getpid())
            self._receiver.append(self._rank, "loss", losses)
        return notes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._stack.close()
