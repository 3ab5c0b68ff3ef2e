"""One trace of those that the hosts of a run sent: on one clock, with the system's graph."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from pasta.collect.recording import epoch_offset
from pasta.schema import arrow_schema
from pasta.system.coordinator import Participant
from pasta.system.graph import Link, Node, System
from pasta.trace import RANK_FOLDER, Trace
from pasta.trace_combine import Combined, combine_traces, shift_ranks
from pasta.trace_writer import PartWriter


def assemble(
    system: System, participants: Sequence[Participant], out: Path, info: Mapping[str, Any]
) -> Combined:
    """Make one trace of what hosts sent, and remove what they sent.

    Args:
        system: the hosts, with their nodes.
        participants: the hosts whose traces are there.
        out: folder of the new trace, which holds nothing but those traces.
        info: what `trace.json` says of the run.

    Raises:
        TraceError: a trace cannot be read.
    """
    epoch = epoch_offset()
    clocks, traces = [], []
    for participant in participants:
        sent = Trace.open(participant.trace)
        clocks.append(clock := _clock(participant, sent, epoch))
        _add_nodes(sent, system, participant.entity.name)
        shifted = participant.trace.with_name(f"{participant.trace.name}.shifted")
        shifts = dict.fromkeys(_ranks(sent), clock["shift_ns"])
        shift_ranks(Trace.open(participant.trace), shifted, shifts, {})
        traces.append(Trace.open(shifted))
    ranks = [rank for trace in traces for rank in trace.ranks]
    told = {**info, "clock": {"name": "CLOCK_MONOTONIC", "aligned": clocks}}
    combined = combine_traces(traces, out, renumber=len(set(ranks)) < len(ranks), info=told)
    for participant in participants:
        shutil.rmtree(participant.trace)
        shutil.rmtree(participant.trace.with_name(f"{participant.trace.name}.shifted"))
    return combined


def node_rows(system: System, entity: str, rank: int) -> pa.Table:
    """Return the nodes of an entity as rows of the table `node`."""
    links = list(system.all_links())
    nodes = next(each.nodes for each in system.entities if each.name == entity)
    rows = [_row(node, entity, rank, links) for node in nodes]
    return pa.Table.from_pylist(rows, schema=arrow_schema("node"))


def _row(node: Node, entity: str, rank: int, links: Iterable[Link]) -> dict[str, Any]:
    name = f"{entity}/{node.name}"
    own = [
        (link.target if link.source == name else link.source, link)
        for link in links
        if name in (link.source, link.target)
    ]
    return {
        "rank": rank,
        "pid": 0,
        "entity": entity,
        "name": name,
        "kind": node.kind,
        "model": node.model,
        "device": node.device,
        "cores": list(node.cores),
        "memory_bytes": node.memory,
        "collectors": node.collectors.split(",") if node.collectors else [],
        "links": [other for other, _ in own],
        "link_kinds": [link.kind for _, link in own],
        "link_bandwidths": [link.bandwidth or 0 for _, link in own],
        "facts": [f"{key}: {value}" for key, value in node.facts.items()],
    }


def _add_nodes(trace: Trace, system: System, entity: str) -> None:
    """Add the nodes of an entity to the first rank of its trace."""
    rank = _ranks(trace)[0]
    folder = trace.path / RANK_FOLDER.format(rank) if trace.ranks else trace.path
    part = PartWriter(folder)
    part.append("node", node_rows(system, entity, rank))
    part.finish()


def _ranks(trace: Trace) -> list[int]:
    """Return the ranks of a trace, of which each has a row in `process`."""
    return sorted(trace.scan("process").collect()["rank"].unique()) or [0]


def _clock(participant: Participant, trace: Trace, epoch: int) -> dict[str, Any]:
    """Return by how much the clock of a host's trace was off, and what takes its times to this host's.

    The monotonic clocks differ by the middle of what was read before and after the run; that may be off by the
    larger error and half of what they drifted apart.
    """
    before, after = participant.before, participant.after
    assert before is not None and after is not None  # noqa: PT018, S101 - its trace is here
    drift = after.offset - before.offset
    monotonic = (before.offset + after.offset) // 2
    offset = monotonic + int(trace.info["clock"]["epoch_offset_ns"]) - epoch
    return {
        "entity": participant.entity.name,
        "offset_ns": offset,
        "shift_ns": -offset,
        "error_ns": max(before.error, after.error) + (abs(drift) + 1) // 2,
        "drift_ns": drift,
    }
