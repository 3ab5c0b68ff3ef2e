"""What an experiment's YAML says, and the runs that it stands for; see docs/experiments.md.

version: 1
experiment: levels
command: python train.py --batch {batch}
parameters: {batch: [1, 4, 16]}
levels: [none, ranges, "torch:operators"]
repeats: 5
"""

from __future__ import annotations

import itertools
import math
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pasta.collect.collectors import COLLECTORS, Chosen, parse_with
from pasta.collect.runs import runs_of
from pasta.errors import CollectError, ConfigError, did_you_mean, shown
from pasta.pipeline.arguments import coerce
from pasta.yaml_text import read_document

NONE, RANGES = "none", "ranges"
"""Levels of no collector: the program as it is, and with only what it annotates itself recorded."""
MOST_RUNS = 10_000
MOST_VALUES = 1000

_KEYS = ("version", "experiment", "about", "command", "parameters", "levels", "repeats")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_PLACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")

Value = str | int | float


@dataclass(frozen=True)
class Level:
    """How closely a run is looked at.

    Attributes:
        name: as the experiment writes it.
        chosen: collector -> level; `None`: nothing records the run at all.
    """

    name: str
    chosen: Chosen | None


@dataclass(frozen=True)
class PlannedRun:
    """One execution of the program.

    Attributes:
        case: values of the parameters, by name.
        level: how closely it is looked at.
        round: which of the repeats it is, from 1 on.
        command: program and arguments.
        folder: of its trace, below that of the experiment.
    """

    case: Mapping[str, Value]
    level: Level
    round: int
    command: tuple[str, ...]
    folder: Path

    @property
    def line(self) -> str:
        """The command as a shell reads it."""
        return shlex.join(self.command)

    def __str__(self) -> str:
        values = "".join(f", {name}={value}" for name, value in self.case.items())
        return f"round {self.round}, {self.level.name}{values}"


@dataclass(frozen=True)
class Experiment:
    """What an experiment's YAML says.

    Attributes:
        name: of the experiment.
        about: what it is for; may be empty.
        command: program and arguments, in which `{name}` stands for a parameter.
        parameters: values by name.
        levels: from that which sees least on.
        repeats: runs of each level for each value.
    """

    name: str
    about: str
    command: tuple[str, ...]
    parameters: Mapping[str, tuple[Value, ...]]
    levels: tuple[Level, ...]
    repeats: int

    @property
    def cases(self) -> list[dict[str, Value]]:
        """Every combination of values; one without parameters."""
        combinations = itertools.product(*self.parameters.values())
        return [dict(zip(self.parameters, values, strict=True)) for values in combinations]

    def runs(self) -> Iterator[PlannedRun]:
        """Yield all runs in their order: in each round every value at every level.

        Levels take turns at being first, so that none gains by its place.
        """
        numbered = list(enumerate(self.levels, 1))
        for number in range(1, self.repeats + 1):
            first = (number - 1) % len(numbered)
            for place, case in enumerate(self.cases, 1):
                values = ",".join(f"{name}={value}" for name, value in case.items())
                in_case = Path(f"{place:03}-{_plain(values)}".rstrip("-"))
                command = tuple(_filled(word, case) for word in self.command)
                for depth, level in (*numbered[first:], *numbered[:first]):
                    folder = in_case / f"{depth:02}-{_plain(level.name)}" / f"{number:03}"
                    yield PlannedRun(case, level, number, command, folder)


def read_experiment(path: Path) -> Experiment:
    """Read an experiment.

    Raises:
        ConfigError: the file is absent, not YAML, or says what no experiment can mean; with the place.
    """
    return read_document(path, _experiment)


def _experiment(document: Any) -> Experiment:
    top = coerce(document, dict[str, Any], "the file", {})
    for key in top:
        if key not in _KEYS:
            raise ConfigError("", f"no such key as {shown(key)}.{did_you_mean(str(key), _KEYS)}")
    if type(top.get("version")) is not int or top["version"] != 1:
        raise ConfigError("version", f"must be 1, got {shown(top.get('version'))}")
    for key in ("experiment", "command", "levels"):
        if key not in top:
            raise ConfigError("", f"needs the key '{key}'")
    name = coerce(top["experiment"], str, "experiment", {})
    if not _NAME.fullmatch(name):
        raise ConfigError("experiment", f"expected a name such as levels, got {shown(name)}")
    parameters = _parameters(top.get("parameters", {}))
    experiment = Experiment(
        name=name,
        about=coerce(top.get("about", ""), str, "about", {}),
        command=_command(top["command"], parameters),
        parameters=parameters,
        levels=_levels(top["levels"]),
        repeats=_repeats(top.get("repeats", 5)),
    )
    cases = math.prod(map(len, parameters.values()))
    runs = cases * len(experiment.levels) * experiment.repeats
    if runs > MOST_RUNS:
        raise ConfigError("", f"stands for {runs:,} runs, more than {MOST_RUNS:,}")
    return experiment


