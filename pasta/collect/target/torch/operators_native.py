"""Level `operators` by the native hook: operators and memory without a step through Python."""

from __future__ import annotations

from typing import Any

from ..session import Session
from .native import NativeOperators


class RecordedOperators:
    """Lets the native hook record whenever the session does.

    Args:
        session: knows the channel and the clock, and takes what the hook counts.
        hook: the native hook, loaded.
    """

    def __init__(self, session: Session, hook: NativeOperators) -> None:
        self._session = session
        self._hook = hook
        self._started = False

    def start(self) -> None:
        """Record from here on."""
        if self._started:
            self._hook.resume()
            return
        session = self._session
        self._hook.start(session.folder, session.rank, session.offset, session.operator_stack)
        self._started = True
        self._session.watchdog.watch(lambda: self._hook.counters().get("events"))

    def stop(self) -> None:
        """Record no more; releases of memory that is known are recorded still."""
        if self._started:
            self._hook.pause()

    def forked(self) -> None:
        """Record no operators in this child: the hook does so only where it is started."""
        if self._started:
            self._hook.pause()
        self._started = False

    def close(self) -> None:
        """Write what waits, and count what the hook cost and could not record."""
        if not self._started:
            return
        self._hook.flush()
        counted: dict[str, Any] = self._hook.counters()
        self._hook.stop()
        self._session.spent["collect"] += counted.get("callback_ns", 0)
        for name, reason in (
            ("failures", "operators that the native hook could not record"),
            ("texts_refused", "operators of too many different shapes: recorded without shapes"),
        ):
            if counted.get(name):
                self._session.losses.count(reason, self._session.clock(), counted[name])
