"""The lowest lines of a terminal, kept for a view while programs print above them.

A program that shares the terminal writes to it directly, so the view may not stand where that
program writes next. Instead the terminal is told to scroll only the lines above the view (DECSTBM);
the cursor stays there, and drawing puts it back where it was.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

LEAST_LINES = 8
"""A lower terminal is left to the program."""

_SAVE, _RESTORE = "\x1b7", "\x1b8"
_DOWN = "\x1bD"
_CLEAR_LINE, _CLEAR_BELOW = "\x1b[2K", "\x1b[J"
_SCROLL_ALL = "\x1b[r"
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
_PLAIN = "\x1b[m"


class LowestLines:
    """Lines at the bottom of a terminal; none are taken before the first is drawn.

    Args:
        descriptor: the terminal.
        height: how many lines to take at most; never more than half of them.
    """

    def __init__(self, descriptor: int, height: int) -> None:
        self._descriptor = descriptor
        self._height = height
        self._taken = os.terminal_size((0, 0))

    @property
    def size(self) -> os.terminal_size:
        """Columns and lines that can be drawn on now; no line where the terminal is too low."""
        columns, lines = os.get_terminal_size(self._descriptor)
        kept = min(self._height, lines // 2) if lines >= LEAST_LINES else 0
        return os.terminal_size((columns, kept))

    def draw(self, lines: Sequence[str]) -> None:
        """Show `lines`, the first of as many as there is room for, in place of those before.

        Args:
            lines: texts without line ends; what they hold beyond the width is cut off.

        Raises:
            OSError: the terminal is gone.
        """
        whole, kept = os.get_terminal_size(self._descriptor), self.size.lines
        text = "" if whole == self._taken else self._released() + _reserved(whole.lines, kept)
        self._taken = whole
        if not kept:
            self._write(text)
            return
        text += _SAVE + _NO_WRAP
        for place in range(kept):
            line = lines[place] if place < len(lines) else ""
            text += f"\x1b[{whole.lines - kept + 1 + place};1H{_PLAIN}{_CLEAR_LINE}{line}"
        self._write(text + _PLAIN + _WRAP + _RESTORE)

    def close(self) -> None:
        """Give the lines back, empty."""
        with contextlib.suppress(OSError):
            self._write(self._released())
        self._taken = os.terminal_size((0, 0))

    def _released(self) -> str:
        if not self._taken.lines:
            return ""
        return _SAVE + _SCROLL_ALL + _RESTORE + _CLEAR_BELOW

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        while data:
            data = data[os.write(self._descriptor, data) :]


def _reserved(lines: int, kept: int) -> str:
    """Return what makes room for `kept` lines below the cursor and scrolls only those above."""
    if not kept:
        return ""
    room = _DOWN * kept + f"\x1b[{kept}A"
    return room + _SAVE + f"\x1b[1;{lines - kept}r" + _RESTORE
