"""What several commands make of their options."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import click

from pasta.errors import PastaError


class Seconds(click.FloatRange):
    """A time in seconds, of at least `min`, that ends: neither `nan` nor `inf`."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number that a text says."""
        seconds: float = super().convert(value, param, ctx)
        if not math.isfinite(seconds):
            self.fail(f"{seconds} is no number of seconds.", param, ctx)
        return seconds


class GivenPath(click.Path):
    """A path that is not empty: an empty one, as of a variable that is not set, would be the current folder."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | os.PathLike[str]:
        """Return the path that a text says."""
        if value == "":
            self.fail("It is empty; name a file or folder.", param, ctx)
        return super().convert(value, param, ctx)


def pairs(given: Sequence[str], option: str) -> dict[str, str]:
    """Return what an option that may be given several times says, as name and value.

    Raises:
        PastaError: it is not NAME=VALUE, or a name is given twice.
    """
    found: dict[str, str] = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not (name and equals):
            raise PastaError(f"{option} {item}: expected NAME=VALUE")
        if name in found:
            raise PastaError(f"{option} {item}: '{name}' is given twice")
        found[name] = value
    return found
