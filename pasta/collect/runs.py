"""Recording a program once for each of the collectors that cannot share a process.

What records a timeline of a device and what watches its memory exclude each other. The program then
runs once for each, and the traces are joined.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pasta.collect.collectors import COLLECTORS, CUPTI, ROCPROFILER, SANITIZER, Chosen
from pasta.collect.recording import Recorded
from pasta.collect.target.ranks import place
from pasta.errors import CollectError, TraceError
from pasta.trace import Trace

FOLDER = "runs"
"""Below the joined trace: the trace of each run, by its name."""

TIMELINE, MEMORY = "timeline", "memory"
_RUN_OF = {CUPTI: TIMELINE, ROCPROFILER: TIMELINE, SANITIZER: MEMORY}


@dataclass(frozen=True)
class Run:
    """One execution of the program.

    Attributes:
        name: what it is for.
        chosen: collector -> level.
    """

    name: str
    chosen: Chosen

    def __str__(self) -> str:
        levels = ", ".join(f"{name}:{level}" for name, level in self.chosen.items())
        return f"{self.name} run ({levels})"


def runs_of(chosen: Chosen) -> list[Run]:
    """Return the executions that collectors need, one where they can share a process.

    Collectors that share a process with all are in every execution, those that look on from
    outside in the first.

    Raises:
        CollectError: a collector needs an execution of its own that cannot be joined with others.
    """
    interfaces = {name: COLLECTORS[name].levels[level].interface for name, level in chosen.items()}
    alone = {name: interface for name, interface in interfaces.items() if interface}
    if len({_RUN_OF.get(interface, interface) for interface in alone.values()}) <= 1:
        return [Run("only", dict(chosen))]
    for name, interface in alone.items():
        if interface not in _RUN_OF:
            others = ", ".join(other for other in alone if other != name)
            raise CollectError(
                f"--with {name}: takes a run of its own, which cannot be joined with that of others;"
                f" leave out {others}"
            )

    return [Run(run, part_of_run(run, chosen)) for run in (TIMELINE, MEMORY)]


def part_of_run(run: str, chosen: Chosen) -> dict[str, str]:
    """Return the collectors that take part in the timeline run or the memory run of a program."""

    def takes(name: str, level: str) -> bool:
        interface = COLLECTORS[name].levels[level].interface
        if interface:
            return _RUN_OF.get(interface, interface) == run
        return run == TIMELINE or not COLLECTORS[name].outside

    return {name: level for name, level in chosen.items() if takes(name, level)}


def record_runs(
    runs: Sequence[Run],
    out: Path,
    record: Callable[[Chosen, Path], Recorded],
    say: Callable[[str], None],
) -> Recorded:
    """Record a timeline run and a memory run of a program and join them in `out`.

    The runs themselves stay in `out/runs`. A run that fails is the last one, and nothing is joined.

    Args:
        runs: the timeline run and the memory run.
        out: folder of the joined trace, absent or empty.
        record: records one run in a folder.
        say: tells people what happens.

    Returns:
        The joined trace; where a run failed, that run.

    Raises:
        TraceError: `out` holds something.
    """
    ranks = place(os.environ).world_size
    if ranks == 1 and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise TraceError(f"{out}: already exists and is not empty; choose another -o")
    recorded = []
    for number, run in enumerate(runs, 1):
        say(f"run {number} of {len(runs)}: {run}")
        recorded.append(record(run.chosen, out / FOLDER / run.name))
        if recorded[-1].exit_code:
            rest = "".join(f", the {later.name} run was not started" for later in runs[number:])
            say(
                f"the {run.name} run failed{rest}, nothing was joined; it is in {recorded[-1].path}"
            )
            return recorded[-1]
    if ranks > 1:
        folders = " ".join(str(each.path) for each in recorded)
        say(f"when all {ranks} ranks have ended, join them: pasta trace join {folders} -o DIR")
        return recorded[-1]
    return _joined(recorded, out, say)


def _joined(recorded: Sequence[Recorded], out: Path, say: Callable[[str], None]) -> Recorded:
    from pasta.trace_join import join_traces

    timeline, memory = (Trace.open(each.path) for each in recorded)
    joined = join_traces(timeline, memory, out.absolute())
    for line in (*map(str, joined.shares), *joined.notes):
        say(line)
    return Recorded(joined.path, recorded[-1].end, joined.rows)
