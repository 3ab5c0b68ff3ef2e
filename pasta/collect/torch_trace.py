"""The trace that the PyTorch recorder fills: its tables, clock, losses and end."""

from __future__ import annotations

import os
import platform
import shlex
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from pasta.collect.torch_memory import MEMORY_COLUMNS, running_totals
from pasta.collect.torch_rows import Losses, Rows
from pasta.collect.torch_spans import SPAN_COLUMNS, THREAD_COLUMNS
from pasta.collect.torch_touch import TOUCH_COLUMNS
from pasta.schema import arrow_schema
from pasta.trace_writer import TraceWriter

COLLECTOR = "torch"
FILE_SECONDS = 1.0
"""How long rows wait before they are on disk, so that a killed program leaves them behind."""


class TorchTrace:
    """A trace being recorded in this process.

    Attributes:
        path: the folder.
        spans, memory, touches, threads: rows of those tables.
        losses: what could not be kept or trusted.
        active: whether this process records; not so in a child that was forked from it.
    """

    def __init__(self, name: str, path: Path) -> None:
        self.path = path
        self.losses = Losses()
        self.active = True
        self._switched_off: set[str] = set()
        self._offset = _epoch_offset()
        self._started = self.clock()
        self._common = {"rank": int(os.environ.get("RANK", "0")), "pid": os.getpid()}
        self._writer = TraceWriter(path, self._info(name))
        rank = self._common["rank"] if world_size() > 1 else None
        self._part = self._writer.part(rank, file_seconds=FILE_SECONDS)
        self._write_at = self._started
        self.spans = self._rows("span", SPAN_COLUMNS, external_id=0, stack_id=0)
        self.memory = self._rows("memory", MEMORY_COLUMNS, space="tensor", stack_id=0)
        self.touches = self._rows(
            "touch", TOUCH_COLUMNS, launch_id=0, space="tensor", granularity=1
        )
        self.threads = self._rows("thread", THREAD_COLUMNS, stack_id=0)

    def clock(self) -> int:
        """Return the time in ns: the monotonic clock, shifted once to start at the epoch."""
        return time.monotonic_ns() + self._offset

    def guarded(self, hook: str, action: Callable[..., Any], *arguments: Any) -> Any:
        """Run `action` so that no failure of it reaches the program; `None` if it failed."""
        if not self.active or hook in self._switched_off:
            return None
        try:
            return action(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is, the program must go on
            self._switched_off.add(hook)
            reason = f"the {hook} hook failed and was switched off: {error!r}"
            self.losses.count(reason, self.clock())
            return None

    def write_if_due(self, now: int) -> None:
        """Write the waiting rows where a batch of them has gathered, or waited long enough."""
        full = self.spans.full or self.memory.full or self.touches.full
        if full or now >= self._write_at:
            self._write_at = now + int(FILE_SECONDS * 1e9)
            self.guarded("write", self._write)

    def finish(self, ended: str) -> None:
        """Complete the trace.

        Args:
            ended: how the program left the recorded block: `exit 0`, or the exception's class.
        """
        self._write()
        self._append("process", [self._process()])
        self._append("device", _devices())
        losses = [
            {"collector": COLLECTOR, "reason": reason, "count": count, "first_ts": first}
            for reason, count, first in self.losses.rows()
        ]
        self._append("loss", losses)
        self._part.finish({"memory": running_totals()})
        self._writer.finish(ended=ended)

    def _rows(self, table: str, columns: tuple[str, ...], **constants: Any) -> Rows:
        return Rows(self._part, table, columns, {**self._common, **constants})

    def _write(self) -> None:
        for rows in (self.spans, self.memory, self.touches, self.threads):
            rows.write()

    def _append(self, table: str, rows: list[dict[str, Any]]) -> None:
        rows = [{**self._common, **row} for row in rows]
        self._part.append(table, pa.RecordBatch.from_pylist(rows, schema=arrow_schema(table)))

    def _info(self, name: str) -> dict[str, Any]:
        import torch

        return {
            "name": name,
            "command": _command(),
            "collectors": [{"name": COLLECTOR, "version": torch.__version__}],
            "clock": {"name": "CLOCK_MONOTONIC", "epoch_offset_ns": self._offset},
        }

    def _process(self) -> dict[str, Any]:
        import torch

        return {
            "parent_pid": os.getppid(),
            "host": socket.gethostname(),
            "command": _command(),
            "world_size": world_size(),
            "started": self._started,
            "ended": self.clock(),
            "framework": f"torch {torch.__version__}; python {platform.python_version()}",
            "stack_id": 0,
        }


def world_size() -> int:
    """Return the number of ranks of the run, as its launcher put it into the environment."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def _command() -> str:
    return f"python {shlex.join(sys.argv)}"


def _epoch_offset() -> int:
    """Return what takes the monotonic clock to the time since the epoch, in ns."""
    before = time.monotonic_ns()
    epoch = time.time_ns()
    return epoch - (before + time.monotonic_ns()) // 2


def _devices() -> list[dict[str, Any]]:
    import torch

    if not torch.cuda.is_initialized():
        return []
    devices = [
        (device, torch.cuda.get_device_properties(device))
        for device in range(torch.cuda.device_count())
    ]
    return [
        {
            "device": device,
            "vendor": "amd" if torch.version.hip else "nvidia",
            "name": about.name,
            "uuid": str(about.uuid),
            "memory_bytes": about.total_memory,
            "multiprocessors": about.multi_processor_count,
            "compute_capability": f"{about.major}.{about.minor}",
            "cache_bytes": about.L2_cache_size,
        }
        for device, about in devices
    ]
