"""Reading the second half of a large file in a process of its own, on another core.

The halves meet at an event boundary that both find for themselves: the first at or after a given
byte. If they do not agree, or the helper fails, its rows are dropped and the first process reads
on alone, so that the result never depends on how the work was split.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, cast

import msgspec

import pasta
from pasta.collect.importers.kineto.events import Begin, End
from pasta.collect.losses import Loss
from pasta.collect.sources import Source
from pasta.errors import InputError

SECOND_LAUNCH = 1 << 40
"""Kernels of the second half are numbered from here until the first half's number is known."""

BLANK = b" \t\r\n\xef\xbb\xbf"
_SPLIT_BYTES = 64 << 20
_HEAD_START = 12 << 20  # what is read while the helper starts
_INFLATED_TWICE = 16  # the helper of a compressed file must inflate the first half too
_HELPER = "pasta.collect.importers.kineto.helper"


class Task(msgspec.Struct):
    """What the helper is to do: read `file` from about `byte` on into `folder`.

    `bare` tells whether the file is a bare array of events.
    """

    file: str
    byte: int
    folder: str
    bare: bool
    strict: bool
    block_bytes: int


class Half(msgspec.Struct):
    """What the helper found; times are relative to the file's time base, as in its rows."""

    seam: int | None = None
    error: str = ""
    kept: int = 0
    cut: str = ""
    launches: int = 0
    host_threads: list[tuple[Any, Any, int]] = []
    devices: list[int] = []
    device_communicators: list[str] = []
    first: int | None = None
    last: int | None = None
    window: tuple[int | None, int | None] = (None, None)
    names: list[tuple[str, str, str, str]] = []
    metadata: dict[str, Any] = {}
    pairs: list[Begin | End] = []
    losses: list[Loss] = []
    rows: dict[str, int] = {}


class SecondHalf:
    """A helper at work; a context manager that ends it whatever happens.

    Args:
        task: what it is to do.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        packages = str(Path(pasta.__file__).parent.parent)
        path = os.pathsep.join(filter(None, (packages, os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", _HELPER, msgspec.json.encode(task).decode()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": path, "ARROW_DEFAULT_MEMORY_POOL": "system"},
        )
        self._output = cast("IO[bytes]", self._process.stdout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._output.close()
        shutil.rmtree(self.task.folder, ignore_errors=True)

    def result(self, seam: int) -> Half | None:
        """Wait for the helper; return what it found, `None` where it did not start at `seam`.

        Raises:
            InputError: in strict mode, what is wrong with the second half.
        """
        output = self._output.read()
        try:
            half = msgspec.json.decode(output, type=Half)
        except msgspec.DecodeError:
            return None
        if half.seam != seam:
            return None
        if half.error:
            raise InputError(half.error)
        return half


def start_helper(source: Source, folder: Path, block_bytes: int, *, strict: bool) -> Any:
    """Start a helper for the second half of `source` if it is large and a core is free."""
    cores = len(os.sched_getaffinity(0))
    if source.file is None or source.plain_size < _SPLIT_BYTES or cores < 2:
        return contextlib.nullcontext()
    folder.mkdir(parents=True)
    file = str(source.file.absolute())
    bare = source.head.lstrip(BLANK).startswith(b"[")
    byte = source.plain_size // 2 + _HEAD_START
    if source.plain_size > source.size:
        byte += source.plain_size // _INFLATED_TWICE
    return SecondHalf(Task(file, byte, str(folder), bare, strict, block_bytes))
