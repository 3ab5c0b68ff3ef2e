"""What a pickle refers back to: a first pass that executes nothing, and the memo that it allows.

A pickler gives a number to every list, dict, tuple and text, and refers to few of them again. Only
those must be held while a pickle of gigabytes is read.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from pasta.collect.containers.pickle_opcodes import (
    FIXED,
    GET,
    LONG_BINGET,
    MARK,
    STOP,
)
from pasta.collect.containers.pickle_window import Ended, TooLong, Window

_REFERENCE = re.compile(rb"h(.)|j(....)", re.DOTALL)
LIST_OF_REFERENCES = re.compile(rb"((?:h.|j....)++)e", re.DOTALL)
"""What follows the mark of a list of things that stand elsewhere, such as the frames of a stack."""

_ALWAYS = 1 << 8
_FOR_GOOD = 1 << 62
_STEPS = [1 + FIXED[code] if code in FIXED else 0 for code in range(256)]
for _code in (MARK, STOP, LONG_BINGET):
    _STEPS[_code] = 0


def numbers_in(run: bytes) -> list[int]:
    """Return the numbers of a run of references, as `LIST_OF_REFERENCES` finds it."""
    return [
        short[0] if short else int.from_bytes(long, "little")
        for short, long in _REFERENCE.findall(run)
    ]


def count_fetches(file: Path) -> dict[int, int]:
    """Return how often a pickle refers to each number beyond 255, by one pass over its operations.

    What stands in lists of references counts as needed for good. Where the bytes are no pickle, it
    ends; who executes them finds out why.
    """
    counts: defaultdict[int, int] = defaultdict(int)
    seen: set[bytes] = set()
    with file.open("rb") as stream:
        window = Window(stream)
        try:
            while _pass_to_fetch(window):
                _count(window, counts, seen)
        except (Ended, TooLong, ValueError):
            pass
    return counts


def _pass_to_fetch(window: Window) -> bool:
    """Pass over operations to one that may fetch; `False`: the pickle ends before."""
    steps = _STEPS
    while True:
        data, at, safe = window.data, window.at, window.safe
        while at <= safe and (step := steps[data[at]]):
            at += step
        window.at = at
        if at > safe:
            window.move()
        operation = window.data[window.at]
        if operation in (MARK, LONG_BINGET, GET):
            return True
        window.at += 1
        if operation == STOP or not window.skip_argument(operation):
            return False


def _count(window: Window, counts: defaultdict[int, int], seen: set[bytes]) -> None:
    operation = window.data[window.at]
    window.at += 1
    if operation == LONG_BINGET:
        counts[int.from_bytes(window.take(4), "little")] += 1
    elif operation == GET:
        counts[int(window.line())] += 1
    elif found := LIST_OF_REFERENCES.match(window.data, window.at):
        run = found[1]
        if run not in seen:
            counts.update(dict.fromkeys(numbers_in(run), _FOR_GOOD))
            if len(seen) < 1 << 16:
                seen.add(run)
        window.at = found.end()


class Memo:
    """The numbered values of a pickle that are still needed.

    Args:
        fetches: how often each number beyond 255 will be fetched.
    """

    def __init__(self, fetches: dict[int, int]) -> None:
        self._fetches = fetches
        self._values: dict[int, Any] = {}
        self._numbered = 0

    def __len__(self) -> int:
        return len(self._values)

    def add(self, value: Any) -> None:
        """Give the next number to a value."""
        self.put(self._numbered, value)

    def put(self, number: int, value: Any) -> None:
        """Give a number to a value."""
        self._numbered += 1
        if number < _ALWAYS or number in self._fetches:
            self._values[number] = value

    def fetch(self, number: int) -> Any:
        """Return the value of a number, and forget it if that was the last time.

        Raises:
            KeyError: there is none.
        """
        value = self._values[number]
        if number >= _ALWAYS:
            left = self._fetches[number] - 1
            self._fetches[number] = left
            if left <= 0:
                del self._values[number], self._fetches[number]
        return value

    def fetch_list(self, run: bytes) -> list[Any]:
        """Return the values of a list of references.

        Raises:
            KeyError: one of them is not there.
        """
        return [self._values[number] for number in numbers_in(run)]
