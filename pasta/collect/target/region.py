"""`start`, `stop` and `step`: what a program says of its own recording.

    with pasta.region():      # under `pasta collect --idle`: record this part alone
        for batch in batches:
            pasta.step()      # a step begins here; optimizers no longer end steps
            ...

Where nothing records, each costs one look at a name.
"""

from __future__ import annotations

from typing import Protocol


class Recorder(Protocol):
    """What can be asked to record; it must not raise."""

    def ask(self, *, record: bool, steps: int | None = None) -> None:
        """Record from here on, for so many steps or until told otherwise, or do not."""

    def step(self) -> None:
        """Begin a step here."""


_recorder: Recorder | None = None


def attach(recorder: Recorder) -> None:
    """Let `recorder` be asked from now on."""
    global _recorder  # noqa: PLW0603 - one for each process
    _recorder = recorder


def detach(recorder: Recorder) -> None:
    """Ask `recorder` no more, if it is the one that is asked."""
    global _recorder  # noqa: PLW0603 - one for each process
    if _recorder is recorder:
        _recorder = None


def start(steps: int | None = None) -> None:
    """Record from here on.

    Args:
        steps: stop after so many steps; `None`: when `stop` is called.
    """
    if _recorder is not None:
        _recorder.ask(record=True, steps=steps)


def stop() -> None:
    """Record no more, until `start` is called."""
    if _recorder is not None:
        _recorder.ask(record=False)


def step() -> None:
    """Begin a step here; from the first call on, optimizers no longer end steps."""
    if _recorder is not None:
        _recorder.step()


class region:  # noqa: N801 - beside `annotate`, which is used the same way
    """Record what runs inside, as context manager; `start` and `stop` around it."""

    __slots__ = ()

    def __enter__(self) -> None:
        start()

    def __exit__(self, _kind: object, _error: object, _traceback: object) -> None:
        stop()
