"""Which rung samples a program, where the user leaves it to pasta."""

from __future__ import annotations

from collections.abc import Sequence

from pasta.collect.companions.companion import Companion
from pasta.collect.companions.cpu.own_samples import (
    is_loadable,
    python_of,
    sampler_rung,
    samples_itself,
)
from pasta.collect.companions.cpu.perf import PerfSampling
from pasta.collect.companions.cpu.pyspy import PySpySampling
from pasta.collect.companions.cpu.rungs import (
    FRAME_POINTERS,
    PYSPY,
    PYTHON,
    perf_rung,
    pyspy_rung,
)
from pasta.collect.companions.options import HostOptions
from pasta.errors import CollectError

BEST = "best"


def best_level(command: Sequence[str], options: HostOptions) -> str:
    """Return the level that shows most of a command on this machine, at the least cost.

    Of a Python these are its own functions: it samples itself where it can and no more is asked for, else
    py-spy does. Of any other program they are samples of perf.

    Raises:
        CollectError: none works, with what to do about it.
    """
    python = bool(python_of(command))
    only_python = not (options.native or options.idle or options.events)
    known = python and only_python and not sampler_rung().lacks and samples_itself(command)
    if known and is_loadable():
        return PYTHON
    pyspy, perf = pyspy_rung(), perf_rung()
    if not pyspy.lacks and (perf.lacks or (python and not options.events)):
        return PYSPY
    if not perf.lacks:
        return FRAME_POINTERS
    raise CollectError(
        f"--with cpu: {perf.lacks}, and {pyspy.lacks}; {perf.advice}, or {pyspy.advice}"
    )


def sampling(level: str, options: HostOptions) -> Companion | None:
    """Return the companion of a level; `None`: it needs none."""
    if level == PYTHON:
        return None
    return PySpySampling(level, options) if level == PYSPY else PerfSampling(level, options)
