"""Ranges of a PyTorch program: modules, the phases forward, backward and optimizer, and steps."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ..session import Session
from .modules import ModuleNames


class Ranges:
    """Turns what PyTorch's hooks tell into spans.

    Args:
        session: takes the spans.
        adopted: called with each model when it is first called.

    Attributes:
        after_backward: called when a backward pass has ended; it must not raise.
        in_backward: the thread of each backward pass that runs now, by its identifier.
    """

    def __init__(self, session: Session, adopted: Callable[[Any], None] | None = None) -> None:
        self._session = session
        self._guarded = session.guarded
        self._adopted = adopted
        self._names = ModuleNames()
        self.in_backward: list[int] = []
        self.after_backward: Callable[[], None] = lambda: None

    def module_begins(self, module: Any) -> None:
        """Open a module's span; the outermost one opens the forward phase."""
        if self._session.recording:
            self._guarded("module", self._open_module, module)

    def module_ends(self, module: Any) -> None:
        """Close a module's span, and the phase that it opened."""
        self._guarded("module", self._close_module, module)

    def backward_begins(self, key: object) -> None:
        """Open the backward phase."""
        self.in_backward.append(threading.get_ident())
        if self._session.recording:
            self._guarded("backward", self._open_phase, "backward", key)

    def backward_ends(self, key: object) -> None:
        """Close the backward phase."""
        self._guarded("backward", self._session.spans.close, "phase", key)
        self.in_backward.remove(threading.get_ident())
        self.after_backward()

    def optimizer_begins(self, optimizer: Any) -> None:
        """Open the optimizer phase."""
        if self._session.recording:
            self._guarded("optimizer", self._open_phase, "optimizer", id(optimizer))

    def optimizer_ends(self, optimizer: Any) -> None:
        """Close the optimizer phase, and the step with it."""
        self._guarded("optimizer", self._session.spans.close, "phase", id(optimizer))
        if not self._session.steps_by_hand:
            self._guarded("step", self._session.spans.end_step)

    def _open_module(self, module: Any) -> None:
        if (
            not self._session.spans.is_open("module")
            and self._names.adopt(module)
            and self._adopted
        ):
            self._adopted(module)
        self._open_phase("forward", id(module))
        self._session.spans.open("module", self._names.name(module), id(module))

    def _close_module(self, module: Any) -> None:
        self._session.spans.close("module", id(module))
        if not self._session.spans.is_open("module"):
            self._session.spans.close("phase", id(module))

    def _open_phase(self, name: str, key: object) -> None:
        if not self._session.spans.is_open("phase"):
            self._session.spans.open("phase", name, key)
