"""The commands that run programs: `pasta collect`, `pasta control`, and `-- COMMAND` of `run`."""

from __future__ import annotations

import contextlib
import datetime
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pasta.cli_options import GivenPath, Seconds
from pasta.errors import PastaError

if TYPE_CHECKING:
    from pasta.collect.companions.options import HostOptions
    from pasta.collect.cuda_memory import MemoryOptions
    from pasta.collect.recording import Reception, Recorded, Watcher
    from pasta.collect.selection import Selection
    from pasta.pipeline.live import LiveGraph

_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

collect_options: list[Callable[[Any], Any]] = [
    click.option(
        "--with", "collectors", multiple=True, metavar="NAME[:LEVEL],...",
        help="Collectors and how closely they look, as torch:timeline.",
    ),
    click.option(
        "--steps", metavar="A:B[:N]",
        help="Record steps A to B only, and of those every Nth; counted from 0.",
    ),
    click.option("--seconds", type=Seconds(min=0), help="Record for so long in all."),
    click.option("--match", metavar="REGEX", help="Keep operators and kernels of such names only."),
    click.option(
        "--max-bytes", metavar="SIZE", help="Stop recording when the trace is as large, as 500M."
    ),
    click.option(
        "--cycle", "cycle_seconds", type=Seconds(min=0.05),
        help="Longest cycle of PyTorch's profiler in seconds; a kill loses the open one.",
    ),
    click.option(
        "--stacks", is_flag=True,
        help="Record call stacks: Python's of operators, native ones of launches.",
    ),
    click.option(
        "--counters", metavar="NAME,...",
        help="Counters that cuda.counters takes in place of its level's, by ncu's names.",
    ),
    click.option(
        "--nvtx-include", "ranges", multiple=True, metavar="RANGE",
        help="NVTX range in which cuda.counters counts, in ncu's notation, as train/ for a pushed one.",
    ),
    click.option(
        "--period", "period_seconds", type=Seconds(min=0.001), default=0.1,
        show_default=True, help="Seconds from one sample of nvml to the next.",
    ),
    click.option(
        "--launches", default="", metavar="A:B[:N]",
        help="Launches whose memory cuda.memory watches, and of those every Nth; counted from 0.",
    ),
    click.option(
        "--granularity", metavar="SIZE", help="Unit of cuda.memory's unique bytes (default: 512)."
    ),
    click.option(
        "--block", metavar="SIZE", help="Unit of cuda.memory's counts by block (default: 64K; at level access 512)."
    ),
    click.option(
        "--blocks", default="", metavar="A:B",
        help="Blocks of the grid whose accesses cuda.memory:access records.",
    ),
    click.option(
        "--records", type=click.Choice(["written", "counted"]), default="written",
        help="Whether accesses that cuda.memory:access records become rows, or are only counted.",
    ),
    click.option(
        "--all-spaces", is_flag=True,
        help="Let cuda.memory look at shared and local memory too.",
    ),
    click.option(
        "--tensor-loads", default="", metavar="HOW",
        help="How cuda.memory tells of tensor copies (TMA): mapped, by what the tensor maps that a kernel is given span;"
        " watched, each, at 10 to 20 times a kernel's time; or none. (Default: watched where accesses are counted by object or instruction, else mapped.)",
    ),
    click.option(
        "--switch-patches", is_flag=True,
        help="Let kernels bear patches of cuda.memory only while launches are watched, and for good from a CUDA graph on.",
    ),
    click.option(
        "--instructions", is_flag=True, help="Let cuda.memory count accesses by instruction."
    ),
    click.option(
        "--events", is_flag=True,
        help="Let cuda.memory count barriers, calls and the like by instruction.",
    ),
    click.option(
        "--in-range", "within", default="", metavar="REGEX",
        help="Let cuda.memory watch launches only where an NVTX range of such a name is open.",
    ),
    click.option(
        "--serial", is_flag=True, help="Let cuda.memory wait for each launch, so that none overlap."
    ),
    click.option(
        "--device-memory", metavar="SIZE",
        help="Device memory that cuda.memory may use (default: 64M).",
    ),
    click.option(
        "--frequency", type=click.IntRange(min=1, max=100_000), default=99, show_default=True,
        help="Samples of cpu a second, of each CPU that is busy.",
    ),
    click.option(
        "--event", "sampled_events", multiple=True, metavar="NAME[@PERIOD[:UNIT]]",
        help="Event of perf that cpu samples too, as page-faults@1:faults or sched:sched_switch.",
    ),
    click.option(
        "--probe", "probes", multiple=True, metavar="KIND:FILE:NAME",
        help="What probes watches: uprobe, uretprobe or usdt, or cuda.driver, cuda.runtime, nccl, mpi.",
    ),
    click.option(
        "--slow-probes", is_flag=True,
        help="Set also probes that take 10 to 20 us a hit.",
    ),
    click.option(
        "--python-frames", is_flag=True,
        help="Let Python (3.12 and newer) tell of its functions, for cpu:fp, cpu:dwarf and what takes root.",
    ),
    click.option("--native", is_flag=True, help="Let cpu:pyspy tell native frames too."),
    click.option(
        "--gil", is_flag=True, help="Let cpu:python and cpu:pyspy tell only threads that hold Python's lock."
    ),
    click.option(
        "--idle-threads", "idle_threads", is_flag=True, help="Let cpu:pyspy tell threads that wait, too."
    ),
    click.option(
        "--serialize", is_flag=True,
        help="Run the program one thing at a time: what contains what is clear, times are not its own.",
    ),
    click.option("--idle", is_flag=True, help="Record nothing until told to (pasta control)."),
    click.option(
        "--live/--no-live", default=None,
        help="Show the recording at the bottom of the terminal; by default where a tool runs.",
    ),
]  # fmt: skip


