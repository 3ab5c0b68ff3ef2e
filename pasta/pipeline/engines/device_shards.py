"""Shards of a graph that fit into a GPU's memory, run there one after the other: on one GPU, or on each of many.

Other than plans over partitions they shuffle nothing: rows of one rank stay together. What shards leave comes
together on processors, which run the rest of the graph: so it has to be little.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from pasta.pipeline.device_rows import Device, TooManyRowsError
from pasta.pipeline.engines.device_graph import DeviceGraph
from pasta.pipeline.engines.gpu_check import declined_stages
from pasta.pipeline.engines.shard_tasks import Frames, Work
from pasta.pipeline.graph import Graph
from pasta.pipeline.placement import Placement, place
from pasta.pipeline.run import Source, only_trace
from pasta.pipeline.shards import Shard, ShardedInputs

LEAST_ROWS = 1 << 24
"""Rows of a shard, unless there are fewer: with fewer the time goes into starting it."""

MOST_ROWS = (1 << 31) - 1
"""Rows of a table that libcudf takes."""

MOST_LEFT_ROWS = 1 << 24
"""Rows that a node may leave on all shards, each its even part: processors work on from there."""


class LeavesTooMuchError(TooManyRowsError):
    """A shard leaves more rows than its part of those that processors should work on."""


@dataclass(frozen=True)
class DeviceShards:
    """How a graph is cut for devices.

    Attributes:
        placement: where its nodes run.
        shards: its rows; each is held by a device at once.
        text: how many shards there are, of what, and what does not run on them.
    """

    placement: Placement
    shards: Sequence[Shard]
    text: str

    def work(
        self,
        graph: Graph,
        sources: Sequence[Source],
        opened: Callable[[], AbstractContextManager[Device]],
    ) -> DeviceWork:
        """Return what is to be done with each shard of the graph, on the device that `opened` gives."""
        most_left = MOST_LEFT_ROWS // len(self.shards)
        return DeviceWork(graph, self.placement, only_trace(sources), most_left, opened)


@dataclass(frozen=True)
class DeviceWork(Work):
    """The part of a graph that runs on shards, on a device.

    Attributes:
        trace: the trace that all rows are of, if they are of one.
        most_left: rows that a node may leave on a shard.
        opened: gives the device of whoever runs a shard.
    """

    trace: str | None
    most_left: int
    opened: Callable[[], AbstractContextManager[Device]]

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the graph with states: a stage is pickled by its name, and theirs are changed."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @cached_property
    def _with_states(self) -> Graph:
        return with_states(self.graph, self.placement.combined)

    def run(self, shard: Shard, place: int, topic: str | None) -> tuple[Frames, Frames]:
        """Return the rows of the shipped nodes and the states of the combined ones.

        Raises:
            LeavesTooMuchError: these are many.
            MemoryError: the shard does not fit.
        """
        del place, topic
        targets = self.reached(shard.pieces)
        states = {_state_of(name): name for name in targets if name in self.placement.combined}
        shipped = [name for name in targets if name in self.placement.shipped]
        with self.opened() as device:
            running = _ShardGraph(self._with_states, device, self.most_left)
            found = running.run(self.tables(shard, None), [*shipped, *states], self.trace)
        rows = {name: found[name] for name in shipped}
        return rows, {name: found[state] for state, name in states.items()}


class _ShardGraph(DeviceGraph):
    """Runs a graph on a device, from which only little is copied."""

    def __init__(self, graph: Graph, device: Device, most_left: int) -> None:
        super().__init__(graph, device, {})
        self._most_left = most_left

    def download(self, plan: pl.LazyFrame) -> pl.DataFrame:
        """Run `plan` and copy its rows to the host, if they are few."""
        frame = self._device.evaluate(plan)
        count = self._device.height(frame)
        if count > self._most_left:
            raise LeavesTooMuchError(
                f"a shard leaves {count:,} rows, more than the {self._most_left:,} that it may"
            )
        return self._device.download(frame)


def cut_for_devices(
    graph: Graph,
    sources: Sequence[Source],
    wanted: Sequence[str],
    declined: Mapping[str, str],
    *,
    count: int,
    part: float,
) -> DeviceShards | None:
    """Cut a graph's rows so that each shard fits into a device; `None`: it has to run in another way.

    Args:
        graph: the graph.
        sources: the traces that it reads.
        wanted: nodes whose rows are asked for.
        declined: nodes that a device declines, and why.
        count: shards to aim at; ranks are not cut, and few rows are not worth as many.
        part: of all rows that fit into one device.
    """
    read = [name for name in graph.inputs if any(name in graph.above(node) for node in wanted)]
    inputs = ShardedInputs(graph, sources, read)
    placement = place(graph, wanted, by_rank=inputs.ranks > 1)
    if not _is_apt(graph, wanted, placement, declined):
        return None
    rows = inputs.rows(read)
    most = min(int(rows * part), MOST_ROWS)
    size = max(min(max(-(-rows // count), LEAST_ROWS), most), 1)
    shards = inputs.by_rank(size) if placement.by_rank else inputs.by_rows(size)
    if not shards or any(shard.rows > most for shard in shards):
        return None
    unit = "of whole ranks" if placement.by_rank else "of rows"
    text = f"{len(shards)} shard{'s' * (len(shards) != 1)} {unit}{_rest(placement, declined)}"
    return DeviceShards(placement, shards, text)


def _rest(placement: Placement, declined: Mapping[str, str]) -> str:
    """Say what processors run, on what shards leave."""
    count = len(placement.obstacles)
    ran = f"; processors ran the {count} stage{'s' * (count != 1)} after them" if count else ""
    named = [f"'{name}' ({declined[name]})" for name in placement.obstacles if name in declined]
    return ran + (f", of which the GPU declines {', '.join(named)}" if named else "")


def _is_apt(
    graph: Graph, wanted: Sequence[str], placement: Placement, declined: Mapping[str, str]
) -> bool:
    """Tell whether devices take all that runs on shards, and processors need nothing but what that leaves."""
    reading = set(wanted)
    for name in graph.needed(wanted):
        if placement.places[name] == "caller":
            reading.update(graph.nodes[name].sources)
        elif name in declined:
            return False
    if any(placement.places[name] == "rows" for name in reading):
        return False
    states = [_state_of(name) for name in placement.combined]
    return not declined_stages(with_states(graph, placement.combined), states)


def with_states(graph: Graph, combined: Sequence[str]) -> Graph:
    """Return a graph that has for each `combined` node one more, whose rows are its state."""
    nodes = dict(graph.nodes)
    for name in combined:
        node = graph.nodes[name]
        merge = node.stage.merge
        assert merge is not None, name  # noqa: S101 (it is combined)
        stage = dataclasses.replace(
            node.stage, function=merge.partial, array=False, on_device=None, unsorted=None
        )
        state = _state_of(name)
        nodes[state] = dataclasses.replace(node, name=state, stage=stage)
    return dataclasses.replace(graph, nodes=nodes)


def _state_of(name: str) -> str:
    return f"{name}'s state"
