"""Every command in the docs runs, and what the docs show of its output is what it prints."""

from __future__ import annotations

import itertools
import os
import re
import sys
from pathlib import Path

import click
import pytest

from pasta import api
from pasta.cli import cli
from pasta.collect.collectors import parse_with
from tests.docs import shell
from tests.docs.givens import Givens
from tests.docs.pages import PAGES, REASONS, ROOT, Command, blocks, commands, mentioned

ALL = [command for page in PAGES for command in commands(page)]
OUTPUTS = {"-o", "--out", "--timings"}
ELISION = "..."


def _pages_that(reason: str) -> list[str]:
    return sorted({command.page for command in ALL if command.reason == reason})


def test_marks_give_a_reason_from_the_list_and_meet_a_command():
    for page in PAGES:
        for block in blocks(page):
            for mark in block.marks:
                assert mark.reason in REASONS, f"{block.page}:{block.line}: {mark.reason}"
                met = [c for c in block.commands() if c.text.startswith(mark.prefix)]
                assert met, f"{block.page}:{block.line}: no command begins with '{mark.prefix}'"


def test_most_commands_are_run():
    run = [command for command in ALL if not command.reason]
    assert len(run) > 100
    assert len(run) / len(ALL) > 0.6


def test_commands_stand_in_blocks_that_say_so():
    for page in PAGES:
        for block in blocks(page):
            if block.language not in ("sh", "console"):
                for text in block.lines:
                    assert not re.match(r"(\$ )?pasta [a-z]", text), f"{block.page}: {text}"


def test_other_programs_are_marked():
    for command in ALL:
        if not command.reason:
            programs = {step[0] for step in shell.steps(command.text)}
            assert programs <= {"pasta", *shell.RUN_BY_A_SHELL}, str(command)


@pytest.mark.parametrize("command", [c for c in ALL if c.reason], ids=str)
def test_what_is_not_run_is_understood(command):
    for arguments in shell.pasta_arguments(command.text):
        _understand(arguments)


MENTIONED = [(page.name, text) for page in PAGES for text in mentioned(page)]


def test_sentences_mention_commands_and_options_that_exist():
    assert len(MENTIONED) > 30
    for page, text in MENTIONED:
        for arguments in shell.pasta_arguments(text):
            command, rest = _resolve(arguments)
            own = itertools.takewhile(lambda word: word != "--", rest)
            given = {word.partition("=")[0] for word in own if word.startswith("-")}
            known = {"--help", *(name for option in command.params for name in option.opts)}
            assert given <= known, f"{page}: {text}"


def _resolve(arguments: list[str]) -> tuple[click.Command, list[str]]:
    """Return the command that the first words name, and the words that follow."""
    command: click.Command = cli
    rest = list(arguments)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        assert rest[0] in command.commands, " ".join(arguments)
        command, rest = command.commands[rest[0]], rest[1:]
    return command, rest


def _understand(arguments: list[str]) -> None:
    """Read a command line without running it; options, tools, parameters and collectors exist."""
    command, rest = _resolve(arguments)
    given = command.make_context(command.name, rest).params
    parse_with(given.get("collectors") or ())
    if "config" in given:
        settings = dict(setting.split("=", 1) for setting in given["settings"])
        api.check(given["config"], settings)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_of_a_page(page, tmp_path, monkeypatch):
    _run_page(page, tmp_path, monkeypatch, reason="")


@pytest.mark.torch
@pytest.mark.parametrize("page", _pages_that("needs PyTorch"))
def test_commands_that_record_pytorch(page, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    _run_page(ROOT / page, tmp_path, monkeypatch, reason="needs PyTorch")


@pytest.mark.parametrize("page", _pages_that("needs Dask"))
def test_commands_that_start_workers(page, tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    _run_page(ROOT / page, tmp_path, monkeypatch, reason="needs Dask")


@pytest.mark.gpu_check
@pytest.mark.parametrize("page", _pages_that("needs cudf-polars"))
def test_commands_that_check_for_a_gpu(page, tmp_path, monkeypatch):
    pytest.importorskip("cudf_polars")
    _run_page(ROOT / page, tmp_path, monkeypatch, reason="needs cudf-polars")


def _run_page(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, *, reason: str) -> None:
    monkeypatch.chdir(folder)
    programs = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    givens = Givens(str(page.relative_to(ROOT)), blocks(page), folder)
    for command in commands(page):
        if command.reason == reason:
            _run_command(command, givens, folder)


def _run_command(command: Command, givens: Givens, folder: Path) -> None:
    words = shell.words(command.text)
    outputs = [new for option, new in itertools.pairwise(words) if option in OUTPUTS]
    for output in outputs:
        givens.clear(output)
    givens.provide([word for word in words if word not in outputs])
    outcome = shell.run(command.text, folder)
    assert outcome.code == 0, f"{command}\n{outcome.output}"
    if command.shown:
        missing = _first_missing(list(command.shown), outcome.output.splitlines())
        assert missing is None, (
            f"{command}\nno line '{missing}' where it is shown in\n{outcome.output}"
        )


def _first_missing(shown: list[str], printed: list[str]) -> str | None:
    """Return the first line that is shown but not printed there.

    `...` alone stands for any lines, at the end of a line for its rest. `None`: it is as shown.
    """
    printed = "\n".join(map(str.rstrip, printed)).rstrip("\n").split("\n")
    at, anywhere = 0, False
    for text in map(str.rstrip, shown):
        if text == ELISION:
            anywhere = True
            continue
        places = range(at, len(printed) if anywhere else min(at + 1, len(printed)))
        found = next((place for place in places if _is_shown_as(text, printed[place])), None)
        if found is None:
            return text
        at, anywhere = found + 1, False
    return None if anywhere or at == len(printed) else f"{printed[at]} (printed, not shown)"


def _is_shown_as(text: str, printed: str) -> bool:
    if text.endswith(ELISION):
        return printed.startswith(text.removesuffix(ELISION))
    return printed == text


def test_outputs_are_compared():
    printed = ["a", "b  ", "", "c", "d e", ""]
    for shown in (["a", "b", "", "c", "d e"], ["...", "c", "..."], ["a", "...", "d..."], ["..."]):
        assert _first_missing(shown, printed) is None, shown
    assert _first_missing(["a", "c", "..."], printed) == "c"
    assert _first_missing(["b", "..."], printed) == "b"
    assert _first_missing(["...", "c", "b", "..."], printed) == "b"
    assert _first_missing(["a", "b"], printed) == " (printed, not shown)"
