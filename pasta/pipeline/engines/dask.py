"""The Dask engine: a graph shard by shard on the processes of a cluster, Polars in each of them.

Workers are processes of this machine with one thread each, or those of a scheduler that is running
already, started with Dask's own tools; see docs/cluster.md. They read the trace's files themselves.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Self

import polars as pl

import pasta
from pasta.allocator import kept_for_parts
from pasta.errors import EngineError
from pasta.pipeline.config import ToolConfig
from pasta.pipeline.engines import shard_tasks
from pasta.pipeline.engines.base import Engine
from pasta.pipeline.engines.cpu import CpuEngine
from pasta.pipeline.engines.dask_groups import GroupRun
from pasta.pipeline.engines.dask_run import ShardRun
from pasta.pipeline.engines.group_tasks import GroupWork
from pasta.pipeline.engines.shard_tasks import Work, made_before
from pasta.pipeline.engines.slice_tasks import SliceWork
from pasta.pipeline.engines.timings import Timings
from pasta.pipeline.graph import Graph
from pasta.pipeline.grouping import find_grouping
from pasta.pipeline.placement import Placement, place
from pasta.pipeline.run import Source, collect_wanted, input_tables
from pasta.pipeline.shards import Shard, ShardedInputs
from pasta.pipeline.slicing import cut_slices, find_slicing

SHARD_ROWS = 1 << 20
"""Rows of a shard: enough that a task's overhead does not count, few enough for any worker."""

_STREAMED = 2
"""How many times as many it may have where they stream through a worker, which holds few of them."""

_SHARDS_OF_A_THREAD = 4
"""Shards for each thread of the workers at least, so that all end at about one time."""

_BEFORE_START = "distributed.nanny.pre-spawn-environ"
"""Dask's setting for the environment in which processes of workers start."""

_PRELOADED = "distributed.worker.preload"
"""Its setting for the modules that workers load as they start."""

_TICK = "500ms"
"""How often Dask's processes look how late they are; every 20 ms takes 3 % of two cores."""

_SECONDS = 30
"""How long to wait for a scheduler, and for its first worker."""


_Ran = tuple[dict[str, pl.LazyFrame], set[str]]
"""Rows of the nodes that ran, and the keys of the tasks that ran them."""


