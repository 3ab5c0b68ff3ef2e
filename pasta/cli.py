"""The command line: a thin layer over the Python API; the only module that prints or exits.

Heavy modules are imported inside the commands, so that `pasta --help` answers at once.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click
from click.core import ParameterSource

import pasta
from pasta.cli_collect import (
    collect,
    control,
    new_folder,
    record,
    with_collect_options,
)
from pasta.cli_experiment import experiment
from pasta.cli_include import include
from pasta.cli_new import new
from pasta.cli_options import GivenPath, pairs
from pasta.cli_regress import regress
from pasta.cli_report import FORMATS, print_report, report_command
from pasta.cli_system import system
from pasta.cli_trace import trace
from pasta.errors import PastaError

if TYPE_CHECKING:
    from pasta.pipeline.engines.base import EngineOptions, OffGpu

if not hasattr(pasta, "__version__"):
    sys.exit(
        "pasta: google-pasta was installed over pasta-trace, and both own the module name 'pasta';"
        " remove it: pip uninstall google-pasta, then reinstall pasta-trace"
    )


class _Commands(click.Group):
    """The commands; one that stands in a group, as `trace export`, is pointed to by its name alone."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command as click does, or say in which group it stands.

        Raises:
            UsageError: it is only in groups.
        """
        groups = {
            name: each for name, each in self.commands.items() if isinstance(each, click.Group)
        }
        within = [
            f"pasta {name} {args[0]}" for name, each in groups.items() if args[0] in each.commands
        ]
        if args[0] not in self.commands and within and not ctx.resilient_parsing:
            raise click.UsageError(
                f"No such command '{args[0]}'. Did you mean {' or '.join(within)}?", ctx
            )
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(pasta.__version__, prog_name="pasta")
@click.option("--debug", is_flag=True, help="Show Python tracebacks of errors.")
def cli(*, debug: bool) -> None:
    """Ask why a GPU program is slow and what its kernels do to memory.

    A trace is a folder of Parquet tables; a tool is a YAML graph of stages that runs over it.

    \b
      pasta run working_set                     on the trace that ships with pasta
      pasta import rank0.json.gz -o t           make a trace from a PyTorch profile
      pasta run device_time --trace t           busy, exposed communication, idle
      pasta pipeline list                       all tools
    """  # noqa: D301 (\b keeps click from wrapping)


cli.add_command(collect)
cli.add_command(control)
cli.add_command(experiment)
cli.add_command(include)
cli.add_command(new)
cli.add_command(regress)
cli.add_command(report_command)
cli.add_command(system)
cli.add_command(trace)


@cli.group()
def pipeline() -> None:
    """Run, check and show tools."""


_run_options: list[Callable[[Any], Any]] = [
    click.argument("config"),
    click.option(
        "--trace", "traces", multiple=True, metavar="DIR|FILE",
        help="Trace, or trace file to import on the fly; may be given several times.",
    ),
    click.option(
        "--run", "runs", multiple=True, metavar="NAME=DIR|FILE",
        help="A named trace, for tools that compare runs.",
    ),
    click.option("--engine", default="auto", show_default=True, help="auto, cpu, gpu or dask."),
    click.option(
        "--workers", type=click.IntRange(min=1), metavar="N",
        help="Worker processes that the engine starts on this machine.",
    ),
    click.option(
        "--scheduler", metavar="ADDRESS", help="Dask scheduler whose workers to use instead."
    ),
    click.option(
        "--off-gpu", type=click.Choice(["raise", "cpu"]), default="raise", show_default=True,
        help="What happens to a stage that the GPU declines.",
    ),
    click.option(
        "--timings", type=GivenPath(path_type=Path), metavar="DIR",
        help="New folder for a trace of what each worker does when (--engine dask).",
    ),
    click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a parameter."),
    click.option(
        "--out", type=GivenPath(path_type=Path),
        help="Folder for Parquet outputs, and for the trace of a command.",
    ),
    click.option(
        "--format", "form", type=FORMATS, default="text", show_default=True,
        help="How to report; html writes a page, TOOL.html, into --out or here.",
    ),
    with_collect_options,
    click.argument("command", nargs=-1, type=click.UNPROCESSED),
]  # fmt: skip


def _with_run_options(function: Any) -> Any:
    for option in reversed(_run_options):
        function = option(function)
    return function


@pipeline.command("run")
@_with_run_options
def pipeline_run(**options: Any) -> None:
    """Run the tool CONFIG (a YAML file or a shipped tool's name) and print its report.

    With `-- COMMAND` at the end, the command runs once under the collectors that the tool needs,
    and the tool on what they saw.
    """
    _run(**options)


@cli.command("run")
@_with_run_options
def run(**options: Any) -> None:
    """Short for `pasta pipeline run`."""
    _run(**options)


def _run(
    *,
    config: str,
    traces: Sequence[str],
    runs: Sequence[str],
    engine: str,
    workers: int | None,
    scheduler: str | None,
    off_gpu: OffGpu,
    timings: Path | None,
    settings: Sequence[str],
    out: Path | None,
    form: str,
    command: Sequence[str],
    collectors: Sequence[str],
    **selected: Any,
) -> None:
    from pasta import api
    from pasta.pipeline.engines.base import EngineOptions

    options = EngineOptions(workers, scheduler, off_gpu, timings)
    if command:
        _run_command(
            config, command, collectors, selected, traces=traces, runs=runs, engine=engine,
            options=options, settings=settings, out=out, form=form,
        )  # fmt: skip
        return
    _refuse_of_recording({"collectors", *selected})
    report = api.run_tool(
        config,
        list(traces) or None,
        runs=pairs(runs, "--run"),
        engine=engine,
        options=options,
        out=out,
        parameters=pairs(settings, "--set"),
    )
    print_report(report, form, out)
    if out is not None and form == "text":
        click.echo(f"Parquet outputs in {out}")


def _refuse_of_recording(names: Collection[str]) -> None:
    """Refuse options that say how a program is recorded where there is none."""
    context = click.get_current_context()
    for option in context.command.params:
        is_given = context.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE
        if option.name in names and is_given:
            raise PastaError(
                f"{option.opts[0]} says how a program is recorded, and none is named: add -- COMMAND"
            )


def _run_command(
    config: str,
    command: Sequence[str],
    collectors: Sequence[str],
    selected: dict[str, Any],
    *,
    traces: Sequence[str],
    runs: Sequence[str],
    engine: str,
    options: EngineOptions,
    settings: Sequence[str],
    out: Path | None,
    form: str,
) -> None:
    """Collect what the tool needs from one execution of a command, then run the tool on it."""
    from pasta import api
    from pasta.collect.collectors import parse_with
    from pasta.collect.ladder import those_that_work

    if "--" not in sys.argv:
        raise PastaError(f"unexpected '{command[0]}'; a program to run stands after --")
    if traces or runs:
        raise PastaError("--trace and --run name recorded traces; leave them out with a command")
    parameters = pairs(settings, "--set")
    chosen, left_out = parse_with(collectors), list[str]()
    if not chosen:
        chosen, left_out = those_that_work(api.collectors_of(config, parameters), command)
    for reason in left_out:
        _complain(f"recorded without what does not work here: {reason}")
    trace = new_folder(config) if out is None else out / "trace"
    live = api.live_graph(config, parameters)
    recorded = record(command, trace, chosen, selected, live)
    code = recorded.exit_code
    try:
        report = api.run_tool(
            config, str(recorded.path), runs={}, engine=engine, options=options, out=out,
            parameters=parameters,
        )  # fmt: skip
    except PastaError as error:
        if code == 0:
            raise
        _complain(f"{error} (the program failed: {recorded.end})")
        sys.exit(code)
    print_report(report, form, out)
    sys.exit(code)


@pipeline.command("check")
@click.argument("configs", nargs=-1, required=True)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a parameter.")
@click.option(
    "--engine", default="cpu", show_default=True,
    help="cpu; gpu: what would leave the GPU, found without one; dask: where each stage runs.",
)  # fmt: skip
def pipeline_check(configs: Sequence[str], settings: Sequence[str], engine: str) -> None:
    """Check tools on empty tables: unknown stages, wrong arguments, missing columns."""
    from pasta import api
    from pasta.pipeline.engines.choice import engine_problems

    failures = []
    for config in configs:
        try:
            tool, graph = api.check(config, pairs(settings, "--set"))
        except PastaError as error:
            failures.append(config)
            _complain(str(error))
            continue
        click.echo(f"{config}: ok, {len(graph.nodes)} stages")
        for problem in engine_problems(tool, graph, engine):
            click.echo(f"  {problem}")
    if failures:
        raise PastaError(f"{len(failures)} of {len(configs)} tools are wrong")


@pipeline.command("show")
@click.argument("config")
@click.option("--mermaid", is_flag=True, help="As a Mermaid flowchart.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a parameter.")
def pipeline_show(config: str, *, mermaid: bool, settings: Sequence[str]) -> None:
    """Show a tool's graph: inputs, stages with their kinds and columns."""
    from pasta import api
    from pasta.pipeline.show import as_mermaid, as_text

    tool, graph = api.check(config, pairs(settings, "--set"))
    click.echo(as_mermaid(graph) if mermaid else as_text(tool, graph))


@pipeline.command("list")
def pipeline_list() -> None:
    """List the shipped tools."""
    from pasta.tools.shipped import ToolFiles, shipped_tools

    files = ToolFiles()
    tools = {name: files.tool(str(path)) for name, path in shipped_tools().items()}
    width = max(map(len, tools))
    for name, tool in tools.items():
        click.echo(f"{name:<{width}}  {tool.about}")


def _list_formats(context: click.Context, _option: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 (click's)
    if not wanted:
        return
    from pasta.collect.importer import IMPORTERS

    width = max(map(len, IMPORTERS))
    for name in IMPORTERS:
        click.echo(f"{name:<{width}}  {IMPORTERS.get(name).format}")
    context.exit()


@cli.command("import")
@click.argument("files", nargs=-1, required=True, type=GivenPath(path_type=Path))
@click.option("-o", "--out", required=True, type=GivenPath(path_type=Path), help="New folder.")
@click.option("--strict", is_flag=True, help="Stop at the first fault instead of counting it.")
@click.option(
    "--map",
    "column_map",
    type=GivenPath(path_type=Path),
    help="YAML that says what the columns of CSV, Parquet or Arrow files are.",
)
@click.option(
    "--rank",
    "ranks",
    multiple=True,
    type=click.IntRange(0, 2**31 - 1),
    metavar="N",
    help="Rank of a file, whatever it says itself; once for each file, in the same order.",
)
@click.option(
    "--formats", is_flag=True, expose_value=False, is_eager=True, callback=_list_formats,
    help="List the formats that files are recognised as, and exit.",
)  # fmt: skip
@click.option("--align", is_flag=True, help="Bring the clocks of ranks together: see trace align.")
def import_command(
    files: Sequence[Path],
    out: Path,
    column_map: Path | None,
    ranks: Sequence[int],
    *,
    strict: bool,
    align: bool,
) -> None:
    """Make a trace from FILES of other tools, plain, gzip or in archives, one for each rank."""
    from pasta.arrow_memory import take_from_c_library

    take_from_c_library()
    from pasta import api

    with _Progress() as progress:
        report = api.import_files(
            files,
            out,
            strict=strict,
            column_map=column_map,
            ranks=ranks,
            align=align,
            progress=progress.update,
        )
    print_report(report, "text")


@cli.command("doctor")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def doctor(form: str) -> None:
    """Say what works on this machine, and what to do about the rest.

    Exits with 0 unless pasta itself is broken.
    """
    from pasta.doctor.report import as_json, as_text, examine, is_broken
    from pasta.tools.units import printable

    report = examine()
    lines = [as_json(report)] if form == "json" else as_text(report).splitlines()
    for line in lines:
        click.echo(printable(line))
    sys.exit(int(is_broken(report)))


class _Progress:
    """A progress bar that appears only where the work takes longer than two seconds."""

    SECONDS = 2.0

    def __init__(self) -> None:
        import time

        self._begin = time.monotonic()
        self._clock = time.monotonic
        self._bar: Any = None
        self._task: Any = None

    def update(self, done: int, total: int) -> None:
        """Show that `done` of `total` bytes are read."""
        if self._bar is None:
            if self._clock() - self._begin < self.SECONDS or not sys.stderr.isatty():
                return
            from rich.console import Console
            from rich.progress import Progress

            self._bar = Progress(console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task("importing", total=total)
        self._bar.update(self._task, completed=done)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def _complain(text: str) -> None:
    """Print an error as one line that cannot drive the terminal."""
    from pasta.tools.units import printable

    click.echo(f"pasta: {printable(' '.join(text.split()))}", err=True)


def _with_help(error: click.ClickException) -> str:
    """Return what is wrong with a command, and where its options are told."""
    context = getattr(error, "ctx", None)
    told = error.format_message()
    if context is None:
        return told
    end = "" if told.endswith((".", "?")) else "."
    return f"{told}{end} See {context.command_path} --help"


def _check_texts(arguments: list[str]) -> None:
    """Check that all that stands before a `--` is UTF-8: what reads and writes tables takes no other names."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    for argument in arguments[:end]:
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            raise PastaError(f"{argument}: is not UTF-8; give it another name") from error


def _without_debug(arguments: list[str]) -> tuple[list[str], bool]:
    """Take `--debug` out wherever it stands before a `--`, so that every command accepts it."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    own = [argument for argument in arguments[:end] if argument != "--debug"]
    return own + arguments[end:], len(own) < end


def main() -> None:
    """Run the command line; errors are one line, with a traceback only under `--debug`."""
    arguments, debug = _without_debug(sys.argv[1:])
    try:
        _check_texts(arguments)
        cli.main(arguments, prog_name="pasta", standalone_mode=False)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        _complain(_with_help(error))
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:  # noqa: BLE001 (the one place where errors become exit codes)
        if debug:
            traceback.print_exc()
        expected = isinstance(error, PastaError)
        text = str(error) if expected else f"internal error: {error!r}; see --debug"
        _complain(text)
        sys.exit(error.exit_code if isinstance(error, PastaError) else 1)
