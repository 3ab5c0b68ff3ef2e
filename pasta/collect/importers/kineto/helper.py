"""The process that reads the second half of a large Kineto file."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from pasta.collect.importers.kineto.halves import SECOND_LAUNCH, Half, Task
from pasta.collect.importers.kineto.reading import Reading
from pasta.collect.losses import Losses
from pasta.collect.sources import open_from
from pasta.errors import InputError
from pasta.trace_writer import PartWriter


def read_second_half(task: Task) -> Half:
    """Read the events after the seam and describe what was found."""
    part = PartWriter(Path(task.folder))
    losses = Losses("", task.file, strict=task.strict)
    source = open_from(Path(task.file), task.byte)
    reading = Reading(source, part, losses, task.block_bytes, launches=SECOND_LAUNCH)
    half = Half()
    try:
        reading.read_after(task.byte, bare=task.bare)
    except InputError as error:
        half.error = str(error)
    part.flush()
    reading.describe(half)
    half.losses = list(losses)
    half.rows = part.rows
    return half


if __name__ == "__main__":
    result = read_second_half(msgspec.json.decode(sys.argv[1], type=Task))
    sys.stdout.buffer.write(msgspec.json.encode(result))
