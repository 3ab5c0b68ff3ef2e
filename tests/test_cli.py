"""The command line: output, exit codes, and one-line errors without a traceback."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from pasta.cli import cli
from pasta.tools.shipped import shipped_tools

ROOT = Path(__file__).parent.parent


def pasta(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pasta", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd or ROOT, env=environment, check=False
    )


def test_help_names_the_commands():
    result = pasta("--help")
    assert result.returncode == 0
    for command in ("import", "pipeline", "run", "trace"):
        assert f"\n  {command} " in result.stdout


def test_a_shipped_tool_runs_on_the_shipped_trace_and_says_so():
    result = pasta("pipeline", "run", "configs/working_set.yaml")
    assert result.returncode == 0, result.stderr
    assert "the trace that ships with pasta" in result.stdout
    assert "working set" in result.stdout


def test_json_is_the_last_line_and_exact():
    result = pasta("run", "working_set", "--format", "json", "--set", "top=3")
    report = json.loads(result.stdout.splitlines()[-1])
    assert report["tool"] == "working_set"
    assert report["parameters"] == {"top": 3}
    assert len(report["tables"]["largest"]) == 3
    facts = report["facts"]
    assert facts["ratio"] == facts["footprint_bytes"] / facts["working_set_bytes"]
    assert {"facts", "findings", "tables", "losses"} <= set(report)


def test_a_missing_config_path_whose_stem_ships_is_that_tool(tmp_path):
    assert pasta("pipeline", "check", "configs/summary.yaml", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("tool", list(shipped_tools()))
def test_every_shipped_tool_checks_and_shows(tool):
    checked, shown, drawn = (
        CliRunner().invoke(cli, ["pipeline", *arguments, tool])
        for arguments in (["check"], ["show"], ["show", "--mermaid"])
    )
    assert (checked.exit_code, shown.exit_code, drawn.exit_code) == (0, 0, 0)
    assert shown.stdout
    assert drawn.stdout.startswith("flowchart LR")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["run", "workingset"], 2, "no such file or shipped tool 'workingset'. Did you mean 'working_set'?"),
        (["run", "working_set", "--trace", "nowhere"], 2, "nowhere: no such file or directory"),
        (["run", "working_set", "--trace", "docs"], 2, "docs: not a pasta trace (no trace.json)"),
        (["run", "working_set", "--set", "top"], 2, "--set top: expected NAME=VALUE"),
        (["run", "working_set", "--set", "top=many"], 2, "parameters.top: expected int, got 'many'"),
        (["run", "working_set", "--set", "trace=5"], 2, "parameters.trace: tool 'working_set' has no such parameter"),
        (["run", "working_set", "--set", "top=1", "--set", "top=2"], 2, "--set top=2: 'top' is given twice"),
        (["run", "working_set", "--run", "a=x", "--run", "a=y"], 2, "'a' is given twice"),
        (["run", "working_set", "--trace", ""], 2, "a trace has no name"),
        (["run", "touch_from_access"], 2, "no trace was named"),
        (["run", "working_set", "--set", "tob=3"], 2, "no such parameter. Did you mean 'top'?"),
        (["run", "working_set", "--engine", "gpu2"], 2, "no engine 'gpu2'"),
        (["run", "touch_from_access"], 2, "needs the table 'access', which this trace lacks"),
        (["trace", "schema", "kernels"], 2, "no table 'kernels'. Did you mean 'kernel'?"),
        (["import", "nowhere.json", "-o", "x"], 2, "nowhere.json"),
        (["import", "nowhere.json"], 2, "Missing option '-o' / '--out'. See pasta import --help"),
        (["import", "a", "-o", "x", "--rank", "-3"], 2, "--rank': -3 is not in the range"),
        (["import", "a", "-o", "x", "--stict"], 2, "No such option '--stict'. Did you mean '--strict'? See pasta import --help"),
        (["trace", "merge", "a", "b", "-o", ""], 2, "'-o' / '--out': It is empty; name a file or folder. See pasta trace merge --help"),
        (["impotr"], 2, "No such command 'impotr'."),
        (["export", "t"], 2, "No such command 'export'. Did you mean pasta trace export?"),
    ],
)  # fmt: skip
def test_errors_are_one_line(arguments, code, message):
    result = pasta(*arguments)
    assert result.returncode == code
    assert message in result.stderr
    assert result.stderr.startswith("pasta: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr


def path_parameters(group: click.Group) -> Iterator[tuple[str, click.Parameter]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", each) for inner, each in path_parameters(command))
        else:
            yield from (
                (name, each) for each in command.params if isinstance(each.type, click.Path)
            )


def test_no_path_of_any_command_is_empty():
    """One from a variable that is not set would write into the current folder."""
    parameters = list(path_parameters(cli))
    assert {"run", "import", "report", "trace merge", "trace export"} < {
        name for name, _ in parameters
    }
    for _, parameter in parameters:
        with pytest.raises(click.BadParameter, match="It is empty"):
            parameter.type.convert("", parameter, None)


def test_a_line_that_is_being_typed_is_completed_after_a_command_of_a_group():
    completion = ShellComplete(cli, {}, "pasta", "_PASTA_COMPLETE")
    assert "trace" in [each.value for each in completion.get_completions(["export"], "")]


def test_debug_shows_the_traceback_wherever_it_stands():
    assert "Traceback" in pasta("run", "workingset", "--debug").stderr
    assert "Traceback" in pasta("--debug", "run", "workingset").stderr


def test_a_misspelt_stage_is_named_with_its_path(tmp_path):
    config = tmp_path / "tool.yaml"
    text = (ROOT / "configs" / "kernel_frequency.yaml").read_text()
    config.write_text(text.replace("use: aggregate", "use: agregate", 1))
    result = pasta("pipeline", "check", config)
    assert result.returncode == 2
    assert "stages.by_name.use: no stage 'agregate'. Did you mean 'aggregate'?" in result.stderr


def test_check_goes_on_after_a_mistake(tmp_path):
    (tmp_path / "bad.yaml").write_text("version: 2")
    result = pasta("pipeline", "check", tmp_path / "bad.yaml", "summary")
    assert result.returncode == 2
    assert "summary: ok" in result.stdout
    assert "1 of 2 tools are wrong" in result.stderr


def test_a_reader_that_stops_is_no_error():
    command = f"{sys.executable} -m pasta run working_set | head -2"
    result = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert result.returncode == 0
    assert result.stderr == ""


def test_schema_is_printed_with_units():
    result = pasta("trace", "schema", "kernel")
    assert "| dur | int64 | ns |" in result.stdout


def test_outputs_are_written_under_out_only(tmp_path):
    result = pasta("run", "working_set", "--out", tmp_path / "o")
    assert result.returncode == 0, result.stderr
    written = sorted(path.name for path in (tmp_path / "o").iterdir())
    assert written == ["by_name.parquet", "sorted.parquet", "units.parquet"]


def test_names_from_traces_are_not_markup(make_trace):
    name = "[red]<script>alert(1)</script>[/red]"
    row = {"device": 0, "ts": 0, "dur": 5, "launch_id": 1, "name": name}
    trace = make_trace(kernel=[row])
    assert name in pasta("run", "kernel_frequency", "--trace", trace.path).stdout


@pytest.mark.parametrize("option", [("--with", "torch"), ("--steps", "1:2"), ("--stacks",)])
def test_options_of_a_recording_without_a_program_are_refused(option):
    refused = CliRunner().invoke(cli, ["run", "kernel_frequency", *option])
    assert str(refused.exception) == (
        f"{option[0]} says how a program is recorded, and none is named: add -- COMMAND"
    )


def test_an_interrupt_while_the_command_line_is_loaded_ends_it_quietly(tmp_path):
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    command = [sys.executable, "-m", "pasta", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_page_that_has_no_room_leaves_nothing(tmp_path, monkeypatch):
    def full(path, _text, **_options):
        path.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    told = CliRunner().invoke(
        cli, ["run", "kernel_frequency", "--format", "html", "--out", str(tmp_path)]
    )
    assert str(told.exception).endswith("cannot be written (No space left on device)")
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("option", ["--trace", "--out", "--match"])
def test_names_that_are_no_utf8_are_refused(option):
    done = pasta("run", "working_set", option, "\udcff")
    assert done.returncode == 2
    assert done.stderr.endswith(": is not UTF-8; give it another name\n")
    assert done.stderr.count("\n") == 1
