"""`annotate`: name a range of a program, for whatever records it.

    with pasta.annotate("load batch"):
        ...

    @pasta.annotate("evaluate")
    def evaluate(model): ...

Where nothing records, a range costs one look at an empty tuple.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_RETURN_EARLY = (
    inspect.iscoroutinefunction,
    inspect.isgeneratorfunction,
    inspect.isasyncgenfunction,
)
"""Tell of functions whose calls return before their body has run."""


class Sink(Protocol):
    """What a recorder offers to be told of ranges; it must not raise."""

    def begin(self, name: str) -> None:
        """Take note that the calling thread enters the range `name`."""

    def end(self, name: str) -> None:
        """Take note that the calling thread leaves the range `name`, entered here or earlier."""


_sinks: tuple[Sink, ...] = ()


def add_sink(sink: Sink) -> None:
    """Let `sink` be told of every range from now on."""
    global _sinks  # noqa: PLW0603 - one tuple, replaced as a whole: readers need no lock
    _sinks = (*_sinks, sink)


def remove_sink(sink: Sink) -> None:
    """Tell `sink` no more; unknown ones are ignored."""
    global _sinks  # noqa: PLW0603
    _sinks = tuple(known for known in _sinks if known is not sink)


class annotate:  # noqa: N801 - used as a verb; a function around it would double its cost
    """Name a range of the program, as context manager or decorator; ranges may nest.

    Args:
        name: what the range is called in the trace.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        if _sinks:
            for sink in _sinks:
                sink.begin(self.name)

    def __exit__(self, _kind: object, _error: object, _traceback: object) -> None:
        if _sinks:
            for sink in _sinks:
                sink.end(self.name)

    def __call__(self, function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        """Return `function` with every call inside the range.

        Raises:
            TypeError: a call of `function` returns before its body has run.
        """
        if any(kind(function) for kind in _RETURN_EARLY):
            told = getattr(function, "__name__", function)
            raise TypeError(
                f"annotate({self.name!r}): {told} is a generator or coroutine;"
                " use 'with annotate(...)' inside it"
            )

        @functools.wraps(function)
        def annotated(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            with self:
                return function(*args, **kwargs)

        return annotated
