"""Measure what sampling costs a busy Python program, within one run of it.

python benchmarks/python_sampling.py [LEVEL] [DEPTH] [SECONDS] [FREQUENCY]

LEVEL is `python` or `pyspy`; DEPTH is how many functions call each other around the work. Two runs of the same
Python program differ by more than sampling costs (where its memory lies, what else the machine does), so runs
are not compared: sampling is on and off in turn while the program does equal pieces of work and notes how
long each took. At level `pyspy`, py-spy is stopped and continued (SIGSTOP, SIGCONT); at level `python` the program
ends its own sampling, timers and thread and all, and begins it anew. Told are, of neighbouring phases with and
without sampling, the differences of the mean piece: their median, and its 95 % interval by bootstrap. As
py-spy takes the samples that it missed when it goes on, pieces of a phase's first tenths of a second do not count.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import platform
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pasta.collect.companions.options import HostOptions
from pasta.collect.recording import record_command
from pasta.collect.selection import Selection

PHASES = {"pyspy": (1.0, 0.4), "python": (0.5, 0.1)}
"""Level -> how long a phase lasts, and its first part that does not count, in seconds."""
RESAMPLES = 2000
PROGRAM = """
import json, pathlib, sys, time
def work(count):
    total = 0
    for i in range(count):
        total += i
def measure(seconds):
    pieces, end = [], time.monotonic() + seconds
    while (began := time.monotonic()) < end:
        spent = time.process_time()
        work(100_000)
        pieces.append((began, time.monotonic() - began, time.process_time() - spent))
    return pieces
def nested(depth, action, *arguments):
    return nested(depth - 1, action, *arguments) if depth > 2 else action(*arguments)
seconds, depth, phase = float(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
own = sys.modules.get("pasta_target.sampling")
if own is None:
    pieces, phases = nested(depth, measure, seconds), []
else:
    pieces, phases, sampled, end = [], [], True, time.monotonic() + seconds
    while (began := time.monotonic()) < end:
        pieces += nested(depth, measure, phase)
        phases.append((began, time.monotonic(), sampled))
        own._sampling.close() if sampled else own._sampling.begin()
        sampled = not sampled
pathlib.Path(sys.argv[4]).write_text(json.dumps([pieces, phases]))
"""


class Phase(NamedTuple):
    """A time during which samples are taken, or none, of CLOCK_MONOTONIC."""

    began: float
    ended: float
    sampled: bool


def _sampler(of: int) -> int | None:
    """Return the process id of the py-spy that a process, or one that it started, runs; `None`: there is none."""
    for task in Path(f"/proc/{of}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{child}/comm").read_text() == "py-spy\n":
                    return child
                if (found := _sampler(child)) is not None:
                    return found
    return None


def _take_turns(phases: list[Phase], done: threading.Event) -> None:
    """Stop and continue py-spy until `done`, and note when."""
    while (sampler := _sampler(os.getpid())) is None and not done.wait(0.05):
        pass
    sampled = True
    try:
        while sampler is not None:
            began = time.monotonic()
            if done.wait(PHASES["pyspy"][0]):
                break
            phases.append(Phase(began, time.monotonic(), sampled))
            sampled = not sampled
            os.kill(sampler, signal.SIGCONT if sampled else signal.SIGSTOP)
    except ProcessLookupError:
        return
    finally:
        if sampler is not None and not sampled:
            os.kill(sampler, signal.SIGCONT)


def measure(
    level: str, depth: int, seconds: float, frequency: int
) -> tuple[list[Phase], list[list[float]]]:
    """Return the phases, and for each piece when it began, how long it took, and its processor time."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "work.py").write_text(PROGRAM)
        phases: list[Phase] = []
        done = threading.Event()
        turns = threading.Thread(target=_take_turns, args=(phases, done))
        if level == "pyspy":
            turns.start()
        numbers = map(str, (seconds, depth, PHASES[level][0]))
        command = [sys.executable, str(folder / "work.py"), *numbers, str(folder / "told")]
        ends = threading.Timer(
            seconds, done.set
        )  # before the program does, or py-spy might not end
        ends.start()
        options = HostOptions(frequency=frequency)
        record_command(command, folder / "t", {"cpu": level}, Selection(host=options))
        done.set()
        pieces, own_phases = json.loads((folder / "told").read_text())
        if level == "pyspy":
            turns.join()
        return phases or [Phase(*phase) for phase in own_phases], pieces


def cost(
    phases: Sequence[Phase], pieces: Sequence[Sequence[float]], of: int, settling: float
) -> list[float]:
    """Return, of each two neighbouring phases, how much more a piece took under sampling, as a share.

    Args:
        phases: in order, in turn with and without.
        pieces: as `measure` returns them.
        of: which number of a piece.
        settling: how long the first part of a phase is that does not count, in seconds.
    """
    means = []
    for phase in phases:
        first, last = phase.began + settling, phase.ended
        inside = [
            piece[of] for piece in pieces if first <= piece[0] and piece[0] + piece[1] <= last
        ]
        means.append((phase.sampled, statistics.mean(inside)) if inside else None)
    shares = []
    for one, other in itertools.pairwise(means):
        if one is not None and other is not None:
            (_, without), (_, under) = sorted((one, other))
            shares.append(under / without - 1)
    return shares


def _told(shares: Sequence[float]) -> str:
    chance = random.Random(1)  # noqa: S311 - not for secrets
    medians = sorted(
        statistics.median(chance.choices(shares, k=len(shares))) for _ in range(RESAMPLES)
    )
    low, high = medians[RESAMPLES // 40], medians[-RESAMPLES // 40]
    return f"{statistics.median(shares):+.2%} ({low:+.2%} to {high:+.2%})"


def main(level: str, depth: int, seconds: float, frequency: int) -> None:
    """Print the cost by time elapsed and by processor time."""
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    phases, pieces = measure(level, depth, seconds, frequency)
    elapsed, processor = (cost(phases, pieces, of, PHASES[level][1]) for of in (1, 2))
    print(
        f"cpu:{level} at {frequency} Hz, depth {depth}: {_told(elapsed)} time, {_told(processor)} processor time;"
        f" {len(elapsed)} pairs of phases, {len(pieces):,} pieces"
    )


if __name__ == "__main__":
    words = [*sys.argv[1:], *("python", "3", "60", "99")[len(sys.argv) - 1 :]]
    main(words[0], int(words[1]), float(words[2]), int(words[3]))
