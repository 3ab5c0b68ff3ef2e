"""Level `touch`: every operator below autograd, with what it reads and writes."""

# ruff: noqa: SLF001 - PyTorch has no public names for what is needed here

from __future__ import annotations

import re
import threading
from typing import Any, Protocol

from ..session import Session
from . import touch
from .memory import MEMORY_COLUMNS, Storages
from .touch import TOUCH_COLUMNS, Operand, Signature

NO_SEQUENCE = 1 << 63
"""From here on, an autograd node's number means that its operator has none in forward."""

LEFT_OUT = "operators left out by --match"


class Listener(Protocol):
    """What hears of operators while they are recorded."""

    def operator_begins(self, name: str, storages: Storages) -> None:
        """Take note that an operator is about to run; its operands' storages are known."""

    def operator_ends(self, name: str, touched: bool) -> None:  # noqa: FBT001 (one of two)
        """Take note that it has run, and whether it touched any storage."""


class TouchOperators:
    """Operators told by PyTorch's dispatcher, on the thread that starts it and on autograd's.

    Args:
        session: takes the rows.
        match: regular expression that the names of recorded operators contain; `None`: any name.

    Attributes:
        active: whether operators are recorded; they run either way.
        listener: hears of operators; `None`: nobody does.
    """

    def __init__(self, session: Session, match: str | None = None) -> None:
        self._session = session
        self._pattern = _compiled(match, session)
        self._left_out: dict[Any, bool] = {}
        self._guarded = session.guarded
        self._clock = session.clock
        self._touches = session.rows(
            "touch", TOUCH_COLUMNS, launch_id=0, space="tensor", granularity=1
        )
        memory = session.rows("memory", MEMORY_COLUMNS, space="tensor", stack_id=0)
        self._storages = Storages(memory, session.losses, session.clock, _reserved_bytes)
        self._autograd = threading.local()
        self._mode: Any = None
        self.active = False
        self.listener: Listener | None = None

    def start(self) -> None:
        """Record from here on; on the main thread only, as the mode belongs to a thread."""
        if self._mode is None:
            self._mode = _dispatch_mode(self)
            self._mode.__enter__()
            self._autograd_sequence()
        self.active = True

    def stop(self) -> None:
        """Record no more; the mode stays where the program has put another on top of it."""
        from torch.utils._python_dispatch import _get_current_dispatch_mode

        self.active = False
        if self._mode is not None and _get_current_dispatch_mode() is self._mode:
            self._mode.__exit__(None, None, None)
            self._mode = None

    def close(self) -> None:
        """Leave the dispatcher, and forget all storages: what still lives gets no release."""
        self.stop()
        self._storages.close()

    def forked(self) -> None:
        """Record no more: what is known of storages belongs to the parent."""
        self.active = False

    def adopt(self, module: Any) -> None:
        """Take note of the parameters and buffers of a model that is first called."""
        if not self.active:
            return
        for tensor in (*module.parameters(), *module.buffers()):
            storage = self._storages.storage(tensor)
            if storage is not None:
                self._storages.existing(storage)

    def operator(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run `operator` between two looks at the clock."""
        pattern = self._pattern
        if not self.active or (
            pattern is not None and self._guarded("match", self._leave_out, pattern, operator)
        ):
            return operator(*args, **kwargs)
        began = self._clock()
        before = self._guarded("operator", self._before_operator, operator, args, kwargs)
        result = None
        start = self._clock()
        try:
            result = operator(*args, **kwargs)
        finally:
            end = self._clock()
            if before is not None:
                self._guarded("operator", self._after_operator, before, result, start, end)
            self._session.spent["collect"] += self._clock() - began - (end - start)
        self._session.flush_if_full()
        return result

    def _leave_out(self, pattern: re.Pattern[str], operator: Any) -> bool:
        """Tell whether the name of `operator` does not match, and count it then."""
        left_out = self._left_out.get(operator)
        if left_out is None:
            left_out = pattern.search(operator._schema.name) is None
            self._left_out[operator] = left_out
        if left_out:
            self._session.losses.count(LEFT_OUT, self._clock())
        return left_out

    def _before_operator(
        self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Signature, list[Operand], int | None]:
        import torch

        with torch._C.DisableTorchFunction():
            called = touch.signature(operator)
            given = touch.operands(called, args, kwargs, self._storages)
            listener = self.listener
            if listener is not None:
                self._guarded("listener", listener.operator_begins, called.name, self._storages)
            return called, given, self._autograd_sequence()

    def _after_operator(
        self,
        before: tuple[Signature, list[Operand], int | None],
        result: Any,
        start: int,
        end: int,
    ) -> None:
        import torch

        called, given, sequence = before
        with torch._C.DisableTorchFunction():
            inputs = touch.describe(called, given)
            span_id = self._session.spans.closed(called.name, start, end, sequence, inputs)
            inside = max(start, end - 1)
            found = touch.touches(called, given, result, self._storages, inside)
            touch.append(self._touches, self._session.losses, span_id, found, end)
            if self.listener is not None:
                self._guarded("listener", self.listener.operator_ends, called.name, bool(found))

    def _autograd_sequence(self) -> int | None:
        """Return the number of the autograd node that runs, or that this operator just got.

        Autograd counts nodes on each thread: an operator got one if the count has gone up since
        the operator before it.
        """
        import torch

        node = torch._C._current_autograd_node()
        if node is not None:
            number = int(node._sequence_nr())
            return number if number < NO_SEQUENCE else None
        following = int(torch.autograd._get_sequence_nr())
        made_a_node = following > getattr(self._autograd, "sequence", following)
        self._autograd.sequence = following
        return following - 1 if made_a_node else None


def _compiled(match: str | None, session: Session) -> re.Pattern[str] | None:
    """Compile `match`; `None`, counted: Python's regular expressions are not those it was meant for."""
    if match is None:
        return None
    try:
        return re.compile(match)
    except re.error as error:
        reason = f"--match {match}: {error}; operators of all names are recorded"
        session.losses.count(reason, session.clock())
        return None


def _dispatch_mode(operators: TouchOperators) -> Any:
    """Return a mode that sees every operator below autograd, also on autograd's own threads."""
    from torch.utils._python_dispatch import (
        TorchDispatchMode,
        is_traceable_wrapper_subclass_type,
    )

    class OperatorMode(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, operator: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if operator.namespace == "profiler":
                return operator(*args, **(kwargs or {}))
            if any(map(is_traceable_wrapper_subclass_type, types)):
                # A wrapper (as DTensor) goes first; what it does inside comes back here.
                return NotImplemented
            return operators.operator(operator, args, kwargs or {})

    return OperatorMode()


def _reserved_bytes(device: Any) -> int | None:
    """Return what PyTorch's caching allocator holds on `device`; `None`: it has no such count."""
    import torch

    if device.type != "cuda":
        return None
    try:
        statistics = torch.cuda.memory_stats_as_nested_dict(device)
    except RuntimeError:  # as allocators that are plugged in answer
        return None
    held: int | None = statistics.get("reserved_bytes", {}).get("all", {}).get("current")
    return held
