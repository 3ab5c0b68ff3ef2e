"""The writing side of a recording, without a program around it."""

from __future__ import annotations

from pasta.collect.channel import Channel
from pasta.collect.target.channel_writer import RingWriter
from pasta.collect.target.rows import Encoder, Rows


class Writer:
    """What a recorded process does with rows of one ring."""

    def __init__(self, channel: Channel, rank: int) -> None:
        self.ring = RingWriter(str(channel.folder), rank=rank)
        self._encoder = Encoder(self.ring.columns, self.ring.write)

    def write(self, table: str, columns: tuple[str, ...], rows: list[tuple]) -> None:
        """Write rows, given as tuples of `columns`."""
        waiting = Rows(table, columns, {})
        for row in rows:
            waiting.append(row)
        taken = waiting.take()
        if taken:
            self._encoder.write(table, taken)