def _repeats(value: Any) -> int:
    repeats: int = coerce(value, int, "repeats", {})
    if not 1 <= repeats <= MOST_RUNS:
        raise ConfigError("repeats", f"must be from 1 to {MOST_RUNS}, got {repeats}")
    return repeats


def _parameters(given: Any) -> dict[str, tuple[Value, ...]]:
    found: dict[str, tuple[Value, ...]] = {}
    for name, values in coerce(given, dict[str, Any], "parameters", {}).items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError("parameters", f"expected a name such as batch, got {shown(name)}")
        path = f"parameters.{name}"
        if not isinstance(values, list) or not values:
            raise ConfigError(
                path, f"expected a list of values such as [1, 4], got {shown(values)}"
            )
        for index, value in enumerate(values):
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise ConfigError(
                    f"{path}[{index}]", f"expected a number or text, got {shown(value)}"
                )
            if "\0" in str(value):
                raise ConfigError(f"{path}[{index}]", "a text may not hold a null character")
        if len(set(map(str, values))) < len(values):
            raise ConfigError(path, "a value stands twice")
        found[name] = tuple(values)
        if len(values) > MOST_VALUES:
            raise ConfigError(path, f"more than {MOST_VALUES} values")
    return found


def _command(given: Any, parameters: Mapping[str, Any]) -> tuple[str, ...]:
    if isinstance(given, str):
        try:
            words = shlex.split(given)
        except ValueError as error:
            raise ConfigError("command", f"no command line ({error})") from error
    else:
        if not isinstance(given, list) or any(type(w) not in (str, int, float) for w in given):
            raise ConfigError("command", "expected a line of text or a list of words")
        words = [str(word) for word in given]
    if not words or not words[0]:
        raise ConfigError("command", "expected a program and its arguments")
    if any("\0" in word for word in words):
        raise ConfigError("command", "an argument may not hold a null character")
    used = {found[1] for word in words for found in _PLACE.finditer(word) if found[1] is not None}
    for name in sorted(used - set(parameters)):
        known = did_you_mean(name, parameters) if parameters else " There are none."
        raise ConfigError("command", f"no parameter '{name}'.{known} Write {{{{ for a brace")
    for name in parameters:
        if name not in used:
            raise ConfigError(f"parameters.{name}", f"the command does not use {{{name}}}")
    return tuple(words)


def _levels(given: Any) -> tuple[Level, ...]:
    if not isinstance(given, list) or not given:
        raise ConfigError("levels", 'expected a list such as [none, "torch:operators"]')
    names = [coerce(name, str, f"levels[{index}]", {}) for index, name in enumerate(given)]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise ConfigError(f"levels[{index}]", f"'{name}' stands twice")
    return tuple(_level(name, f"levels[{index}]") for index, name in enumerate(names))


def _level(name: str, path: str) -> Level:
    if name == NONE:
        return Level(name, None)
    if name == RANGES:
        return Level(name, {})
    if name not in COLLECTORS and ":" not in name and "," not in name:
        known = (NONE, RANGES, *COLLECTORS)
        raise ConfigError(path, f"no level '{name}'.{did_you_mean(name, known)}")
    try:
        chosen = parse_with([name])
        runs = runs_of(chosen)
    except CollectError as error:
        raise ConfigError(path, str(error).removeprefix("--with").lstrip(": ")) from error
    if len(runs) > 1:
        raise ConfigError(path, f"'{name}' takes {len(runs)} runs; make a level of each")
    return Level(name, chosen)


def _filled(word: str, case: Mapping[str, Value]) -> str:
    """Return a word of the command with the values of a case."""
    return _PLACE.sub(lambda found: found[0][0] if found[1] is None else str(case[found[1]]), word)


def _plain(text: str) -> str:
    """Return what of a text can stand in the name of a folder, at most 60 characters."""
    return re.sub(r"[^A-Za-z0-9._=,-]+", "_", text)[:60]
