"""The environment of a program that is recorded; docs/collecting.md describes it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pasta.collect import cuda, cuda_memory
from pasta.collect.collectors import Chosen
from pasta.collect.companions.cpu import own_samples
from pasta.collect.companions.cpu.rungs import PYTHON
from pasta.collect.selection import Selection
from pasta.collect.serial import VARIABLES
from pasta.collect.target.session import CHANNEL, SETTINGS

SITE = Path(__file__).parent / "target" / "site"


def injected(chosen: Chosen, selection: Selection) -> dict[str, str]:
    """Return what loads native collectors, and what serializes launches.

    Args:
        chosen: collector -> level.
        selection: what of the run is recorded.

    Raises:
        CollectError: a library that a collector needs is not there, or cannot be built.
    """
    found = cuda.environment() if "cuda" in chosen else {}
    if "cuda.memory" in chosen:
        found = cuda_memory.environment()
    if chosen.get("cpu") == PYTHON:
        found = {**found, **own_samples.environment()}
    if selection.serialize:
        found = {**found, **VARIABLES}
    return found


def environment_of(channel: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return this process's environment with what has Python collectors loaded into the program.

    Args:
        channel: folder of the channel that collectors write to.
        settings: what they look up there.
    """
    environment = dict(os.environ)
    given = environment.get("PYTHONPATH")
    others = given.split(os.pathsep) if given else []  # an empty part is the working directory
    environment["PYTHONPATH"] = os.pathsep.join([str(SITE), *(p for p in others if p != str(SITE))])
    environment[CHANNEL] = str(channel)
    environment[SETTINGS] = json.dumps(settings)
    environment.setdefault("KINETO_LOG_LEVEL", "6")
    return environment
