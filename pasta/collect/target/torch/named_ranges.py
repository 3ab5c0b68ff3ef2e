"""PyTorch's named ranges (`record_function`), recorded here in place of its profiler.

A range may last for the whole program, the profiler's cycles may not; and a range that is open where
one cycle ends and the next begins must not be known to the profiler (see `quiet`).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, MutableMapping
from typing import Any
from weakref import WeakKeyDictionary

from ..session import Session

_COLUMNS = ("tid", "ts", "dur", "level", "name")
_TOLD_OTHERWISE = ("Optimizer.step#", "ProfilerStep#")
"""Ranges that are there as a phase or step already."""


class NamedRanges:
    """Takes over the ranges of PyTorch while `wanted` says so.

    Args:
        session: takes the rows.
        wanted: whether ranges are recorded here now.
        profiled: whether a profiler of the program runs, which is told of the others.
    """

    def __init__(
        self, session: Session, wanted: Callable[[], bool], profiled: Callable[[], bool]
    ) -> None:
        from torch.autograd.profiler import record_function

        ids = {"span_id": 0, "parent_id": 0, "external_id": 0, "stack_id": 0}
        self._rows = session.rows("span", _COLUMNS, **ids)
        self._session = session
        self._wanted, self._profiled = wanted, profiled
        self._taken: MutableMapping[Any, list[tuple[int, int]]] = WeakKeyDictionary()
        self._told: MutableMapping[Any, int] = WeakKeyDictionary()
        self._class: Any = record_function
        self._replaced: dict[str, Callable[..., Any]] = {}
        self._replace("__enter__", self._enter)
        self._replace("__exit__", self._exit)
        self._replace("_call_end_callbacks_on_future", self._await)

    @property
    def known_to_profilers(self) -> bool:
        """Whether a range is open that a profiler of the program was told of."""
        return bool(self._told)

    def close(self) -> None:
        """Give the ranges back to PyTorch, unless one that was taken is still to end."""
        if self._taken:
            return
        for name, original in self._replaced.items():
            setattr(self._class, name, original)

    def _replace(self, name: str, method: Callable[..., Any]) -> None:
        original = self._replaced[name] = getattr(self._class, name)

        @functools.wraps(original)
        def replacement(*args: Any, **kwargs: Any) -> Any:
            return method(original, *args, **kwargs)

        setattr(self._class, name, replacement)

    def _enter(self, original: Callable[..., Any], named: Any) -> Any:
        if self._wanted():
            began = (threading.get_native_id(), self._session.clock())
            self._taken.setdefault(named, []).append(began)
            return named
        if self._profiled():
            self._told[named] = self._told.get(named, 0) + 1
        return original(named)

    def _exit(self, original: Callable[..., Any], named: Any, *args: Any, **kwargs: Any) -> Any:
        began = self._taken.get(named)
        if began:
            self._session.guarded("range", self._append, named.name, *began.pop())
            if not began:
                self._taken.pop(named, None)
            return None
        told = self._told.pop(named, 0)
        if told > 1:
            self._told[named] = told - 1
        return original(named, *args, **kwargs)

    def _await(self, original: Callable[..., Any], named: Any, future: Any) -> Any:
        return future if self._taken.get(named) else original(named, future)

    def _append(self, name: str, tid: int, start: int) -> None:
        if not name.startswith(_TOLD_OTHERWISE):
            self._rows.append((tid, start, self._session.clock() - start, "annotation", name))
