"""Regions of programs in any language: where their header is, and all of it as one file."""

from __future__ import annotations

from pathlib import Path

INCLUDE = Path(__file__).parents[1] / "include"
"""The folder to give to a compiler by `-I`."""
_CHANNEL = "../collect/native/pasta_channel.h"


def single_header() -> str:
    """Return `pasta.h` with all that it includes of pasta, for programs built where there is none."""
    header = INCLUDE / "pasta.h"
    channel = (INCLUDE / _CHANNEL).read_text(encoding="utf-8")
    text = header.read_text(encoding="utf-8")
    return text.replace(f'#include "{_CHANNEL}"\n', channel)
