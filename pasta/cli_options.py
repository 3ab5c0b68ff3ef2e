"""What several commands make of their options."""

from __future__ import annotations

from collections.abc import Sequence

from pasta.errors import PastaError


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
