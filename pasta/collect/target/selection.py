"""What of a run is recorded: which steps, for how long, and what is asked for while it runs."""

from __future__ import annotations

import json
import os
from typing import Any

CONTROL = "control"
"""File in the channel's folder by which a running program is told to record or not."""


class Selection:
    """Decides at any time whether to record.

    Args:
        folder: the channel's folder.
        settings: `idle`: begin only when asked to; `steps`: (first, last or null, every);
            `seconds`: record for so long in all.
    """

    def __init__(self, folder: str, settings: dict[str, Any]) -> None:
        self._control = os.path.join(folder, CONTROL)
        self._asked = not settings.get("idle", False)
        steps: tuple[int, int | None, int] = settings.get("steps") or (0, None, 1)
        self._first, self._last, self._every = steps
        seconds = settings.get("seconds")
        self._left_ns = None if seconds is None else int(seconds * 1e9)
        self._steps_left: int | None = None
        self._began: int | None = None
        self._seen: tuple[int, int] | None = None
        self._step = 0

    def ask(self, *, record: bool, steps: int | None = None) -> None:
        """Ask to record, for so many steps from here or until asked otherwise, or not to."""
        self._asked = record
        self._steps_left = steps

    def step_begins(self, step: int) -> None:
        """Take note that the step number `step` begins."""
        self._step = step
        if self._steps_left is not None and self._began is not None:
            self._steps_left -= 1
            if self._steps_left <= 0:
                self.ask(record=False)

    def read_control(self) -> None:
        """Take note of what the control file asks for, if it is new."""
        try:
            state = os.stat(self._control)
            seen = (state.st_mtime_ns, state.st_ino)
            if seen == self._seen:
                return
            self._seen = seen
            with open(self._control, encoding="utf-8") as file:
                asked = json.load(file)
            self.ask(record=bool(asked["record"]), steps=asked.get("steps"))
        except (OSError, ValueError, KeyError, TypeError):
            return

    def wants(self, now: int) -> bool:
        """Tell whether to record at `now`, in ns; the time limit runs while it says so."""
        selected = self._step >= self._first and (self._step - self._first) % self._every == 0
        selected = selected and (self._last is None or self._step <= self._last)
        if (
            self._left_ns is not None
            and self._began is not None
            and now - self._began >= self._left_ns
        ):
            selected = False
        wanted = self._asked and selected
        if wanted and self._began is None:
            self._began = now
        elif not wanted and self._began is not None:
            if self._left_ns is not None:
                self._left_ns = max(self._left_ns - (now - self._began), 0)
            self._began = None
        return wanted and self._left_ns != 0
