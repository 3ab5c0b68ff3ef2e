"""The bytes of a pickle, a window at a time."""

from __future__ import annotations

from typing import IO

from pasta.collect.containers.pickle_opcodes import FIXED, LINES, PREFIXED

WINDOW_BYTES = 1 << 20
ARGUMENT_BYTES_MAX = 64 << 20
_MARGIN = 16


class Ended(Exception):  # noqa: N818 - an end is no error until its reader says so
    """The bytes end in the middle of the pickle."""


class TooLong(Exception):  # noqa: N818 - likewise
    """An argument says to be longer than any is taken to be."""


class Window:
    """A part of a pickle in memory, moved on by who reads it.

    Args:
        file: the pickle, at its start.

    Attributes:
        data: the bytes in memory.
        at: the index in `data` of what is read next.
        safe: up to this index an operation and the fixed part of its argument are in memory.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.data = b""
        self.at = 0
        self.safe = -1
        self._file = file
        self._start = 0
        self._ended = False

    @property
    def position(self) -> int:
        """The byte of the pickle that is read next."""
        return self._start + self.at

    @property
    def size(self) -> int:
        """The bytes of the pickle that have been in memory so far."""
        return self._start + len(self.data)

    def move(self) -> None:
        """Bring the next operation into memory.

        Raises:
            Ended: it is not there in full.
        """
        self._read(WINDOW_BYTES)
        if self.at >= len(self.data):
            raise Ended
        operation = self.data[self.at]
        size = FIXED.get(operation, PREFIXED.get(operation, 0))
        if self.at + 1 + size > len(self.data):
            raise Ended

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes.

        Raises:
            Ended: there are fewer.
            TooLong: they are more than `ARGUMENT_BYTES_MAX`.
        """
        end = self.at + count
        if end > len(self.data):
            if count > ARGUMENT_BYTES_MAX:
                raise TooLong
            self._read(count)
            end = self.at + count
            if end > len(self.data):
                raise Ended
        taken = self.data[self.at : end]
        self.at = end
        return taken

    def skip(self, count: int) -> None:
        """Pass over the next `count` bytes."""
        self.take(count)

    def line(self) -> bytes:
        """Return the bytes up to the next line end, and pass it.

        Raises:
            Ended: there is none.
            TooLong: it is further than `ARGUMENT_BYTES_MAX`.
        """
        searched = 0
        while (end := self.data.find(b"\n", self.at + searched)) < 0:
            searched = len(self.data) - self.at
            if searched > ARGUMENT_BYTES_MAX:
                raise TooLong
            if self._ended:
                raise Ended
            self._read(searched + WINDOW_BYTES)
        taken = self.data[self.at : end]
        self.at = end + 1
        return taken

    def skip_argument(self, operation: int) -> bool:
        """Pass over the argument of an operation that has just been read; `False`: there is none of that name."""
        if operation in FIXED:
            self.at += FIXED[operation]
        elif operation in PREFIXED:
            self.take(int.from_bytes(self.take(PREFIXED[operation]), "little"))
        elif operation in LINES:
            for _ in range(LINES[operation]):
                self.line()
        else:
            return False
        return True

    def _read(self, count: int) -> None:
        """Hold at least `count` bytes from `at` on, as far as there are any."""
        missing = count - (len(self.data) - self.at)
        if self._ended or missing <= 0:
            return
        read = self._file.read(max(missing, WINDOW_BYTES))
        self._ended = len(read) < max(missing, WINDOW_BYTES)
        self._start += self.at
        self.data = self.data[self.at :] + read
        self.at = 0
        self.safe = len(self.data) - _MARGIN
