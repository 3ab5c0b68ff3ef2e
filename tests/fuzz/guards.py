"""Holding a reader to its bounds: what it opens and runs, how long it takes, how much it holds."""

from __future__ import annotations

import os
import resource
import signal
import sys
import sysconfig
import threading
import zoneinfo
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pasta
from tests.conftest import ROOT

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = frozenset({
    *("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.symlink", "os.link", "os.chmod"),
    *("os.truncate", "os.chown", "os.utime", "shutil.rmtree", "sqlite3.connect"),
})  # fmt: skip
_NEVER = frozenset({
    *("os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.kill"),
    *("subprocess.Popen", "socket.connect", "socket.bind", "socket.getaddrinfo", "pty.spawn"),
    *("pickle.find_class", "sqlite3.enable_load_extension", "sqlite3.load_extension", "os.putenv"),
})  # fmt: skip
_READ_FROM = tuple(
    str(Path(folder).resolve())
    for folder in (
        ROOT,
        Path(pasta.__file__).parent,
        *sysconfig.get_paths().values(),
        sys.base_prefix,
        *zoneinfo.TZPATH,
        "/proc/self",
        "/sys",
    )
)


class Forbidden(BaseException):
    """A reader did what no reader may do."""


class TooSlow(BaseException):
    """A reader took longer than it may."""


class _Watch:
    """The audit hook, which Python never takes off again once it is set."""

    def __init__(self) -> None:
        self.folder = ""
        self.seen: list[str] = []
        self._others: frozenset[int | None] = frozenset()
        self._installed = False

    def install(self) -> None:
        if not self._installed:
            self._installed = True
            sys.addaudithook(self._hear)

    def begin(self, folder: Path) -> None:
        """Watch this thread and those that it starts; others were there before, for other tests."""
        self.install()
        own = threading.current_thread()
        self._others = frozenset(one.ident for one in threading.enumerate() if one is not own)
        self.folder, self.seen = str(folder.resolve()), []

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.folder or threading.get_ident() in self._others:
            return
        if event in _NEVER:
            self._forbid(f"{event} {arguments[:2]!r}")
        elif event == "open":
            self._check_open(arguments)
        elif event in _CHANGES and not self._is_allowed(arguments):
            self._forbid(f"{event} of {arguments[0]!r}")

    def _is_allowed(self, arguments: tuple[Any, ...]) -> bool:
        """Tell whether a path is within the folder, or below an open folder, which was checked."""
        in_open_folder = isinstance(arguments[-1], int) and arguments[-1] > 0
        return in_open_folder or _is_within(arguments[0], self.folder)

    def _check_open(self, arguments: tuple[Any, ...]) -> None:
        path, _, flags = arguments
        if isinstance(path, int) or _is_within(path, self.folder):
            return
        if isinstance(flags, int) and flags & _WRITES:
            self._forbid(f"opened {path!r} for writing")
        elif not os.path.realpath(os.fsdecode(path)).startswith(_READ_FROM):
            self._forbid(f"opened {path!r}, which is no part of the source")

    def _forbid(self, what: str) -> None:
        self.seen.append(what)
        raise Forbidden(what)


_watch = _Watch()


def _is_within(path: Any, folder: str) -> bool:
    if not isinstance(path, str | bytes | os.PathLike):
        return isinstance(path, int)
    text = os.fsdecode(path)
    if text == ":memory:" or (text.startswith(folder) and "/.." not in text):
        return True
    plain = text.removeprefix("file:").partition("?")[0]
    return os.path.realpath(plain).startswith(folder)


@contextmanager
def confined(folder: Path) -> Iterator[None]:
    """Raise `Forbidden` at anything opened outside `folder`, at processes and at connections.

    What is raised is raised again at the end, if it was swallowed in between. Python's own files
    may be read. Threads that run already are not the reader's. Native code is not seen; look at the
    folders afterwards.
    """
    _watch.begin(folder)
    try:
        yield
    finally:
        _watch.folder = ""
        if _watch.seen:
            raise Forbidden("; ".join(_watch.seen))


def _stop(signal_number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    raise TooSlow("took longer than it may")


@contextmanager
def limited_time(seconds: float) -> Iterator[None]:
    """Raise `TooSlow` where the block takes more than so many seconds of the processor.

    The handler of the signal stays, so that thousands of blocks a second set only the timer.
    """
    if signal.getsignal(signal.SIGPROF) is not _stop:
        signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def peak_bytes() -> int:
    """Return the most memory that this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def limit_memory(more: int) -> None:
    """Let this process have only so many bytes of addresses more than it has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    size = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
