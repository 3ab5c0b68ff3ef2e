"""A terminal of a few control sequences, to see what a person would see."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import struct
import termios

_UNFINISHED = re.compile(r"\x1b(\[\??[0-9;]*)?\Z")
_TOKEN = re.compile(r"\x1b\[\??([0-9;]*)([A-Za-z])|\x1b([78D])|([^\x1b])", re.DOTALL)


class Screen:
    """What stands on a terminal of `columns` by `lines` after the bytes that were fed to it."""

    def __init__(self, columns: int, lines: int) -> None:
        self.columns, self.lines = columns, lines
        self.cells = [[" "] * columns for _ in range(lines)]
        self.row = self.column = 0
        self.bottom = lines - 1
        self.saved = (0, 0)

    @property
    def text(self) -> list[str]:
        return ["".join(row).rstrip() for row in self.cells]

    def feed(self, text: str) -> None:
        place = 0
        while place < len(text):
            token = _TOKEN.match(text, place)
            assert token is not None, f"unknown sequence {text[place : place + 8]!r}"
            place = token.end()
            numbers, command, short, character = token.groups()
            if command:
                self._command(command, [int(n) for n in numbers.split(";") if n])
            elif short:
                self._short(short)
            else:
                self._print(character)

    def _command(self, command: str, numbers: list[int]) -> None:
        first = numbers[0] if numbers else 0
        if command == "A":
            self.row = max(0, self.row - first)
        elif command == "H":
            self.row, self.column = numbers[0] - 1, numbers[1] - 1
        elif command == "r":
            self.bottom = numbers[1] - 1 if numbers else self.lines - 1
            self.row = self.column = 0
        elif command == "K":
            self.cells[self.row] = [" "] * self.columns
        elif command == "J":
            self.cells[self.row][self.column :] = [" "] * (self.columns - self.column)
            for row in range(self.row + 1, self.lines):
                self.cells[row] = [" "] * self.columns
        else:
            assert command in "mhl", command

    def _short(self, command: str) -> None:
        if command == "7":
            self.saved = (self.row, self.column)
        elif command == "8":
            self.row, self.column = self.saved
        else:
            self._down()

    def _print(self, character: str) -> None:
        if character == "\n":
            self._down()
        elif character == "\r":
            self.column = 0
        elif self.column < self.columns:
            self.cells[self.row][self.column] = character
            self.column += 1

    def _down(self) -> None:
        if self.row == self.bottom:
            del self.cells[0]
            self.cells.insert(self.bottom, [" "] * self.columns)
        else:
            self.row = min(self.row + 1, self.lines - 1)


class Terminal:
    """A pseudo-terminal and the screen behind it."""

    def __init__(self, columns: int, lines: int) -> None:
        self.ours, self.programs = pty.openpty()
        self.resize(columns, lines)
        self.screen = Screen(columns, lines)
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._begun = ""

    def resize(self, columns: int, lines: int) -> None:
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self.programs, termios.TIOCSWINSZ, size)

    def program_prints(self, text: str) -> None:
        os.write(self.programs, text.encode())

    def shown(self) -> list[str]:
        """What stands there now; of what is being written it may be the first half."""
        os.set_blocking(self.ours, False)
        data = b""
        while True:
            try:
                data += os.read(self.ours, 1 << 16)
            except BlockingIOError:
                break
        text = self._begun + self._decoder.decode(data)
        unfinished = _UNFINISHED.search(text)
        whole = unfinished.start() if unfinished else len(text)
        self._begun = text[whole:]
        self.screen.feed(text[:whole])
        return self.screen.text

    def close(self) -> None:
        os.close(self.ours)
        os.close(self.programs)
