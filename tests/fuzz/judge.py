"""Reading one input with one importer, and judging everything that the reading did."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from pasta.collect import importing
from pasta.collect.importer import Completing, Importer
from pasta.collect.losses import Losses
from pasta.collect.sources import Source, open_sources
from pasta.errors import InputError

from . import canary
from .content import Content
from .guards import Forbidden, confined, limited_time
from .invariants import check_tables
from .memory_part import MemoryPart

SECONDS_MAX = 5.0
"""Of processor time for one input, which holds at most a few hundred kilobytes."""

_MESSAGE_MAX = 1000

ROWS, LOSSES, REFUSED, UNKNOWN = "rows", "losses only", "one line of error", "another format"
OUTCOMES = (ROWS, LOSSES, REFUSED, UNKNOWN)


@dataclass
class Verdict:
    """What became of an input that was read as it should be.

    Attributes:
        outcome: one of `OUTCOMES`.
        damage: whether any of the losses is the input's fault.
    """

    outcome: str
    damage: bool = False


class Judge:
    """Reads inputs within a folder of its own.

    Args:
        folder: made if absent; holds one input at a time, and the twin.
        seconds: of processor time allowed for one reading.
        twin: a finished trace in `folder` that the inputs complete, for an importer that completes
            others.
    """

    def __init__(
        self, folder: Path, seconds: float = SECONDS_MAX, twin: Path | None = None
    ) -> None:
        self._folder = folder
        self._twin = twin
        self._seconds = seconds
        self._inputs = folder / "inputs"
        self._trace = folder / "trace"
        self._is_clear = False

    def judge(self, importer: Importer, content: Content, *, thorough: bool = True) -> Verdict:
        """Read one input, leniently and, if `thorough`, strictly too.

        Args:
            importer: reads what it recognises.
            content: the input.
            thorough: also sort, transform and check all tables, which takes the longest.

        Raises:
            AssertionError: a promise was not kept.
            Forbidden: a file outside was opened, or something was run.
            TooSlow: it took too long.
            Exception: whatever escaped the importer.
        """
        if not self._is_clear:
            self._clear()
        self._is_clear = False
        path = content.put(self._inputs)
        verdict = self._read(importer, path, strict=False, thorough=thorough)
        if thorough and verdict.outcome != UNKNOWN:
            strictly = self._read(importer, path, strict=True, thorough=True)
            stopped = strictly.outcome == REFUSED
            assert stopped == (verdict.damage or verdict.outcome == REFUSED), (
                f"strict mode gave {strictly.outcome}, but without it the input gave"
                f" {verdict.outcome}, {'with' if verdict.damage else 'without'} damage"
            )
        self._check_folders(content, thorough=thorough)
        self._is_clear = not content.folder
        return verdict

    def _clear(self) -> None:
        for folder in (self._inputs, self._trace):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)

    def _read(self, importer: Importer, path: Path, *, strict: bool, thorough: bool) -> Verdict:
        canary.calls.clear()
        try:
            with limited_time(self._seconds), confined(self._folder):
                verdict = self._read_sources(importer, [path], strict=strict, thorough=thorough)
        except InputError as error:
            _check_message(str(error))
            verdict = Verdict(REFUSED)
        if canary.calls:
            raise Forbidden(f"what a pickle names was run: {canary.calls[:3]}")
        return verdict

    def _read_sources(
        self, importer: Importer, paths: Sequence[Path], *, strict: bool, thorough: bool
    ) -> Verdict:
        found: list[Verdict] = []
        for number, source in enumerate(open_sources(paths)):
            if not importer.recognises(source):
                continue
            if self._twin is not None:
                completing = cast("Completing", importer)
                verdict = _complete(
                    completing, source, self._twin, strict=strict, thorough=thorough
                )
            else:
                part = MemoryPart(self._trace / f".part-{number}")
                verdict = _import(importer, source, part, strict=strict, thorough=thorough)
            found.append(verdict)
        outcome = min((verdict.outcome for verdict in found), key=OUTCOMES.index, default=UNKNOWN)
        return Verdict(outcome, any(verdict.damage for verdict in found))

    def _check_folders(self, content: Content, *, thorough: bool) -> None:
        """Assert that nothing is left behind and that the input is as it was; remove it."""
        kept = {self._inputs.name, self._trace.name, self._twin.name if self._twin else ""}
        left = [entry.name for entry in os.scandir(self._trace)]
        left += {entry.name for entry in os.scandir(self._folder)} - kept
        assert not left, f"left behind: {left}"
        root = self._inputs / "folder" if content.folder else self._inputs
        there = {
            str(Path(parent, name).relative_to(root))
            for parent, _, names in os.walk(self._inputs)
            for name in names
        }
        assert there == set(content.files), f"files beside the input: {there ^ set(content.files)}"
        for name, data in content.files.items():
            file = root / name
            assert not thorough or file.read_bytes() == data, f"the input {name} was changed"
            file.unlink()


def _import(
    importer: Importer, source: Source, part: MemoryPart, *, strict: bool, thorough: bool
) -> Verdict:
    losses = Losses("fuzzed", source.name, strict=strict)
    imported = importer.read(source, part, losses)
    has_rows = any(part.rows.values())
    if thorough:
        part.finish(importing._with_rank(imported.transforms, 0))
        losses.shift(imported.shift_ns)
        _check(part, losses, imported.pid)
    return Verdict(ROWS if has_rows else LOSSES, any(loss.damage for loss in losses))


def _complete(
    importer: Completing, source: Source, twin: Path, *, strict: bool, thorough: bool
) -> Verdict:
    losses = Losses("fuzzed", source.name, strict=strict)
    part = MemoryPart.open(twin)
    before = dict(part.rows)
    transforms = importer.complete(source, part, losses)
    has_rows = part.rows != before
    if thorough:
        part.finish(importing._with_rank(transforms, 0))
        _check(part, losses, 0)
    return Verdict(ROWS if has_rows else LOSSES, any(loss.damage for loss in losses))


def _check(part: MemoryPart, losses: Losses, pid: int) -> None:
    part.append("loss", losses.rows(0, pid))
    part.finish()
    check_tables(part.tables)


def _check_message(message: str) -> None:
    assert message.isprintable(), f"the message is not one line: {message!r}"
    assert len(message) <= _MESSAGE_MAX, f"a message of {len(message)} characters"
