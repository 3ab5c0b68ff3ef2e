"""What a pickle refers back to: a first pass that executes nothing, and the memo that it allows.

A pickler gives a number to every list, dict, tuple and text, and refers to few of them again. Only
those must be held while a pickle of gigabytes is read.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from pasta.collect.containers.pickle_opcodes import GET, LONG_BINGET, STOP
from pasta.collect.containers.pickle_tokens import OTHER, REFERENCE
from pasta.collect.containers.pickle_window import Ended, TooLong, Window

_REFERENCE = re.compile(rb"h(.)|j(....)", re.DOTALL)
_FETCHES = rb"(?:j(.{4})|\((" + REFERENCE + rb"++)e|\()"
_FETCH = re.compile(OTHER + rb"*+" + _FETCHES, re.DOTALL)
_MANY = re.compile(rb"(?:" + OTHER + rb"*+" + _FETCHES + rb")++", re.DOTALL)
_NONE = re.compile(OTHER + rb"++", re.DOTALL)
_FOR_GOOD = 1 << 62
_OFTEN = 64
_SEEN_MAX = 1 << 16
_ALWAYS = 1 << 8


def numbers_in(run: bytes) -> list[int]:
    """Return the numbers of operations that fetch, one after the other and nothing else."""
    return [
        short[0] if short else int.from_bytes(long, "little")
        for short, long in _REFERENCE.findall(run)
    ]


def count_fetches(file: Path) -> dict[int, int]:
    """Return how often a pickle refers to each number beyond 255, by one pass over its operations.

    What stands in lists of references is needed for good. Where the bytes are no pickle, it ends; who executes them finds out why.
    """
    counts: defaultdict[int, int] = defaultdict(int)
    seen: set[bytes] = set()
    with file.open("rb") as stream:
        window = Window(stream)
        try:
            while _count_next(window, counts, seen):
                pass
        except (Ended, TooLong, ValueError):
            pass
    return counts


def _count_next(window: Window, counts: defaultdict[int, int], seen: set[bytes]) -> bool:
    """Count in as many operations as are simple, and one more; `False`: the pickle ends."""
    if window.at > window.safe:
        window.move()
    elif many := _MANY.match(window.data, window.at, window.safe):
        window.at = many.end()
        fetched = _FETCH.findall(many[0])
        alone = b"".join([one for one, _ in fetched])
        numbers, times = np.unique(np.frombuffer(alone, dtype="<u4"), return_counts=True)
        for number, count in zip(numbers.tolist(), times.tolist(), strict=True):
            counts[number] += count
        listed = {run for _, run in fetched}
        for run in listed - seen:
            counts.update(dict.fromkeys(numbers_in(run), _FOR_GOOD))
        if len(seen) < _SEEN_MAX:
            seen |= listed
        return True
    elif others := _NONE.match(window.data, window.at, window.safe):
        window.at = others.end()
        return True
    operation = window.data[window.at]
    window.at += 1
    if operation == LONG_BINGET:
        counts[int.from_bytes(window.take(4), "little")] += 1
    elif operation == GET:
        counts[int(window.line())] += 1
    elif operation == STOP or not window.skip_argument(operation):
        return False
    return True


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

        What is fetched often is held for good.

        Raises:
            KeyError: there is none.
        """
        value = self._values[number]
        if number >= _ALWAYS:
            left = self._fetches[number]
            if left > _OFTEN:
                return value
            self._fetches[number] = left - 1
            if left <= 1:
                del self._values[number], self._fetches[number]
        return value

    def is_kept(self, number: int) -> bool:
        """Tell whether the value of a number is held for good."""
        return number < _ALWAYS or self._fetches.get(number, 0) > _OFTEN

    def fetch_list(self, run: bytes) -> list[Any]:
        """Return the values of a list of references; they are held for good.

        Raises:
            KeyError: one of them is not there.
        """
        return [self._values[number] for number in numbers_in(run)]
