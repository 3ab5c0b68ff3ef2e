"""The engine for one NVIDIA GPU: cudf-polars for plans, cupy for array stages."""

from __future__ import annotations

import gc
import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from pasta.errors import EngineError
from pasta.pipeline.config import ToolConfig
from pasta.pipeline.device_rows import Device, TooManyRowsError
from pasta.pipeline.engines.base import Engine, EngineOptions
from pasta.pipeline.engines.cpu import CpuEngine
from pasta.pipeline.engines.device_graph import DeviceGraph
from pasta.pipeline.engines.device_shards import (
    DeviceShards,
    LeavesTooMuchError,
    cuts_for_devices,
)
from pasta.pipeline.engines.gpu_check import declined_stages, refusal
from pasta.pipeline.engines.local_run import run_in_turn
from pasta.pipeline.graph import Graph
from pasta.pipeline.pruning import chosen_ranks, rank_conditions
from pasta.pipeline.run import (
    Source,
    chosen_sources,
    collect_wanted,
    input_tables,
    only_trace,
)

IN_MEMORY_SHARE = 1 / 16
"""Parquet up to this part of the memory that a run may hold is run at once; more in shards, if it can be.

docs/performance.md has the measurements that this follows.
"""

_SHARDS = 4
"""To aim at, so that rows that should have fit but did not are cut too."""

READING_THREADS = 16
"""Threads that bring files to the device, where there are as many processors; libcudf takes 4 unless told."""

READING_BYTES = 16 << 20
"""Bytes of a file that such a thread brings at a time; 4 MiB unless told."""

_INSTEAD = "use --engine cpu or dask, or fewer traces"

_DRIVER = Path("/dev/nvidiactl")
_PACKAGES = ("cudf_polars", "cupy", "rmm")
_FAILURES = (RuntimeError, pl.exceptions.PolarsError)
"""What libcudf, CUDA and cudf-polars raise."""


def unavailable() -> str | None:
    """Say why no GPU can be used here, or `None`; nothing is imported and no GPU is touched."""
    if not _DRIVER.exists():
        return "this machine has no NVIDIA GPU"
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        return f"{missing[0]} is not installed (pip install 'pasta-trace[gpu]')"
    return None


def read_with_all_processors() -> None:
    """Have libcudf, which looks here when it first reads, take more threads and larger parts.

    What a user has set stays.
    """
    count = min(READING_THREADS, len(os.sched_getaffinity(0)))
    os.environ.setdefault("KVIKIO_NTHREADS", str(count))
    os.environ.setdefault("KVIKIO_TASK_SIZE", str(READING_BYTES))


def input_bytes(graph: Graph, sources: Sequence[Source]) -> int:
    """Return the size of the Parquet files that the inputs of a graph read."""
    conditions = rank_conditions(graph)
    read = {
        file
        for name, given in graph.inputs.items()
        for source in chosen_sources(given, sources)
        for file in source.trace.files(
            given.table, chosen_ranks(source.trace, conditions.get(name))
        )
    }
    return sum(Path(file).stat().st_size for file in read)