class DaskEngine(Engine):
    """Runs what it can of a graph on shards, and what needs all rows in the caller.

    Args:
        workers: processes to start on this machine; by default one for each core.
        scheduler: address of a running scheduler, whose workers are used instead.
        shard_rows: rows that a shard has at most, unless one row group or one rank has more; shards
            of rows that stream have up to twice as many.
        timings: new folder for a trace of what each worker does when.

    Attributes:
        client: the connection to the scheduler, while the engine is entered.

    Raises:
        EngineError: `workers` and `scheduler` are both given; or, on entering, Dask is not
            installed or no worker answers.
    """

    name = "dask"

    def __init__(
        self,
        workers: int | None = None,
        scheduler: str | None = None,
        *,
        shard_rows: int = SHARD_ROWS,
        timings: Path | None = None,
    ) -> None:
        super().__init__()
        if workers is not None and scheduler is not None:
            raise EngineError(
                "--workers starts processes on this machine and --scheduler uses those that are"
                " running; give one of them"
            )
        self._workers = workers
        self._scheduler = scheduler
        self._shard_rows = shard_rows
        self._timings = timings
        self._caller = CpuEngine()
        self._cluster: Any = None
        self.client: Any = None

    def collect(self, plans: Sequence[pl.LazyFrame]) -> list[pl.DataFrame]:
        """Run `plans` in the caller, as the cpu engine does: they need all rows."""
        return self._caller.collect(plans)

    def run(
        self,
        config: ToolConfig,
        graph: Graph,
        sources: Sequence[Source],
        wanted: Sequence[str],
    ) -> dict[str, pl.DataFrame] | None:
        """Run the sharded part of a graph on the workers, and the rest in the caller."""
        tables = input_tables(config, graph, sources)
        timings = Timings(self.client, self._timings, config.name) if self._timings else None
        topic = timings.topic if timings else None
        inputs = self._inputs(graph, sources, wanted)
        ran = self._run_slices(graph, sources, wanted, inputs, topic)
        ran = ran or self._run_shards(graph, wanted, inputs, topic)
        if ran is None:
            rest = "; no timings are written" if timings else ""
            self.notes.append(f"dask: no stage works on shards; all ran in the caller{rest}")
            return None
        found, keys = ran
        if timings:
            timings.take_tasks(keys)
        _, results = collect_wanted(graph, tables | found, wanted, self.collect)
        if timings:
            timings.write()
        return results

    def _run_slices(
        self,
        graph: Graph,
        sources: Sequence[Source],
        wanted: Sequence[str],
        inputs: ShardedInputs,
        topic: str | None,
    ) -> _Ran | None:
        """Run slices of time where a rank is larger than a shard and other shards do no more."""
        placement = place(graph, wanted, by_rank=inputs.ranks > 1)
        slicing = find_slicing(graph, wanted)
        if slicing is None or not placement.sharded <= slicing.nodes:
            return None
        slices = cut_slices(graph, sources, slicing, self._shard_rows)
        if not any(part.times for part in slices):
            return None
        shard_run = ShardRun(self.client, SliceWork(graph, slicing), topic)
        found = shard_run.run(slices)
        self._say(graph, placement, len(slices), "of time", slicing.nodes)
        return found, shard_run.keys

    def _run_shards(
        self, graph: Graph, wanted: Sequence[str], inputs: ShardedInputs, topic: str | None
    ) -> _Ran | None:
        """Run what works on shards of whole ranks, or of rows."""
        placement, shards = self._cut(graph, inputs, wanted)
        if not placement.targets:
            return None
        work = Work(graph, placement, given=made_before(graph, inputs, placement))
        shard_run = self._shard_run(work, wanted, topic)
        found = shard_run.run(shards)
        unit = "of whole ranks" if placement.by_rank else "of rows"
        cuts = f" and {shard_run.cuts} cuts of their states" if shard_run.cuts > 1 else ""
        self._say(graph, placement, len(shards), unit + cuts)
        return found, shard_run.keys

    def _shard_run(self, work: Work, wanted: Sequence[str], topic: str | None) -> ShardRun:
        """Return a run of shards, and of cuts of what they leave where their states can be cut."""
        grouping = find_grouping(work.graph, wanted, work.placement)
        if grouping is None:
            return ShardRun(self.client, work, topic)
        return GroupRun(self.client, GroupWork(work, grouping), topic)

    @staticmethod
    def _inputs(graph: Graph, sources: Sequence[Source], wanted: Sequence[str]) -> ShardedInputs:
        """Return the inputs that a stage reads which is needed."""
        above = {name for node in wanted if node in graph.nodes for name in graph.above(node)}
        return ShardedInputs(graph, sources, [name for name in graph.inputs if name in above])

    def _cut(
        self, graph: Graph, inputs: ShardedInputs, wanted: Sequence[str]
    ) -> tuple[Placement, list[Shard]]:
        """Decide what runs on shards, and cut them: by rank where there are several."""
        by_rank = inputs.ranks > 1
        few = set() if by_rank else inputs.few(self._shard_rows)
        placement = place(graph, wanted, by_rank=by_rank, few=few)
        if placement.by_rank:
            return placement, inputs.by_rank(self._shard_rows)
        rows = self._streamed_rows(inputs.rows(inputs.names - placement.before))
        return placement, inputs.by_rows(rows, placement.before)

    def _streamed_rows(self, rows: int) -> int:
        """Return how many of `rows` a shard has that streams: few tasks, but enough for all."""
        threads: int = sum(self.client.nthreads().values())
        fair = rows // max(threads * _SHARDS_OF_A_THREAD, 1)
        return min(max(fair, self._shard_rows), _STREAMED * self._shard_rows)

    def _say(
        self,
        graph: Graph,
        placement: Placement,
        shards: int,
        unit: str,
        sliced: Collection[str] = (),
    ) -> None:
        """Note how the graph ran: shards, workers, and what forced the rest into one place."""
        workers = len(self.client.scheduler_info()["workers"])
        forced = dict.fromkeys(
            placement.obstacles[name]
            for name in placement.obstacles
            if placement.obstacles[name] == name
            and name not in sliced
            and graph.nodes[name].kind != "row-wise"
        )
        rest = f"; the caller ran {', '.join(forced)}, which need all rows" if forced else ""
        if placement.given:
            rest += f"; it made {', '.join(placement.given)} before, which every shard reads"
        self.notes.append(
            f"dask: {shards} shard{'s' * (shards != 1)} {unit} on {workers}"
            f" worker{'s' * (workers != 1)}{rest}"
        )

    def __enter__(self) -> Self:
        try:
            import distributed
        except ImportError as error:
            raise EngineError(
                f"the dask engine needs distributed ({error}); install it: pip install"
                " 'pasta-trace[dask]'"
            ) from error
        if self._scheduler is None:
            self._cluster = _local_cluster(self._workers)
        address = self._cluster or self._scheduler
        try:
            self.client = distributed.Client(address, timeout=_SECONDS, set_as_default=False)
            self.client.wait_for_workers(1, timeout=_SECONDS)
            _check_workers(self.client, self._scheduler)
        except EngineError:
            self.close()
            raise
        except (OSError, ValueError, TimeoutError) as error:
            connected = self.client is not None
            self.close()
            raise EngineError(_unreachable(self._scheduler, connected=connected)) from error
        return self

    def close(self) -> None:
        """Disconnect, and end the workers that were started here."""
        for held in (self.client, self._cluster):
            if held is not None:
                held.close()
        self.client = self._cluster = None


