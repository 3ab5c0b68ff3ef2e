"""Recording in the process of the tests, without a process that attends to it: quick to begin."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pasta.collect.recording import Reception
from pasta.collect.selection import Selection
from pasta.collect.target import session as sessions
from pasta.collect.target.torch.collector import TorchCollector
from pasta.trace import Trace


class Recording:
    """One recording; `session` while it goes on, `trace()` once it is over."""

    def __init__(self, name: str, path: Path, level: str, **selection: Any) -> None:
        self.path = path
        self.reception = Reception(path, "test", {"torch": level}, Selection(**selection))
        settings = self.reception.settings()
        self.session = sessions.Session(str(self.reception.channel.folder), settings, name)
        sessions.install(self.session)
        self.session.add_collector(TorchCollector(self.session, settings["torch"]))

    def trace(self) -> Trace:
        return Trace.open(self.path)

    def finish(self) -> None:
        self.session.close()
        sessions.install(None)
        with self.reception:
            self.reception.receive_rest()
            self.reception.finish("exit 0")


@contextlib.contextmanager
def record(name: str, path: Path, *, level: str = "touch", **selection: Any) -> Iterator[Recording]:
    """Record the block as `pasta.collect.torch.record` does."""
    recording = Recording(name, path, level, **selection)
    try:
        yield recording
    finally:
        recording.finish()
