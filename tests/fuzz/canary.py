"""What a hostile pickle tries to run; the judge asks whether it was."""

from __future__ import annotations

from typing import Self

calls: list[object] = []


def sing(*arguments: object) -> str:
    """Note that something was run."""
    calls.append(arguments)
    return "sung"


class Bird:
    """A class whose making, and whose setting of a state, are noted."""

    def __new__(cls, *arguments: object) -> Self:
        calls.append(arguments)
        return super().__new__(cls)

    def __setstate__(self, state: object) -> None:
        calls.append(state)
