"""The errors that a user of pasta can meet; each carries the exit code of the command line."""

from __future__ import annotations

import contextlib
import difflib
import reprlib
from collections.abc import Iterable, Iterator
from pathlib import Path

LONGEST_SHOWN = 80
"""Of a value in a message, in characters."""

LONGEST_LINE = 800
"""Of a message about a file, in characters."""


class PastaError(Exception):
    """A failure with a one-line message: what, where, what to do.

    Attributes:
        exit_code: 2 for a mistake in the input, 1 for a failure of pasta itself.
    """

    exit_code = 2


class ConfigError(PastaError):
    """A tool's YAML is wrong; the message starts with the path of the key."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.path = path
        self.problem = problem

    def __reduce__(self) -> tuple[type[ConfigError], tuple[str, str]]:
        """Pickle what it was made from, so that it can come from another process."""
        return ConfigError, (self.path, self.problem)

    def within(self, prefix: str) -> ConfigError:
        """Return the same error with its path below `prefix`, as `file.yaml: ` or `stages.a.`."""
        path = f"{prefix}{self.path}" if self.path else prefix.rstrip(": .")
        return ConfigError(path, self.problem)


class TraceError(PastaError):
    """A trace directory cannot be used: absent, of a newer version, or damaged."""


class InputError(PastaError):
    """A file given to an importer cannot be read at all.

    What the message tells of the file's own names is made printable, and shortened.
    """

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class CollectError(PastaError):
    """A program cannot be recorded."""


class ForbiddenError(CollectError):
    """A collector needs rights that whoever runs pasta lacks."""


class EngineError(PastaError):
    """An engine failed to run a graph."""

    exit_code = 1


@contextlib.contextmanager
def naming_files(path: str | Path) -> Iterator[None]:
    """Say in one line which file the system refuses; `path` where it names none.

    Raises:
        PastaError: a file cannot be read or written.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise PastaError(f"{error.filename or path}: {error.strerror or error}") from error


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for the nearest known name, else the list of known names."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f" Did you mean '{close[0]}'?"
    return f" Known: {', '.join(names)}." if names else ""


def one_line(text: str, longest: int = LONGEST_LINE) -> str:
    """Return a text of foreign origin as one printable line; the middle of a long one is left out."""
    short = _without_middle(text, longest)
    if short.isprintable():
        return short
    escaped = (
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in short
    )
    return _without_middle("".join(escaped), longest)


def _without_middle(text: str, longest: int) -> str:
    half = longest // 2
    return text if len(text) <= longest else f"{text[: half - 2]} .. {text[2 - half :]}"


def shown(value: object) -> str:
    """Return a value short enough for a message, however large or nested it is."""
    try:
        text = reprlib.repr(value)
    except ValueError:  # Python turns no integers of thousands of digits into text
        return "a number of thousands of digits"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