def _local_cluster(workers: int | None) -> Any:
    """Start worker processes of one thread each, which load what runs shards; none of them looks for a GPU.

    Polars asks for its number of threads when it is imported, which may be before Dask sets what is
    given to it as `env`.
    """
    import dask
    from distributed import LocalCluster

    environment = {**dask.config.get(_BEFORE_START), "POLARS_MAX_THREADS": "1"}
    settings = {
        "distributed.diagnostics.nvml": False,
        "distributed.worker.profile.enabled": False,
        "distributed.admin.tick.interval": _TICK,
        **_preloading(shard_tasks.__name__),
        _BEFORE_START: environment,
    }
    with dask.config.set(settings), kept_for_parts():
        return LocalCluster(
            n_workers=workers or len(os.sched_getaffinity(0)),
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        )


def _preloading(module: str) -> dict[str, Any]:
    """Return Dask's settings by which workers load a module too as they start, beside what the user has them load."""
    import dask

    modules, arguments = dask.config.get(_PRELOADED), dask.config.get(f"{_PRELOADED}-argv")
    modules = [modules] if isinstance(modules, str) else list(modules or [])
    of_each = any(isinstance(one, list) for one in arguments or [])
    return {
        _PRELOADED: [*modules, module],
        f"{_PRELOADED}-argv": [*arguments, []] if of_each else arguments,
    }


def _check_workers(client: Any, scheduler: str | None) -> None:
    """Check that the workers of a scheduler have the packages that run here.

    One that is just leaving may not answer; its shards go to others.
    """
    if scheduler is None:
        return
    own = _versions()
    for worker, versions in client.run(_versions, on_error="return").items():
        if isinstance(versions, ImportError):
            raise EngineError(f"worker {worker} lacks pasta ({versions}); install it there")
        if isinstance(versions, str) and versions != own:
            raise EngineError(
                f"worker {worker} runs {versions}, and the caller {own}; install the same versions"
            )


def _versions() -> str:
    return f"pasta {pasta.__version__} with polars {pl.__version__}"


def _unreachable(scheduler: str | None, *, connected: bool) -> str:
    if scheduler is None:
        return f"no worker process started within {_SECONDS} s"
    if connected:
        return f"the scheduler at {scheduler} has no workers; start some: dask worker {scheduler}"
    return f"no Dask scheduler answers at {scheduler}; start one: dask scheduler"
