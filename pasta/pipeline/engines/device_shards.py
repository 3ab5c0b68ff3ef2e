"""Shards of a graph that fit into a GPU's memory, run there one after the other: on one GPU, or on each of many.

Other than plans over partitions they shuffle nothing: rows of one rank stay together. What shards leave comes
together on processors, which run the rest of the graph: so it has to be little.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

import polars as pl

from pasta.pipeline.device_rows import Device, TooManyRowsError
from pasta.pipeline.engines.device_graph import DeviceGraph
from pasta.pipeline.engines.gpu_check import declined_stages
from pasta.pipeline.engines.shard_tasks import Frames, Work, made_before
from pasta.pipeline.graph import Graph
from pasta.pipeline.placement import Placement, place
from pasta.pipeline.run import Source, only_trace
from pasta.pipeline.shards import Shard, ShardedInputs

LEAST_ROWS = 1 << 24
"""Rows of a shard, unless there are fewer: with fewer the time goes into starting it."""

MOST_ROWS = (1 << 31) - 1
"""Rows of a table that libcudf takes."""

MOST_LEFT_ROWS = 1 << 26
"""Rows that a node may leave on all shards, each its even part: processors work on from there."""

MOST_GIVEN_ROWS = 1 << 24
"""Rows of an input that each shard of others may read whole."""

_ATTEMPTS = 4
"""Ways to cut that are tried, each in shards of half as many rows as the one before."""


class LeavesTooMuchError(TooManyRowsError):
    """A shard leaves more rows than its part of those that processors should work on."""


@dataclass(frozen=True)
class DeviceShards:
    """How a graph is cut for devices.

    Attributes:
        placement: where its nodes run.
        shards: its rows; each is held by a device at once.
        given: runs on processors, once, what every shard reads whole.
        rest: what does not run on them, in words.
    """

    placement: Placement
    shards: Sequence[Shard]
    given: Callable[[], Frames]
    rest: str

    def __str__(self) -> str:
        """Say how many shards there are, and of what."""
        count = len(self.shards)
        unit = "of whole ranks" if self.placement.by_rank else "of rows"
        return f"{count} shard{'s' * (count != 1)} {unit}"

    def work(
        self,
        graph: Graph,
        sources: Sequence[Source],
        opened: Callable[[], AbstractContextManager[Device]],
    ) -> DeviceWork:
        """Return what is to be done with each shard of the graph, on the device that `opened` gives."""
        most_left = MOST_LEFT_ROWS // len(self.shards)
        trace = only_trace(sources)
        return DeviceWork(graph, self.placement, trace, most_left, opened, given=self.given())


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


def cuts_for_devices(
    graph: Graph,
    sources: Sequence[Source],
    wanted: Sequence[str],
    declined: Mapping[str, str],
    *,
    count: int,
    part: float,
) -> Iterator[DeviceShards]:
    """Yield ways to cut a graph's rows so that each shard fits into a device, smaller and smaller ones.

    There is none where the graph has to run in another way.

    Args:
        graph: the graph.
        sources: the traces that it reads.
        wanted: nodes whose rows are asked for.
        declined: nodes that a device declines, and why.
        count: shards to aim at; few rows are not worth as many.
        part: of all rows that fit into one device, as far as can be told.
    """
    read = [name for name in graph.inputs if any(name in graph.above(node) for node in wanted)]
    inputs = ShardedInputs(graph, sources, read)
    rows = inputs.rows(read)
    most = min(int(rows * part), MOST_ROWS)
    size = min(max(-(-rows // count), LEAST_ROWS), most)
    ways = [
        (placement, cache(partial(made_before, graph, inputs, placement)))
        for placement in _placements(graph, wanted, inputs)
        if _is_apt(graph, wanted, placement, declined)
    ]
    for _ in range(_ATTEMPTS):
        cuts = (
            DeviceShards(placement, shards, given, _rest(placement, declined))
            for placement, given in ways
            if (shards := _shards(inputs, placement, size, most))
        )
        cut = next(cuts, None)
        if cut is None:
            return
        yield cut
        most = max(shard.rows for shard in cut.shards) // 2
        size = min(size, most)


def _shards(
    inputs: ShardedInputs, placement: Placement, size: int, most: int
) -> Sequence[Shard] | None:
    """Cut into shards of about `size` rows; `None`: one has more than `most`, with those that all read whole."""
    if placement.by_rank:
        shards = inputs.by_rank(max(size, 1))
    else:
        most -= inputs.rows(placement.before & inputs.names)
        shards = inputs.by_rows(max(min(size, most), 1), placement.before)
    return shards if all(shard.rows <= most for shard in shards) else None


def _placements(graph: Graph, wanted: Sequence[str], inputs: ShardedInputs) -> Iterator[Placement]:
    """Yield where nodes could run: on whole ranks, and on rows that are looked up in few others."""
    if inputs.ranks > 1:
        yield place(graph, wanted, by_rank=True)
    yield place(graph, wanted, by_rank=False, few=inputs.few(MOST_GIVEN_ROWS))


def _rest(placement: Placement, declined: Mapping[str, str]) -> str:
    """Say what processors run, on what shards leave and before them."""
    count = len(placement.obstacles)
    ran = f"; processors ran the {count} stage{'s' * (count != 1)} after them" if count else ""
    if placement.given:
        ran += f"; processors made {', '.join(placement.given)} before, which every shard reads"
    others = [*placement.obstacles, *sorted(placement.before)]
    named = [f"'{name}' ({declined[name]})" for name in others if name in declined]
    return ran + (f"; of all these the GPU declines {', '.join(named)}" if named else "")


def _is_apt(
    graph: Graph, wanted: Sequence[str], placement: Placement, declined: Mapping[str, str]
) -> bool:
    """Tell whether devices take all that runs on shards, and processors need nothing but what that leaves."""
    reading = set(wanted)
    for name in graph.needed(wanted):
        if placement.places[name] == "caller":
            reading.update(graph.nodes[name].sources)
        elif placement.places[name] != "before" and name in declined:
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
