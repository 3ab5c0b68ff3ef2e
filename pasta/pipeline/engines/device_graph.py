"""A graph run on one device, on which its rows stay."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from pasta.pipeline.device_rows import Device, DeviceRows
from pasta.pipeline.engines.gpu_check import device_code
from pasta.pipeline.engines.graph_run import GraphRun
from pasta.pipeline.graph import Graph, Node, mistakes_named


class DeviceGraph(GraphRun):
    """Runs plans and array code on one device.

    Nothing is copied to the host but the rows of the report, and what feeds declined stages.
    """

    def __init__(self, graph: Graph, device: Device, declined: Mapping[str, str]) -> None:
        """Take the graph, where to run it, and which of its nodes the device declines, and why."""
        super().__init__(graph, declined)
        self._device = device

    def hold(self, plan: pl.LazyFrame) -> pl.LazyFrame:
        """Run `plan` and leave its rows on the device."""
        rows = DeviceRows(self._device, plan)
        rows.hold()
        return rows.lazy()

    def download(self, plan: pl.LazyFrame) -> pl.DataFrame:
        """Run `plan` and copy its rows to the host."""
        return self._device.download(self._device.evaluate(plan))

    def run_arrays(self, node: Node, plans: Mapping[str, pl.LazyFrame]) -> pl.LazyFrame:
        """Run array code on the device; what feeds it is run when the code first asks for it."""
        rows = {name: DeviceRows(self._device, node.narrowed(plans[name])) for name in node.sources}
        return run_code(node, rows).lazy()


def run_code(node: Node, rows: Mapping[str, DeviceRows]) -> DeviceRows:
    """Run the array code of a node; a mistake in how it is used is named with its path.

    Args:
        node: a node that has array code.
        rows: the rows of each of its sources.
    """
    code = device_code(node)
    assert code is not None, node.name  # noqa: S101 (said above)
    frames = [None if name is None else rows[name] for name in node.positional]
    with mistakes_named(node):
        result: DeviceRows = code(*frames, **node.arguments)
        result.hold()
    return result
