"""One companion that runs: its process, and the thread that reads what it says."""

from __future__ import annotations

import os
import selectors
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import IO

from pasta.collect.companions.companion import Companion, Watch
from pasta.collect.companions.program import start_bound
from pasta.errors import CollectError

_READ_BYTES = 1 << 18
_LINE_MAX = 1 << 20
_POLL_SECONDS = 0.003
_SETTLE_SECONDS = 10.0
_KEPT_COMPLAINTS = 20
_KILLED = "the companion did not end within {:.0f} s and was killed: what it still held"
_FAILED = "lines of the companion that could not be understood: left out ({})"


class Running:
    """A companion's process.

    It is killed by the system should this process be.

    Args:
        companion: what it is.
        watch: what it works with.

    Raises:
        CollectError: it cannot be started.
    """

    def __init__(self, companion: Companion, watch: Watch) -> None:
        self.companion = companion
        self._watch = watch
        self._complaints: deque[str] = deque(maxlen=_KEPT_COMPLAINTS)
        command = companion.command(watch)
        self._program = Path(command[0]).name
        self._process = start_bound(
            command,
            stdin=subprocess.DEVNULL,
            stdout=companion.output or subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=tuple(companion.passed),
        )
        companion.pid = self._process.pid
        self._reader = threading.Thread(
            target=self._read, name=f"pasta {companion.name}", daemon=True
        )
        self._reader.start()

    def await_ready(self, abandoned: Callable[[], bool]) -> None:
        """Return when the companion watches, or nobody waits for it any more.

        Args:
            abandoned: whether the target is gone.

        Raises:
            CollectError: it ended, or was not ready in time.
        """
        until = time.monotonic() + self.companion.ready_seconds
        while not self.companion.ready():
            if abandoned():
                return
            if self._process.poll() is not None:
                self._reader.join()
                if self.companion.ready():
                    return
                raise CollectError(f"--with {self.companion.name}: {self._why()}")
            if time.monotonic() > until:
                raise CollectError(
                    f"--with {self.companion.name}: {self._program} was not ready within"
                    f" {self.companion.ready_seconds:.0f} s: {self._why()}"
                )
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """Ask the companion to end, when it has told of all that the target did."""
        until = time.monotonic() + _SETTLE_SECONDS
        while self._process.poll() is None and time.monotonic() < until:
            if self.companion.settled():
                break
            time.sleep(_POLL_SECONDS)
        if self._process.poll() is None:
            self._process.send_signal(self.companion.stop_signal)

    def drain(self) -> list[str]:
        """Return when the companion has ended and all that it said was taken.

        Returns:
            A line for each thing that the user should know.
        """
        self._reader.join(self.companion.end_seconds)
        if self._reader.is_alive():
            self._watch.losses.fault(_KILLED.format(self.companion.end_seconds))
            self._process.kill()
            self._reader.join()
        self._process.wait()
        notes = [f"{self.companion.name}: {note}" for note in self.companion.finish()]
        if self._process.returncode > 0:
            self._watch.losses.fault(f"the companion failed: {self._why()}")
            notes.append(f"{self.companion.name}: {self._program} failed: {self._why()}")
        return notes

    def close(self) -> None:
        """End the companion at once, if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _why(self) -> str:
        told = " ".join(line.strip() for line in self._complaints if line.strip())
        return told or f"{self._program} ended with {self._process.returncode}"

    def _read(self) -> None:
        """Hand over lines of both streams until both have ended."""
        with selectors.DefaultSelector() as selector:
            for stream, take in (
                (self._process.stdout, self.companion.take),
                (self._process.stderr, self._complain),
            ):
                if stream is not None:
                    selector.register(stream, selectors.EVENT_READ, _Lines(stream, take))
            while selector.get_map():
                for key, _ in selector.select():
                    if not self._hand_over(key.data):
                        selector.unregister(key.fileobj)

    def _hand_over(self, lines: _Lines) -> bool:
        """Hand over what has come; tell whether more may come."""
        for line in lines.read():
            try:
                lines.take(line)
            except Exception as error:  # noqa: BLE001 - whatever it is, the recording goes on
                self._watch.losses.fault(_FAILED.format(f"{type(error).__name__}: {error}"))
        return not lines.ended

    def _complain(self, line: str) -> None:
        self._complaints.append(line)
        self.companion.complain(line)


class _Lines:
    """The lines of one stream; one without an end is cut where it gets too long."""

    def __init__(self, stream: IO[bytes], take: Callable[[str], None]) -> None:
        self.take = take
        self.ended = False
        self._stream = stream
        self._rest = b""

    def read(self) -> list[str]:
        """Return the lines that are complete with what can be read now."""
        read = os.read(self._stream.fileno(), _READ_BYTES)
        self.ended = not read
        *lines, self._rest = (self._rest + read).split(b"\n")
        if self._rest and (self.ended or len(self._rest) > _LINE_MAX):
            lines.append(self._rest)
            self._rest = b""
        return [line.decode("utf-8", "replace") for line in lines]
