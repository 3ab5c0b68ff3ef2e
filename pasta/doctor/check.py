"""What a look at one thing of the machine finds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How a thing stands; only `BROKEN` means that pasta itself does not work."""

    OK = "ok"
    LIMITED = "limited"
    MISSING = "missing"
    UNKNOWN = "unknown"
    BROKEN = "broken"


@dataclass(frozen=True)
class Check:
    """One line of the doctor's report.

    Attributes:
        status: how it stands.
        name: what was looked at.
        found: what was found, as a version, or why it does not work.
        advice: what to do, and what it is good for; empty where nothing is to be done.
    """

    status: Status
    name: str
    found: str
    advice: str = ""