def with_collect_options(function: Any) -> Any:
    """Add the options that say what is recorded."""
    for option in reversed(collect_options):
        function = option(function)
    return function


@click.command("collect")
@with_collect_options
@click.option(
    "-o", "--out", required=True, type=GivenPath(path_type=Path), help="Folder of the new trace."
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def collect(*, out: Path, command: Sequence[str], **options: Any) -> None:
    """Run COMMAND under collectors and keep what they see as a trace.

    A timeline and memory together take two runs of the command, which are joined.

    \b
      pasta collect -o t -- python train.py
      pasta collect --with torch:timeline -o t -- torchrun --nproc-per-node 2 train.py
      pasta collect --with torch:touch --steps 3:5 -o t -- python train.py
      pasta collect --with cuda:calls,cuda.memory -o t -- ./vecadd
    """  # noqa: D301 (\b keeps click from wrapping)
    from pasta.collect.collectors import DEFAULT, parse_with

    chosen = parse_with(options.pop("collectors")) or dict(DEFAULT)
    recorded = record(command, out, chosen, options)
    sys.exit(recorded.exit_code)


def record(
    command: Sequence[str],
    out: Path,
    chosen: dict[str, str],
    options: dict[str, Any],
    live: LiveGraph | None = None,
) -> Recorded:
    """Run a command under collectors and say on the error stream what came of it.

    Where collectors cannot share a process, the command runs once for each of them.

    Args:
        command: program and arguments.
        out: folder of the trace.
        chosen: collector -> level.
        options: values of the options that say what is recorded.
        live: the tool to show meanwhile at the bottom of the terminal.

    Raises:
        PastaError: an option lacks the collector that it goes with, or the command cannot be
            recorded.
    """
    from pasta.collect.recording import record_command
    from pasta.collect.runs import record_runs, runs_of

    for option, name in (("counters", "--counters"), ("ranges", "--nvtx-include")):
        if options[option] and "cuda.counters" not in chosen:
            raise PastaError(f"{name} goes with --with cuda.counters")
    wanted = options.pop("live")
    shown = live is not None if wanted is None else wanted
    selected = selection(options)

    def record_one(chosen: dict[str, str], path: Path) -> Recorded:
        with _shown(live, path.name, wanted=shown) as watchers:
            recorded = record_command(command, path, chosen, selected, watchers)
        _say(_summary(recorded))
        for message in filter(None, (*recorded.notes, recorded.warning, recorded.failure)):
            _say(message)
        return recorded

    runs = runs_of(chosen)
    if len(runs) == 1:
        return record_one(chosen, out)
    joined = record_runs(runs, out, record_one, _say)
    if joined.path == out.absolute():
        _say(f"the runs are joined in {joined.path} ({_rows(joined)})")
    return joined


def _say(message: str) -> None:
    click.echo(f"pasta: {message}", err=True)


@contextlib.contextmanager
def _shown(live: LiveGraph | None, run: str, *, wanted: bool) -> Iterator[list[Watcher]]:
    """Yield what must watch the recording so that the live view shows it, if it is wanted."""
    if not (wanted and sys.stderr.isatty()):
        yield []
        return
    from pasta.tools.live_report import Status
    from pasta.tools.live_view import LiveView

    def status(reception: Reception) -> Status:
        losses: Counter[str] = Counter()
        for loss in reception.channel.losses():
            losses[loss.reason] += loss.rows or loss.batches
        return Status(
            seconds=reception.seconds,
            rows=dict(reception.receiver.rows),
            bytes=reception.receiver.bytes,
            losses=losses,
            fill=reception.channel.fill,
            processes=reception.channel.processes,
        )

    with LiveView(live, run) as view:

        def watch(reception: Reception) -> None:
            if view.offer not in reception.receiver.listeners:
                reception.receiver.listeners.append(view.offer)
            view.watch(lambda: status(reception))

        yield [watch]


def new_folder(tool: str) -> Path:
    """Return a folder name for a trace that nobody named."""
    now = datetime.datetime.now().astimezone()
    return Path(f"pasta-{Path(tool).stem}-{now:%Y%m%d-%H%M%S}")


def selection(options: dict[str, Any]) -> Selection:
    """Return what the options select of a run.

    Raises:
        PastaError: one cannot be read; with its name.
    """
    from pasta.collect.selection import Selection

    match = options["match"]
    if match is not None:
        _check_pattern(match)
    return Selection(
        steps=_steps(options["steps"]),
        seconds=options["seconds"],
        match=match,
        max_bytes=_size("--max-bytes", options["max_bytes"]),
        idle=options["idle"],
        serialize=options["serialize"],
        stacks=options["stacks"],
        cycle_seconds=options["cycle_seconds"],
        counters=tuple(filter(None, (options["counters"] or "").replace(" ", "").split(","))),
        ranges=options["ranges"],
        period_seconds=options["period_seconds"],
        memory=_memory_options(options),
        host=_host_options(options),
    )


def _host_options(options: dict[str, Any]) -> HostOptions:
    from pasta.collect.companions.options import HostOptions

    return HostOptions(
        frequency=options["frequency"],
        events=options["sampled_events"],
        python_frames=options["python_frames"],
        native=options["native"],
        gil=options["gil"],
        idle=options["idle_threads"],
        probes=options["probes"],
        slow_probes=options["slow_probes"],
    )


def _memory_options(options: dict[str, Any]) -> MemoryOptions:
    from pasta.collect.cuda_memory import MemoryOptions

    return MemoryOptions(
        granularity=_size("--granularity", options["granularity"]),
        block=_size("--block", options["block"]),
        launches=options["launches"],
        blocks=options["blocks"],
        records=options["records"],
        every_space=options["all_spaces"],
        tensor_loads=options["tensor_loads"],
        switched=options["switch_patches"],
        instructions=options["instructions"],
        events=options["events"],
        within=options["within"],
        serial=options["serial"],
        device_bytes=_size("--device-memory", options["device_memory"]),
    )


def _steps(text: str | None) -> tuple[int, int | None, int] | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\d*):(\d*)(?::(\d+))?", text, re.ASCII)
    if found is None:
        raise PastaError(f"--steps {text}: expected FIRST:LAST or FIRST:LAST:EVERY, as 10:20:2")
    first, last = int(found[1] or 0), int(found[2]) if found[2] else None
    every = int(found[3] or 1)
    if every < 1 or (last is not None and last < first):
        raise PastaError(f"--steps {text}: selects no step; FIRST may not be beyond LAST")
    return first, last, every


