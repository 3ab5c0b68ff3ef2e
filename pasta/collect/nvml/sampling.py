"""The recording's side of the collector `nvml`: it starts the helper and takes what it says."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from pasta.collect.losses import Losses
from pasta.collect.nvml.library import NAME, READINGS
from pasta.errors import CollectError
from pasta.schema import arrow_schema

PERIOD_SECONDS = 0.1
_PACKAGES = Path(__file__).parents[3]
_READY_SECONDS = 3.0
_END_SECONDS = 2.0
_READ_BYTES = 1 << 16
_ENDED = "the helper that samples failed, or had to be killed"
_FOREIGN = "lines that something else wrote to the helper's output: left out"
_UNITS = {name: reading.unit for reading in READINGS.values() for name in reading.names}

Append = Callable[[int, str, pa.Table], None]
"""Takes rows of a table of a rank."""


def check_library(path: str = NAME) -> None:
    """Check that NVML is installed.

    Raises:
        CollectError: it is not.
    """
    try:
        ctypes.CDLL(path)
    except OSError as error:
        raise CollectError(
            f"--with nvml: {path} cannot be loaded ({error}); it comes with NVIDIA's driver"
        ) from error


class Sampling:
    """The samples of a recording; a context manager that leaves no helper behind.

    Rows carry the launcher's process id: the counters are of the cards, not of a program. Their
    ordinals are those of CUDA in the launcher's environment, and rows of `device` tell the cards.

    Args:
        append: where rows go.
        rank: rank of the launcher.
        offset: ns from the monotonic clock to the trace's.
        period_seconds: time from one sample to the next.
        library: NVML's name or path.
    """

    def __init__(
        self,
        append: Append,
        rank: int,
        offset: int,
        period_seconds: float = PERIOD_SECONDS,
        library: str = NAME,
    ) -> None:
        self._notes: list[str] = []
        self._append = append
        self._rank = rank
        self._common = {"rank": rank, "pid": os.getpid()}
        self._settings = {
            "parent": os.getpid(),
            "offset": offset,
            "period": max(1, round(period_seconds * 1e9)),
            "library": library,
        }
        self._losses = Losses("nvml")
        self._helper: subprocess.Popen[bytes] | None = None
        self._rest = b""
        self._began = False

    def __enter__(self) -> Self:
        """Start the helper, and wait a little for its first sample."""
        self._helper = subprocess.Popen(  # noqa: S603 - our own module; values are its argument
            [sys.executable, "-m", "pasta.collect.nvml.helper", json.dumps(self._settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=_PACKAGES,
            start_new_session=True,  # a terminal's keys are for the program
        )
        until = time.monotonic() + _READY_SECONDS
        while not self._began and self._receive(until - time.monotonic()):
            pass
        return self

    def receive(self) -> None:
        """Take what the helper has said, without waiting."""
        self._receive(0)

    def finish(self) -> list[str]:
        """Take the last sample, end the helper, and count what was lost.

        Returns:
            A line for each thing that the user should know.
        """
        if self._helper is not None:
            assert self._helper.stdin is not None  # noqa: S101
            self._helper.stdin.close()
            until = time.monotonic() + _END_SECONDS
            while self._receive(until - time.monotonic()):
                pass
            self._end()
        self._append(self._rank, "loss", self._losses.rows(self._rank, os.getpid()))
        return self._notes

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        """End the helper."""
        helper, self._helper = self._helper, None
        if helper is None:
            return
        for stream in (helper.stdin, helper.stdout):
            if stream is not None:
                stream.close()
        try:
            helper.wait(_END_SECONDS / 10)
        except subprocess.TimeoutExpired:
            helper.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # as in a call of a stuck driver
                helper.wait(_END_SECONDS / 10)
        if helper.returncode != 0:
            self._losses.fault(_ENDED)

    def _receive(self, seconds: float) -> bool:
        """Take what is said within `seconds`; tell whether there may be more."""
        if self._helper is None:
            return False
        assert self._helper.stdout is not None  # noqa: S101
        output = self._helper.stdout.fileno()
        if not select.select([output], [], [], max(0.0, seconds))[0]:
            return False
        said = os.read(output, _READ_BYTES)
        *lines, self._rest = (self._rest + said).split(b"\n")
        self._take([message for line in lines if (message := self._message(line))])
        return bool(said)

    def _message(self, line: bytes) -> dict[str, Any]:
        """Return what a line says; nothing where it is not the helper's, as of NVML itself."""
        try:
            message: dict[str, Any] = json.loads(line)
        except ValueError:
            self._losses.fault(_FOREIGN)
            return {}
        return message

    def _take(self, messages: list[dict[str, Any]]) -> None:
        rows: list[dict[str, Any]] = []
        for message in messages:
            if "sample" in message:
                device, ts, values = message["sample"]
                common = {**self._common, "device": device, "ts": ts, "launch_id": 0}
                rows += [
                    {**common, "name": name, "value": float(value), "unit": _UNITS[name]}
                    for name, value in values.items()
                ]
                self._began = True
            elif "loss" in message:
                reason, count, ts = message["loss"]
                self._losses.fault(reason, count, ts)
            elif "error" in message:
                self._losses.fault(f"nothing was sampled: {message['error']}")
                self._notes.append(f"nvml: nothing was sampled: {message['error']}")
                self._began = True
            else:
                self._add("device", [{**self._common, **row} for row in message["devices"]])
        self._add("metric", rows)

    def _add(self, table: str, rows: list[dict[str, Any]]) -> None:
        if rows:
            self._append(self._rank, table, pa.Table.from_pylist(rows, schema=arrow_schema(table)))
