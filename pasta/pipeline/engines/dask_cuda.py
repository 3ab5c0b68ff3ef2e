"""The `dask` engine where its workers have GPUs: cudf-polars' DaskEngine over Dask-CUDA.

The process that starts the cluster makes no CUDA context: plans and array code run in the workers.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Self

import polars as pl

from pasta.errors import ConfigError, EngineError
from pasta.pipeline.config import ToolConfig
from pasta.pipeline.device_rows import DeviceRows, TooManyRowsError
from pasta.pipeline.engines.base import Engine, EngineOptions
from pasta.pipeline.engines.cpu import CpuEngine
from pasta.pipeline.engines.cuda_device import mend_libraries, worker_device
from pasta.pipeline.engines.dask_run import ShardRun
from pasta.pipeline.engines.device_graph import run_code
from pasta.pipeline.engines.device_memory import forget_worker
from pasta.pipeline.engines.device_shards import LeavesTooMuchError, cuts_for_devices
from pasta.pipeline.engines.gpu import (
    IN_MEMORY_SHARE,
    input_bytes,
    read_with_all_processors,
    unavailable,
)
from pasta.pipeline.engines.gpu_check import declined_stages, refusal
from pasta.pipeline.engines.graph_run import GraphRun
from pasta.pipeline.graph import Graph, Node
from pasta.pipeline.run import Source, collect_wanted, input_tables, only_trace

_SECONDS = 60
"""How long to wait for a scheduler and its workers."""

_SHARDS_OF_A_GPU = 2
"""So many at least, that GPUs end at about one time."""

_ASKING_SECONDS = 5
"""How long to wait for workers to say whether they have GPUs."""


def serves(options: EngineOptions) -> bool:
    """Tell whether a run with `options` has workers with GPUs.

    Without a scheduler these are this machine's GPUs, where Dask-CUDA is installed; else all workers
    of the scheduler are asked. One that does not answer soon counts as having none.
    """
    if options.scheduler is None:
        return unavailable() is None and importlib.util.find_spec("dask_cuda") is not None
    try:
        from distributed import Client

        with Client(options.scheduler, timeout=_ASKING_SECONDS, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=_ASKING_SECONDS)
            reasons = client.run(unavailable)
    except (ImportError, OSError, ValueError, TimeoutError):
        return False
    return all(reason is None for reason in reasons.values())


class DaskCudaEngine(Engine):
    """Runs plans on all GPUs of a cluster, and array code on one of them."""

    name = "dask"

    def __init__(self, options: EngineOptions) -> None:
        super().__init__()
        self._options = options
        self._open = ExitStack()
        self._client: Any = None
        self._engine: Any = None
        self._memory: int | None = None
        self._workers: set[str] = set()

    def collect(self, plans: Sequence[pl.LazyFrame]) -> list[pl.DataFrame]:
        """Run `plans` one after the other, each on all GPUs.

        Raises:
            EngineError: one failed.
        """
        cluster = _Cluster(self._engine, self._client)
        with _failures():
            rows = [cluster.collect(plan) for plan in plans]
        self.notes += cluster.take_notes()
        return rows

    def run(
        self,
        config: ToolConfig,
        graph: Graph,
        sources: Sequence[Source],
        wanted: Sequence[str],
    ) -> dict[str, pl.DataFrame]:
        """Run a whole graph.

        Raises:
            EngineError: the GPUs decline a stage that may not run elsewhere, or failed.
        """
        declined = declined_stages(graph, graph.needed(wanted))
        problem = refusal(config, declined, self._options.off_gpu)
        if problem is not None:
            raise EngineError(problem)
        tables = input_tables(config, graph, sources)
        ran = self._run_shards(graph, sources, wanted, declined)
        if ran is not None:
            return collect_wanted(graph, tables | ran, wanted, CpuEngine().collect)[1]
        self._check_workers()
        cluster = _Cluster(self._engine, self._client)
        running = _ClusterGraph(graph, cluster, declined)
        with _failures():
            found = running.run(tables, wanted, only_trace(sources))
        self.notes += [f"dask: {self._gpus()}", *cluster.take_notes(), *running.notes]
        return found

    def _run_shards(
        self,
        graph: Graph,
        sources: Sequence[Source],
        wanted: Sequence[str],
        declined: Mapping[str, str],
    ) -> dict[str, pl.LazyFrame] | None:
        """Run what leaves little on shards, each on one GPU; `None`: plans have to run on all GPUs together."""
        with _failures():
            if self._memory is None:
                self._memory = min(self._client.run(_memory_of_worker).values())
            size, most = input_bytes(graph, sources), self._memory * IN_MEMORY_SHARE
            count, part = _SHARDS_OF_A_GPU * self._engine.nranks, most / max(size, 1)
            for cut in cuts_for_devices(graph, sources, wanted, declined, count=count, part=part):
                shards = ShardRun(self._client, cut.work(graph, sources, worker_device))
                try:
                    ran = shards.run(cut.shards)
                except MemoryError as error:
                    shards.stop()
                    self.notes.append(f"dask: not run in {cut}: {_one_line(error)}")
                    if isinstance(error, LeavesTooMuchError):
                        return None
                else:
                    self.notes.append(f"dask: {self._gpus()}, {cut}{cut.rest}")
                    return ran
        return None

    def _check_workers(self) -> None:
        """Check that the workers are there that the engine of plans began with; it knows no others.

        Raises:
            EngineError: one was lost, and at most started again.
        """
        lost = self._workers.difference(self._client.nthreads())
        if lost:
            raise EngineError(
                f"a worker was lost ({', '.join(sorted(lost))}), and plans need all GPUs that were there"
                " when the engine started; repeat the run"
            )

    def _gpus(self) -> str:
        count = self._engine.nranks
        return f"{count} GPU{'s' * (count != 1)}"

    def __enter__(self) -> Self:
        """Start a worker for each GPU of this machine, or find those of the scheduler."""
        try:
            with _failures():
                self._connect()
        except BaseException:
            self._open.close()
            raise
        return self

    def _connect(self) -> None:
        from cudf_polars.engine.dask import DaskEngine
        from cudf_polars.engine.hardware_binding import HardwareBindingPolicy
        from cudf_polars.engine.options import StreamingOptions
        from cudf_polars.utils.config import MemoryResourceConfig
        from distributed import Client

        from pasta.pipeline.engines import device_memory

        address = self._options.scheduler
        if address is None:
            address = self._open.enter_context(_local_cluster(self._options.workers))
        self._client = self._open.enter_context(
            Client(address, timeout=_SECONDS, set_as_default=False)
        )
        self._client.wait_for_workers(1, timeout=_SECONDS)
        self._workers = set(self._client.nthreads())
        self._client.run(mend_libraries)
        self._client.run(forget_worker)
        memory = MemoryResourceConfig(qualname=f"{device_memory.__name__}.bounded_share")
        options = StreamingOptions(
            raise_on_fail=True,
            memory_resource_config=memory,
            fallback_mode="silent",
            hardware_binding=HardwareBindingPolicy(enabled=False),
        )
        self._engine = self._open.enter_context(
            DaskEngine.from_options(options, dask_client=self._client)
        )

    def close(self) -> None:
        """Disconnect, and end the workers that were started here."""
        self._open.close()


class _Cluster:
    """All workers: a plan runs on their GPUs together, or on one where cudf-polars fails to stream it."""

    def __init__(self, engine: Any, client: Any) -> None:
        self._engine, self.client = engine, client
        self._not_streamed: dict[str, None] = {}

    def collect(self, plan: pl.LazyFrame) -> pl.DataFrame:
        """Run `plan` and gather its rows.

        Where a worker is lost, an `OSError`, the others are of no more use to the engine.
        """
        try:
            return plan.collect(engine=self._engine)
        except (MemoryError, OSError):
            raise
        except Exception as error:  # noqa: BLE001 (a KeyError in a window, an AssertionError, in groups)
            found: pl.DataFrame = self.client.submit(_at_once, plan, pure=False).result()
            self._not_streamed[_first_line(error)] = None
            return found

    def take_notes(self) -> list[str]:
        """Return why plans were not streamed since this was last asked."""
        notes = [f"dask: a plan was run at once on one GPU: {why}" for why in self._not_streamed]
        self._not_streamed.clear()
        return notes


class _ClusterGraph(GraphRun):
    """Runs plans on all GPUs; rows between them pass through this process."""

    def __init__(self, graph: Graph, cluster: _Cluster, declined: Mapping[str, str]) -> None:
        super().__init__(graph, declined)
        self._cluster = cluster

    def hold(self, plan: pl.LazyFrame) -> pl.LazyFrame:
        """Run `plan`; its rows are dealt out to the GPUs again when they are read."""
        return self.download(plan).lazy()

    def download(self, plan: pl.LazyFrame) -> pl.DataFrame:
        """Run `plan` on all GPUs and gather its rows."""
        return self._cluster.collect(plan)

    def run_arrays(self, node: Node, plans: Mapping[str, pl.LazyFrame]) -> pl.LazyFrame:
        """Run array code on the GPU of one worker."""
        rows = {name: self.download(node.narrowed(plans[name])) for name in node.sources}
        submitted = self._cluster.client.submit(_on_worker, node, rows, pure=False)
        result: pl.DataFrame = submitted.result()
        self.notes.append(
            f"stage '{node.name}' ({node.stage.name}) ran on one GPU:"
            f" {sum(frame.height for frame in rows.values()) + result.height:,} rows moved"
        )
        return result.lazy()


def _at_once(plan: pl.LazyFrame) -> pl.DataFrame:
    """Run a plan on this worker's GPU, in memory."""
    with worker_device() as device:
        return device.download(device.evaluate(plan))


