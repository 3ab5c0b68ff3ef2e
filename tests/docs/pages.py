"""The commands that stand in the pages of the docs, and what the pages say of them.

A block marked `sh` has a command a line; one marked `console` has commands after `$ `, each
followed by its output, if that is shown. A comment in front of a block, which readers do not see,
says which of its commands are not run, and why:

    <!-- not run: needs a GPU -->                    all of them
    <!-- not run: needs a GPU: pasta collect -->     those that begin so; the longest beginning counts
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *(path for path in sorted(ROOT.glob("docs/**/*.md")) if path.parent.name != "reference"),
]
REASONS = (
    "needs a GPU",
    "needs PyTorch",
    "needs Dask",
    "needs cudf-polars",
    "needs another program",
    "needs the network",
    "needs several machines",
    "takes minutes",
)
_MARK = re.compile(r"<!-- not run: ([^:]+?)(?:: (.+))? -->")
_BLOCK = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_MENTION = re.compile(r"`(pasta\s[^`]+)`")
_FENCE = re.compile(r"```(\w*)$")


@dataclass(frozen=True)
class Mark:
    """A comment that says which commands of a block are not run."""

    reason: str
    prefix: str


@dataclass(frozen=True)
class Command:
    """A command in a page.

    Attributes:
        page: the page, below the root of the project.
        line: its number in the page.
        text: what is typed.
        reason: why it is not run; empty: it is.
        shown: the lines of its output, where these are shown.
    """

    page: str
    line: int
    text: str
    reason: str = ""
    shown: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


@dataclass(frozen=True)
class Block:
    """A block of a page: its language, the number of its first line, its lines and its marks."""

    page: str
    language: str
    line: int
    lines: tuple[str, ...]
    marks: tuple[Mark, ...]

    def commands(self) -> list[Command]:
        """Return the commands of the block in their order."""
        if self.language == "console":
            return [self._command(*found) for found in self._prompts()]
        if self.language == "sh":
            return [self._command(*found) for found in self._joined() if found[1].strip()]
        return []

    def _command(self, line: int, text: str, shown: tuple[str, ...] = ()) -> Command:
        meant = [mark for mark in self.marks if text.startswith(mark.prefix)]
        nearest = max(meant, key=lambda mark: len(mark.prefix), default=None)
        reason = "" if nearest is None else nearest.reason
        return Command(self.page, line, text, reason, shown)

    def _joined(self) -> Iterator[tuple[int, str]]:
        """Yield lines with those that a backslash continues."""
        begun = ""
        for number, text in enumerate(self.lines, start=self.line):
            begun += text.removesuffix("\\")
            if not text.endswith("\\"):
                yield number, begun
                begun = ""

    def _prompts(self) -> Iterator[tuple[int, str, tuple[str, ...]]]:
        starts = [at for at, text in enumerate(self.lines) if text.startswith("$ ")]
        for at, end in zip(starts, [*starts[1:], len(self.lines)], strict=True):
            text, shown = self.lines[at].removeprefix("$ "), self.lines[at + 1 : end]
            yield self.line + at, text, shown if any(map(str.strip, shown)) else ()


def blocks(path: Path) -> list[Block]:
    """Return the blocks of a page, of all languages."""
    found = []
    page = str(path.relative_to(ROOT))
    lines = path.read_text(encoding="utf-8").splitlines()
    begin = None
    for at, text in enumerate(lines):
        fence = _FENCE.match(text)
        if fence is None:
            continue
        if begin is None:
            begin, language = at, fence[1]
            continue
        marks = tuple(_marks_above(lines[:begin]))
        found.append(Block(page, language, begin + 2, tuple(lines[begin + 1 : at]), marks))
        begin = None
    return found


def _marks_above(lines: list[str]) -> Iterator[Mark]:
    for text in reversed(lines):
        mark = _MARK.fullmatch(text)
        if mark is None:
            return
        yield Mark(mark[1], mark[2] or "")


def commands(path: Path) -> list[Command]:
    """Return the commands of a page in their order."""
    return [command for block in blocks(path) for command in block.commands()]


def mentioned(path: Path) -> list[str]:
    """Return the commands that stand within the sentences of a page."""
    prose = _BLOCK.sub("", path.read_text(encoding="utf-8"))
    return [" ".join(found.split()) for found in _MENTION.findall(prose)]