def _size(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\d+)\s*([KMGT]?)(?:i?B)?", text.strip(), re.ASCII | re.IGNORECASE)
    if found is None:
        raise PastaError(f"{option} {text}: expected a size, as 500M or 2GiB")
    return int(found[1]) * _SIZES[found[2].upper()]


def _check_pattern(pattern: str) -> None:
    import polars as pl

    try:
        re.compile(pattern)
        pl.Series([""]).str.contains(pattern)
    except (re.error, pl.exceptions.PolarsError) as error:
        why = " ".join(str(error).split())
        raise PastaError(f"--match {pattern}: no regular expression ({why})") from error


def _summary(recorded: Recorded) -> str:
    return f"the program ended with {recorded.end}; trace in {recorded.path} ({_rows(recorded)})"


def _rows(recorded: Recorded) -> str:
    return ", ".join(f"{table} {count:,}" for table, count in recorded.rows.items() if count)


@click.command("control")
@click.argument("pid", type=int)
@click.argument("action", type=click.Choice(["start", "stop", "status"]))
@click.option("--steps", type=click.IntRange(min=1), help="With start: record so many steps.")
def control(*, pid: int, action: str, steps: int | None) -> None:
    """Start or stop recording in a job that runs under `pasta collect`, or ask how it fares.

    PID is the process id of `pasta collect` or of a program under it.
    """
    from pasta.collect import control as controls

    if action == "status":
        for name, value in controls.status(pid).items():
            click.echo(f"{name}: {' '.join(str(value).split())}")
        return
    if steps is not None and action == "stop":
        raise PastaError("--steps goes with start")
    controls.ask(pid, record=action == "start", steps=steps)
    click.echo(f"asked process {pid} to {action} recording" + (f" {steps} steps" if steps else ""))
