"""The process that samples cards for a recording: `python -m pasta.collect.nvml.helper SETTINGS`.

It writes lines of JSON to its output: `{"devices": [...]}` once, then `{"sample": [device, ts,
{metric: value}]}`, `{"loss": [reason, count, ts]}`, or `{"error": text}` as its last words. It ends
after one more sample when its input ends, and with its parent.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

from pasta.collect.nvml.library import (
    NAME,
    NOT_TO_BE_HAD,
    READINGS,
    Card,
    Library,
    NvmlError,
    Reading,
)
from pasta.collect.nvml.visible import visible

_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_LATE = "samples that were not taken, as the machine or the recording was too slow"


class SampledCard:
    """A card, and what can be read of it."""

    def __init__(self, card: Card, device: int) -> None:
        self.device = device
        self._card = card
        self._readings = dict(READINGS)

    def sample(self, clock: int) -> Iterator[dict[str, Any]]:
        """Yield the messages of one sample, taken at `clock` in ns on the trace's clock."""
        values: dict[str, float] = {}
        for name, reading in list(self._readings.items()):
            try:
                values.update(_values(reading, self._card))
            except NvmlError as error:
                stays = error.code in NOT_TO_BE_HAD
                if stays:
                    del self._readings[name]
                end = "not recorded" if stays else "left out of a sample"
                reason = (
                    f"{' and '.join(reading.names[:2])} of device {self.device}: {error}: {end}"
                )
                yield {"loss": [reason, 1, clock]}
        if values:
            yield {"sample": [self.device, clock, values]}


def _values(reading: Reading, card: Card) -> dict[str, float]:
    read = reading.read(card)
    return dict(zip(reading.names, read if isinstance(read, tuple) else (read,), strict=True))


def follow(cards: list[SampledCard], offset: int, period: int) -> None:
    """Sample every `period` ns until the input ends.

    Args:
        cards: what to sample.
        offset: ns from the monotonic clock to the trace's.
        period: time from one sample to the next, in ns.
    """
    following = True
    due = time.monotonic_ns()
    while following:
        for card in cards:
            for message in card.sample(time.monotonic_ns() + offset):
                _say(message)
        due += period
        now = time.monotonic_ns()
        if now > due:
            missed = (now - due) // period + 1
            due += missed * period
            _say({"loss": [_LATE, missed, now + offset]})
        seconds = max(0, due - time.monotonic_ns()) / 1e9
        following = not select.select([sys.stdin.fileno()], [], [], seconds)[0]
    for card in cards:
        for message in card.sample(time.monotonic_ns() + offset):
            _say(message)


def _say(message: dict[str, Any]) -> None:
    os.write(sys.stdout.fileno(), json.dumps(message).encode() + b"\n")


def _bound_to(parent: int) -> bool:
    """Have the system end this process with its parent; tell whether that still runs."""
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    return os.getppid() == parent


def main(settings: dict[str, Any]) -> None:
    """Sample as `settings` say: `parent`, `offset`, `period` and, for tests, `library`."""
    if not _bound_to(settings["parent"]):
        return
    try:
        found = Library(settings.get("library") or NAME).cards()
        shown = visible(found, os.environ)
        _say({"devices": [{"device": at, **found[i].about()} for at, i in enumerate(shown)]})
        cards = [SampledCard(found[index], at) for at, index in enumerate(shown)]
        if not cards:
            _say({"error": "no card is visible (CUDA_VISIBLE_DEVICES)" if found else "no card"})
            return
        follow(cards, settings["offset"], settings["period"])
    except (OSError, NvmlError) as error:
        _say({"error": str(error)})


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    main(json.loads(sys.argv[1]))
