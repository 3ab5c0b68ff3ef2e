"""Which rung samples a program, where the user leaves it to pasta."""

from __future__ import annotations

from pasta.collect.companions.companion import Companion
from pasta.collect.companions.cpu.perf import PerfSampling
from pasta.collect.companions.cpu.pyspy import PySpySampling
from pasta.collect.companions.cpu.rungs import (
    FRAME_POINTERS,
    PYTHON,
    perf_rung,
    pyspy_rung,
    runs_python,
)
from pasta.collect.companions.options import HostOptions
from pasta.errors import CollectError

BEST = "best"


def best_level(program: str) -> str:
    """Return the level that shows most of a program on this machine.

    Of a Python program these are its own functions, by py-spy; of any other, samples of perf.

    Raises:
        CollectError: none works, with what to do about it.
    """
    python, perf = pyspy_rung(), perf_rung()
    if not python.lacks and (perf.lacks or runs_python(program)):
        return PYTHON
    if not perf.lacks:
        return FRAME_POINTERS
    raise CollectError(
        f"--with cpu: {perf.lacks}, and {python.lacks}; {perf.advice}, or {python.advice}"
    )


def sampling(level: str, options: HostOptions) -> Companion:
    """Return the companion of a level."""
    return PySpySampling(level, options) if level == PYTHON else PerfSampling(level, options)