def _on_worker(node: Node, rows: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Run a node's array code on this worker's GPU, on rows from the host."""
    with worker_device() as device:
        held = {name: DeviceRows(device, frame.lazy()) for name, frame in rows.items()}
        return run_code(node, held).to_polars()


def _memory_of_worker() -> int:
    """Return how many bytes a run may hold at once on this worker's GPU."""
    with worker_device() as device:
        return device.memory()


def _local_cluster(workers: int | None) -> Any:
    """Return a cluster with one worker for each GPU, or for as many as were asked for."""
    from dask_cuda import LocalCUDACluster

    read_with_all_processors()
    return LocalCUDACluster(
        n_workers=workers,
        rmm_async=True,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    )


@contextmanager
def _failures() -> Iterator[None]:
    """Turn what Dask, cudf-polars and CUDA raise into one line."""
    try:
        yield
    except (ConfigError, EngineError):
        raise
    except TooManyRowsError as error:
        raise EngineError(f"{error}; use --engine cpu, or fewer traces") from error
    except MemoryError as error:
        raise EngineError(
            f"a worker's GPU memory did not suffice ({_one_line(error)}); use more GPUs,"
            " or --engine cpu"
        ) from error
    except ImportError as error:
        raise EngineError(
            f"the dask engine on GPUs needs {error.name}: pip install 'pasta-trace[gpu]'"
        ) from error
    except (RuntimeError, OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise EngineError(f"the dask engine failed: {_one_line(error)}") from error


def _first_line(error: Exception) -> str:
    """Return the type and the first line of what cudf-polars raised; of a group, those of its first error."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}".partition("\n")[0][:200]


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
