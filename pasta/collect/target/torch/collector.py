"""The PyTorch collector inside a program: ranges at every level, operators as the level says."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from .. import main_thread
from ..session import Collector, Session
from . import data, hooks
from .devices import Devices
from .kineto import KinetoCycles
from .ranges import Ranges

if TYPE_CHECKING:
    from .operators import Listener

OPERATORS, TIMELINE, TOUCH = "operators", "timeline", "touch"


class TorchCollector:
    """Records what PyTorch does in this process, at one level.

    Args:
        session: takes the rows.
        settings: `level`, and the options of that level.
    """

    def __init__(self, session: Session, settings: dict[str, Any]) -> None:
        import torch

        self._session = session
        if session.settings.get("serialize"):
            torch.autograd.set_multithreading_enabled(False)  # backward on the thread that asks
        level = settings.get("level", OPERATORS)
        session.describe(f"torch:{level}", f"torch {torch.__version__}")
        with session.watchdog.paused():
            self._operators = _operators(session, level, settings)
        self.ranges = Ranges(session, getattr(self._operators, "adopt", None))
        if isinstance(self._operators, KinetoCycles):
            turn = self._operators.turn_if_due
            self._operators.busy = self._in_backward
            self.ranges.after_backward = lambda: main_thread.call_soon(turn)
        self._hooks = contextlib.ExitStack()
        self._installed = False
        self._only_ranges = False
        self._devices = Devices(session)
        session.each_flush(self._devices.write_once)
        if not session.settings.get("idle"):
            self._install()  # also before the first step that is recorded: they count the steps

    def listen(self, listener: Listener) -> None:
        """Let a listener hear of operators, at level `touch` only."""
        self._operators.listener = listener  # type: ignore[attr-defined]

    def start(self) -> None:
        """Record from here on."""
        self._install()
        if not self._only_ranges:
            self._operators.start()

    def stop(self) -> None:
        """Record no more; the hooks stay, as they count the steps."""
        self._operators.stop()

    def close(self) -> None:
        """Take the hooks away, and hand over what is left."""
        self._hooks.close()
        self._operators.close()
        self._devices.write_once()

    def forked(self) -> None:
        """Record no operators in this child; ranges go on, and its batches if it is to make some."""
        self._only_ranges = True
        self._operators.forked()
        if not self._installed:
            self._hooks.enter_context(data.installed(self._session, self._in_loader_worker))

    def _in_backward(self) -> bool:
        """Whether the main thread runs a backward pass: its operators are open in C++."""
        return threading.main_thread().ident in self.ranges.in_backward

    def _install(self) -> None:
        if not self._installed:
            self._installed = True
            self._hooks.enter_context(hooks.installed(self.ranges))
            self._hooks.enter_context(data.installed(self._session, self._in_loader_worker))

    def _in_loader_worker(self) -> None:
        """Record neither operators nor steps in a data loader's worker: its batches are ranges."""
        spans = self._session.spans
        if spans.has_steps:
            spans.has_steps = False
            self._only_ranges = True
            self._operators.stop()


def _operators(session: Session, level: str, settings: dict[str, Any]) -> Collector:
    """Return what records operators at `level`."""
    if level == TOUCH:
        from .operators import TouchOperators

        return TouchOperators(session, settings.get("match"))
    if level == OPERATORS:
        from .native import load
        from .operators_native import RecordedOperators

        hook, reason = load()
        if hook is not None:
            return RecordedOperators(session, hook)
        session.losses.count(f"{reason}; PyTorch's profiler is used instead", session.clock())
    return KinetoCycles(session, level, settings)
