"""What a pickle refers back to: a first pass that executes nothing, and the memo that it allows.

A pickler gives a number to every list, dict, tuple and text, and refers to few of them again. Only
those must be held while a pickle of gigabytes is read.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pasta.collect.containers.pickle_opcodes import GET, LONG_BINGET, STOP
from pasta.collect.containers.pickle_tokens import OTHER, REFERENCE
from pasta.collect.containers.pickle_window import Ended, TooLong, Window

_REFERENCE = re.compile(rb"h(.)|j(....)", re.DOTALL)
_FETCHES = rb"(?:j(.{4})|\((" + REFERENCE + rb"++)e|\()"
_FETCH = re.compile(OTHER + rb"*+" + _FETCHES, re.DOTALL)
_MANY = re.compile(rb"(?:" + OTHER + rb"*+" + _FETCHES + rb")++", re.DOTALL)
_NONE = re.compile(OTHER + rb"++", re.DOTALL)
_OFTEN = 64
_NUMBERS_MAX = 1 << 28
_SEEN_MAX = 1 << 16
_ALWAYS = 1 << 8
_TEXTS = (str, bytes)


def numbers_in(run: bytes) -> list[int]:
    """Return the numbers of operations that fetch, one after the other and nothing else."""
    return [
        short[0] if short else int.from_bytes(long, "little")
        for short, long in _REFERENCE.findall(run)
    ]


class Fetches:
    """How often each number is fetched; `OFTEN` or more means that its value is held for good.

    Numbers beyond 2**28, which no pickle of less than 512 MiB has, are not counted.

    Attributes:
        counts: one byte for each number.
    """

    def __init__(self) -> None:
        self.counts = bytearray(_ALWAYS)

    def add(self, numbers: NDArray[np.uint32]) -> None:
        """Count one fetch of each of `numbers`, which may repeat."""
        found, times = np.unique(numbers[numbers < _NUMBERS_MAX], return_counts=True)
        if not len(found):
            return
        self._reach(int(found[-1]))
        counts = np.frombuffer(self.counts, dtype=np.uint8)
        counts[found] = np.minimum(counts[found] + times, _OFTEN)

    def hold(self, numbers: list[int]) -> None:
        """Hold the values of `numbers` for good."""
        for number in numbers:
            if number < _NUMBERS_MAX:
                self._reach(number)
                self.counts[number] = _OFTEN

    def _reach(self, number: int) -> None:
        if number >= len(self.counts):
            self.counts += bytes(max(number + 1, 2 * len(self.counts)) - len(self.counts))


def count_fetches(file: Path) -> Fetches:
    """Return how often a pickle refers to each number, by one pass over its operations.

    What stands in lists of references is held for good. Where the bytes are no pickle, it ends; who
    executes them finds out why.
    """
    fetches = Fetches()
    seen: set[bytes] = set()
    with file.open("rb") as stream:
        window = Window(stream)
        try:
            while _count_next(window, fetches, seen):
                pass
        except (Ended, TooLong, ValueError, OverflowError):
            pass
    return fetches


def _count_next(window: Window, fetches: Fetches, seen: set[bytes]) -> bool:
    """Count in as many operations as are simple, and one more; `False`: the pickle ends."""
    if window.at > window.safe:
        window.move()
    elif many := _MANY.match(window.data, window.at, window.safe):
        window.at = many.end()
        fetched = _FETCH.findall(many[0])
        fetches.add(np.frombuffer(b"".join([one for one, _ in fetched]), dtype="<u4"))
        listed = {run for _, run in fetched}
        for run in listed - seen:
            fetches.hold(numbers_in(run))
        if len(seen) < _SEEN_MAX:
            seen |= listed
        return True
    elif others := _NONE.match(window.data, window.at, window.safe):
        window.at = others.end()
        return True
    operation = window.data[window.at]
    window.at += 1
    if operation == LONG_BINGET:
        fetches.add(np.frombuffer(window.take(4), dtype="<u4"))
    elif operation == GET:
        fetches.add(np.array([int(window.line())], dtype=np.uint32))
    elif operation == STOP or not window.skip_argument(operation):
        return False
    return True


class Memo:
    """The numbered values of a pickle that are still needed.

    Args:
        fetches: how often each number will be fetched; counted down.

    Attributes:
        text_bytes: what the texts among them fill.
    """

    def __init__(self, fetches: Fetches) -> None:
        self.text_bytes = 0
        self._counts = fetches.counts
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
        if number < _ALWAYS or (number < len(self._counts) and self._counts[number]):
            self._forget(number)
            self._values[number] = value
            if type(value) in _TEXTS:
                self.text_bytes += value.__sizeof__()

    def fetch(self, number: int) -> Any:
        """Return the value of a number, and forget it if that was the last time.

        What is fetched often is held for good.

        Raises:
            KeyError: there is none.
        """
        value = self._values[number]
        if not self.is_kept(number):
            self._counts[number] -= 1
            if not self._counts[number]:
                self._forget(number)
        return value

    def _forget(self, number: int) -> None:
        """Drop the value of a number, if it has one."""
        value = self._values.pop(number, None)
        if type(value) in _TEXTS:
            self.text_bytes -= value.__sizeof__()

    def is_kept(self, number: int) -> bool:
        """Tell whether the value of a number is held for good."""
        return number < _ALWAYS or self._counts[number] >= _OFTEN

    def fetch_list(self, run: bytes) -> list[Any]:
        """Return the values of a list of references; they are held for good.

        Raises:
            KeyError: one of them is not there.
        """
        return [self._values[number] for number in numbers_in(run)]
