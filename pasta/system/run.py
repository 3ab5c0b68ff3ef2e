"""A recording on several hosts, from the system's graph to the trace."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pasta.collect.collectors import DEFAULT, Chosen, parse_with
from pasta.collect.runs import FOLDER, MEMORY, TIMELINE, part_of_run, runs_of
from pasta.errors import CollectError, ConfigError, TraceError
from pasta.system.assemble import assemble
from pasta.system.coordinator import Coordinator, Participant
from pasta.system.graph import Entity, System
from pasta.system.text import read_entity, system_text
from pasta.trace import Trace
from pasta.trace_join import join_traces

SENT = "entities"
"""Folder of the traces that hosts send, in that of the trace."""


@dataclass(frozen=True)
class Outcome:
    """What came of a run.

    Attributes:
        lines: what to tell the user.
        exit_code: that of the first host whose program failed; 1 where a host was lost.
    """

    lines: list[str]
    exit_code: int


@dataclass(frozen=True)
class Request:
    """What a user asks for.

    Attributes:
        system: the hosts.
        command: program and arguments, of hosts that name none of their own.
        options: values of the options that say what is recorded.
        address: what hosts reach this one by; empty: its name.
        wait: seconds that hosts may take to answer.
        keep_going: let the programs of other hosts go on where one fails.
    """

    system: System
    command: Sequence[str]
    options: Mapping[str, Any]
    address: str = ""
    wait: float = 60.0
    keep_going: bool = False


def run_system(request: Request, out: Path, say: Callable[[str], None]) -> Outcome:
    """Run a command on every host of a system and make one trace of what they record.

    Where the collectors of a host cannot share a process, all hosts run their programs twice, and the two
    traces are joined; each run stays in `out/runs`.

    Args:
        request: what is run, where and how.
        out: folder of the trace; absent or empty.
        say: tells people what happens.

    Raises:
        CollectError: a host did not answer, or cannot record; no program of that run has begun then.
        TraceError: `out` holds something.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise TraceError(f"{out}: already exists and is not empty; choose another -o")
    chosen = [_chosen(entity, request.options["collectors"]) for entity in request.system.entities]
    if max(len(runs_of(each)) for each in chosen) == 1:
        return _run_once(request, chosen, out)
    _check_all_take_part(request.system, chosen)
    lines: list[str] = []
    for number, name in enumerate((TIMELINE, MEMORY), 1):
        say(f"run {number} of 2: {name}")
        own = [part_of_run(name, each) for each in chosen]
        outcome = _run_once(request, own, out / FOLDER / name)
        lines += outcome.lines
        if outcome.exit_code:
            return Outcome(
                [*lines, f"the {name} run failed, nothing was joined"], outcome.exit_code
            )
    timeline, memory = (Trace.open(out / FOLDER / name) for name in (TIMELINE, MEMORY))
    joined = join_traces(timeline, memory, out.absolute())
    lines += [*map(str, joined.shares), *joined.notes]
    return Outcome([*lines, f"the runs are joined in {joined.path} ({_counted(joined.rows)})"], 0)


def _check_all_take_part(system: System, chosen: Sequence[Chosen]) -> None:
    """Check that each collector has a place in the timeline run or the memory run."""
    for entity, each in zip(system.entities, chosen, strict=True):
        left = each.keys() - part_of_run(TIMELINE, each) - part_of_run(MEMORY, each).keys()
        if left:
            raise CollectError(
                f"{entity.name}: {', '.join(sorted(left))} takes a run of its own, which cannot be joined with"
                " the two that other collectors need; leave it out, or them"
            )


def _run_once(request: Request, chosen: Sequence[Chosen], out: Path) -> Outcome:
    """Run the programs once, recorded by the collectors that were chosen for each host."""
    system = request.system
    tasks = {
        entity.name: _task(request, place, chosen[place])
        for place, entity in enumerate(system.entities)
    }
    out.mkdir(parents=True, exist_ok=True)
    sent = out / SENT
    coordinator = Coordinator(
        *(system, tasks, sent),
        address=request.address,
        wait_seconds=request.wait,
        keep_going=request.keep_going,
    )
    try:
        participants = coordinator.run()
    except BaseException:
        shutil.rmtree(sent, ignore_errors=True)
        raise
    here = [participant for participant in participants if not participant.problem]
    if not here:
        raise CollectError("; ".join(_lost(participant) for participant in participants))
    known = _with_nodes(system, participants)
    lost = [_lost(participant) for participant in participants if participant.problem]
    info = {"system": system_text(known), **({"lost_entities": lost} if lost else {})}
    made = assemble(known, here, out, info)
    shutil.rmtree(sent)  # a host that was lost may have sent a part of its trace
    lines = [f"{each.entity.name}: the program ended with {each.end}" for each in here]
    lines += lost
    first = coordinator.failed
    if first and len(participants) > 1 and not request.keep_going:
        lines.append(f"{first.entity.name} failed first; programs that still ran were ended")
    lines.append(f"trace in {made.path} ({_counted(made.rows)})")
    return Outcome(lines, (first.code or 1) if first else 0)


def _counted(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{table} {count:,}" for table, count in rows.items() if count)


def _task(request: Request, place: int, chosen: Chosen) -> dict[str, Any]:
    """Return what the member of an entity is to do."""
    entity = request.system.entities[place]
    own = list(entity.command or request.command)
    if not own:
        raise CollectError(
            f"{entity.name}: no program to run; give one after --, or as its `command`"
        )
    options = request.options.items()
    return {
        "command": own,
        "chosen": dict(chosen),
        "options": {name: value for name, value in options if name != "collectors"},
        "cores": entity.cores,
        "collector_cores": entity.collector_cores,
        "environment": {
            "PASTA_ENTITY": entity.name,
            "PASTA_ENTITY_INDEX": str(place),
            "PASTA_ENTITIES": str(len(request.system.entities)),
        },
    }


def _chosen(entity: Entity, given: Sequence[str]) -> Chosen:
    """Return what records an entity: what its nodes name and what all have, else the default."""
    return parse_with([*given, *entity.collectors]) or dict(DEFAULT)


def _with_nodes(system: System, participants: Sequence[Participant]) -> System:
    """Return the system in which hosts that the file tells nothing of have the nodes that they found."""
    return dataclasses.replace(
        system, entities=tuple(_filled(participant) for participant in participants)
    )


def _filled(participant: Participant) -> Entity:
    entity = participant.entity
    if entity.nodes:
        return entity
    try:
        found = read_entity(entity.name, participant.nodes)
    except ConfigError:
        return entity
    return dataclasses.replace(entity, nodes=found.nodes, links=found.links)


def _lost(participant: Participant) -> str:
    name = participant.entity.name
    return f"{name}: {participant.problem.removeprefix(f'{name}: ')}; its trace is not here"
