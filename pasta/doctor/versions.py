"""Versions of programs and libraries, as numbers that compare."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

_SECONDS = 20
_NUMBERS = re.compile(r"\d+(?:\.\d+)+")


def of_program(path: str) -> str:
    """Return what `PROGRAM --version` says: its longest number with dots, empty where it has none."""
    try:
        done = subprocess.run(  # noqa: S603 - the user's tools
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return max(_NUMBERS.findall(done.stdout), key=len, default="")


def of_cupti(number: int) -> str:
    """Return the version of CUDA that CUPTI's number stands for; before CUDA 13, the number."""
    if number >= 100_000:
        return f"{number // 10_000}.{number // 100 % 100}"
    return f"API {number}"


def numbers(version: str) -> tuple[int, ...]:
    """Return `13.4.92` as numbers that compare; anything else as an empty tuple."""
    found = _NUMBERS.match(version)
    return tuple(map(int, found[0].split("."))) if found else ()


def beside_sanitizer(library: Path) -> str:
    """Return the version in the documentation beside Compute Sanitizer's library, or nothing."""
    try:
        return (library.parent / "docs" / "VERSION").read_text(encoding="utf-8").strip()
    except OSError:
        return ""
