"""Measure what sampling by py-spy costs a busy Python program, within one run of it.

python benchmarks/python_sampling.py [SECONDS] [FREQUENCY]

Two runs of the same Python program differ by more than sampling costs (where its memory lies, what else
the machine does), so runs are not compared: py-spy is stopped and continued in turn (SIGSTOP, SIGCONT) while
the program does equal pieces of work and notes how long each took. Told are, of neighbouring phases with and
without py-spy, the differences of the mean piece: their median, and its 95 % interval by bootstrap. As
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

PHASE_SECONDS, SETTLING_SECONDS = 1.0, 0.4
RESAMPLES = 2000
PROGRAM = """
import json, pathlib, sys, time
def work(count):
    total = 0
    for i in range(count):
        total += i
pieces, end = [], time.monotonic() + float(sys.argv[1])
while (began := time.monotonic()) < end:
    spent = time.process_time()
    work(100_000)
    pieces.append((began, time.monotonic() - began, time.process_time() - spent))
pathlib.Path(sys.argv[2]).write_text(json.dumps(pieces))
"""


class Phase(NamedTuple):
    """A time during which py-spy runs or stands still, of CLOCK_MONOTONIC."""

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
            if done.wait(PHASE_SECONDS):
                break
            phases.append(Phase(began, time.monotonic(), sampled))
            sampled = not sampled
            os.kill(sampler, signal.SIGCONT if sampled else signal.SIGSTOP)
    except ProcessLookupError:
        return
    finally:
        if sampler is not None and not sampled:
            os.kill(sampler, signal.SIGCONT)


def measure(seconds: float, frequency: int) -> tuple[list[Phase], list[list[float]]]:
    """Return the phases, and for each piece when it began, how long it took, and its processor time."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "work.py").write_text(PROGRAM)
        phases: list[Phase] = []
        done = threading.Event()
        turns = threading.Thread(target=_take_turns, args=(phases, done))
        turns.start()
        command = [sys.executable, str(folder / "work.py"), str(seconds), str(folder / "told")]
        ends = threading.Timer(
            seconds, done.set
        )  # before the program does, or py-spy might not end
        ends.start()
        options = HostOptions(frequency=frequency)
        record_command(command, folder / "t", {"cpu": "python"}, Selection(host=options))
        done.set()
        turns.join()
        return phases, json.loads((folder / "told").read_text())


def cost(phases: Sequence[Phase], pieces: Sequence[Sequence[float]], of: int) -> list[float]:
    """Return, of each two neighbouring phases, how much more a piece took with py-spy, as a share.

    Args:
        phases: in order, in turn with and without.
        pieces: as `measure` returns them.
        of: which number of a piece.
    """
    means = []
    for phase in phases:
        first, last = phase.began + SETTLING_SECONDS, phase.ended
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


def main(seconds: float, frequency: int) -> None:
    """Print the cost by time elapsed and by processor time."""
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    phases, pieces = measure(seconds, frequency)
    elapsed, processor = cost(phases, pieces, 1), cost(phases, pieces, 2)
    print(
        f"cpu:python at {frequency} Hz: {_told(elapsed)} time, {_told(processor)} processor time;"
        f" {len(elapsed)} pairs of phases, {len(pieces):,} pieces"
    )


if __name__ == "__main__":
    main(
        float(sys.argv[1]) if len(sys.argv) > 1 else 60.0,
        int(sys.argv[2]) if len(sys.argv) > 2 else 99,
    )