class _TooMuchError(EngineError):
    """A run needs more than the GPU takes at once.

    Attributes:
        reason: of what, and how much there is.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"{reason}; {_INSTEAD}")


@dataclass(frozen=True)
class _Request:
    """What is to be run.

    Attributes:
        tables: a plan for each input.
        declined: nodes that the GPU declines, and why.
        size: bytes of Parquet that the inputs read.
    """

    graph: Graph
    sources: Sequence[Source]
    wanted: Sequence[str]
    tables: dict[str, pl.LazyFrame]
    declined: Mapping[str, str]
    size: int


class GpuEngine(Engine):
    """Runs graphs on the first visible GPU; what it declines runs on the CPU only where allowed.

    A graph's rows stay on the device from the scan to the report. Memory is bounded: a run that needs
    more is cut into shards, and one that cannot be fails with the size that it needed.
    """

    name = "gpu"

    def __init__(
        self, options: EngineOptions, open_device: Callable[[], Device] | None = None
    ) -> None:
        """Take the options, and what opens a device where it is not the GPU.

        Raises:
            EngineError: no GPU can be used here.
        """
        super().__init__()
        reason = unavailable() if open_device is None else None
        if reason is not None:
            raise EngineError(f"the gpu engine cannot run: {reason}; use --engine cpu")
        self._options = options
        self._open_device = open_device or _open_gpu
        self._open: Device | None = None
        self._bytes: int | None = None

    def collect(self, plans: Sequence[pl.LazyFrame]) -> list[pl.DataFrame]:
        """Run `plans` one after the other.

        Raises:
            EngineError: the GPU cannot be used, or failed.
        """
        with self._device() as device:
            return [device.download(device.evaluate(plan)) for plan in plans]

    def run(
        self,
        config: ToolConfig,
        graph: Graph,
        sources: Sequence[Source],
        wanted: Sequence[str],
    ) -> dict[str, pl.DataFrame]:
        """Run a whole graph.

        Raises:
            EngineError: the GPU declines a stage that may not run elsewhere, or it failed.
        """
        declined = declined_stages(graph, graph.needed(wanted))
        problem = refusal(config, declined, self._options.off_gpu)
        if problem is not None:
            raise EngineError(problem)
        tables, size = input_tables(config, graph, sources), input_bytes(graph, sources)
        request = _Request(graph, sources, wanted, tables, declined, size)
        ways = [self._run_in_memory, self._run_in_shards]
        if size > self._memory() * IN_MEMORY_SHARE:
            ways.reverse()
        reasons = []
        for way in ways:
            try:
                found = way(request)
            except _TooMuchError as error:
                reasons.append(error.reason)
                self.notes.append(f"engine gpu: {error.reason}")
            else:
                if found is not None:
                    return found
        raise EngineError(f"{'; '.join(reasons)}; {_INSTEAD}")

    def _run_in_memory(self, request: _Request) -> dict[str, pl.DataFrame]:
        """Run all rows at once."""
        with self._device() as device:
            running = DeviceGraph(request.graph, device, request.declined)
            found = running.run(request.tables, request.wanted, only_trace(request.sources))
        self._say(request.size, "in memory")
        self.notes += running.notes
        return found

    def _run_in_shards(self, request: _Request) -> dict[str, pl.DataFrame] | None:
        """Run what leaves little on shards that fit, one after the other; `None`: it cannot be cut.

        Raises:
            _TooMuchError: the smallest do not fit, or they leave much.
        """
        graph, sources, wanted = request.graph, request.sources, request.wanted
        part = self._memory() * IN_MEMORY_SHARE / max(request.size, 1)
        reason = None
        for cut in cuts_for_devices(
            graph, sources, wanted, request.declined, count=_SHARDS, part=part
        ):
            if reason is not None:
                self.notes.append(f"engine gpu: {reason}")
            try:
                ran = self._left_by(cut, request)
            except _TooMuchError as error:
                reason = f"in {cut}: {error.reason}"
                if isinstance(error.__cause__, LeavesTooMuchError):
                    break
            else:
                self._say(request.size, f"{cut}{cut.rest}")
                return collect_wanted(graph, request.tables | ran, wanted, CpuEngine().collect)[1]
        if reason is not None:
            raise _TooMuchError(reason)
        return None

    def _left_by(self, cut: DeviceShards, request: _Request) -> dict[str, pl.LazyFrame]:
        """Run shards one after the other and return what they leave."""
        cut.given()  # On processors, before the device is opened: what fails there is no failure of it.
        with self._device() as device:
            work = cut.work(request.graph, request.sources, lambda: nullcontext(device))
            return work.results(*run_in_turn(work, cut.shards, at_once=1))

    def _say(self, size: int, how: str) -> None:
        self.notes.append(f"engine gpu: {size / 1e6:,.1f} MB of Parquet, {how}")

    def _memory(self) -> int:
        """Return how many bytes a run may hold: what was free when the GPU was first used."""
        if self._bytes is None:
            with self._device() as device:
                self._bytes = device.memory()
        return self._bytes

    @contextmanager
    def _device(self) -> Iterator[Device]:
        """Give the device, which stays open for the runs to come; its failures become one line.

        After a failure nothing may refer to it: its memory is free again once it is gone.
        """
        try:
            device = self._opened()
        except (ImportError, *_FAILURES) as error:
            raise EngineError(f"the GPU cannot be used: {_one_line(error)}") from error
        try:
            yield device
        except BaseException as error:
            shortage = device.shortage()
            self.close()
            if isinstance(error, TooManyRowsError):
                raise _TooMuchError(str(error)) from error
            if isinstance(error, MemoryError):
                raise _TooMuchError(f"the GPU's memory did not suffice: {shortage}") from error
            if isinstance(error, _FAILURES):
                raise EngineError(f"the gpu engine failed: {_one_line(error)}") from error
            raise

    def _opened(self) -> Device:
        """Return the device as it was opened for the last run, or open it."""
        if self._open is None:
            gc.collect()  # A run that failed may hold memory until the cycles of its traceback are found.
            self._open = self._open_device()
        return self._open

    def close(self) -> None:
        """Close the device; a run opens it again."""
        if self._open is not None:
            self._open.close()
            self._open = None


def _open_gpu() -> Device:
    read_with_all_processors()
    from pasta.pipeline.engines.cuda_device import CudaDevice

    return CudaDevice()


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
