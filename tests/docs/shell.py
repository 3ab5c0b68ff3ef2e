"""The part of a shell that the docs use: `pasta` runs in this process, which takes no start-up."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pasta.cli import main

RUN_BY_A_SHELL = ("printf", "cat", "ls", "head")


@dataclass(frozen=True)
class Outcome:
    """What a command came to."""

    code: int
    output: str


def words(text: str) -> list[str]:
    """Split what is typed into words, without comments; `&&`, `|` and `>` are words too."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return list(lexer)


def steps(text: str) -> list[list[str]]:
    """Return the words of the programs that `&&` joins."""
    found: list[list[str]] = [[]]
    for word in words(text):
        if word == "&&":
            found.append([])
        else:
            found[-1].append(word)
    return [step for step in found if step]


def pasta_arguments(text: str) -> list[list[str]]:
    """Return the arguments of each `pasta` among the programs, without what it is piped into."""
    calls = [step[1:] for step in steps(text) if step[0] == "pasta"]
    return [call[: call.index("|")] if "|" in call else call for call in calls]


def run(text: str, folder: Path) -> Outcome:
    """Run what is typed, in `folder`, which is the current one."""
    output = ""
    for step in steps(text):
        outcome = _run_pasta(step[1:]) if step[0] == "pasta" else _run_shell(text, folder)
        output += outcome.output
        if outcome.code or step[0] != "pasta":
            return Outcome(outcome.code, output)
    return Outcome(0, output)


def _run_pasta(arguments: list[str]) -> Outcome:
    piped: list[str] = []
    if "|" in arguments:
        at = arguments.index("|")
        arguments, piped = arguments[:at], arguments[at + 1 :]
    outcome = run_pasta(_expanded(arguments))
    if outcome.code or not piped or shutil.which(piped[0]) is None:
        return outcome
    received = subprocess.run(
        piped, input=outcome.output, capture_output=True, text=True, check=False
    )
    return Outcome(received.returncode, received.stdout + received.stderr)


def run_pasta(arguments: list[str]) -> Outcome:
    """Run `pasta` with these arguments in this process."""
    output = io.StringIO()
    with _as_command(["pasta", *arguments], output):
        try:
            main()
            code = 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
    return Outcome(code, output.getvalue())


@contextlib.contextmanager
def _as_command(command: list[str], output: io.StringIO) -> Iterator[None]:
    before = sys.argv
    sys.argv = command
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            yield
    finally:
        sys.argv = before


def _run_shell(text: str, folder: Path) -> Outcome:
    done = subprocess.run(
        ["sh", "-c", text], cwd=folder, capture_output=True, text=True, check=False
    )
    return Outcome(done.returncode, done.stdout + done.stderr)


def _expanded(arguments: list[str]) -> list[str]:
    """Return the arguments with those that are patterns of files replaced by the files."""
    found: list[str] = []
    for argument in arguments:
        files = sorted(map(str, Path().glob(argument))) if _is_pattern(argument) else []
        found += files or [argument]
    return found


def _is_pattern(argument: str) -> bool:
    return "*" in argument and " " not in argument and not argument.startswith(os.sep)
