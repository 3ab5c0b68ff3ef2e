"""From when to when storages were seen, as rows of `memory`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

BLOCK_OBJECTS = 1 << 15
_NEVER = (1 << 63) - 1


class Lives:
    """The first begin and the last end of the operators that touch each storage.

    Args:
        sizes: the bytes of storages, numbered from 1.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = np.array(sizes, dtype=np.int64)
        count = len(self._sizes)
        self._first = np.full(count, _NEVER, dtype=np.int64)
        self._last = np.full(count, -_NEVER, dtype=np.int64)
        self._device = np.zeros(count, dtype=np.int32)
        self._pid = np.zeros(count, dtype=np.int64)

    @property
    def count(self) -> int:
        """How many storages were touched."""
        return int((self._first != _NEVER).sum())

    def add(self, touches: pl.DataFrame) -> None:
        """Add touches, each with `object_id`, `device`, `pid`, `ts` and `end`."""
        ends = touches.group_by("object_id").agg(
            pl.col("ts").min(), pl.col("end").max(), pl.col("device", "pid").first()
        )
        place = ends["object_id"].to_numpy().astype(np.int64) - 1
        self._first[place] = np.minimum(self._first[place], ends["ts"].to_numpy())
        self._last[place] = np.maximum(self._last[place], ends["end"].to_numpy())
        self._device[place] = ends["device"].to_numpy()
        self._pid[place] = ends["pid"].to_numpy()

    def rows(self) -> Iterator[pl.DataFrame]:
        """Yield an allocation and a release of each storage, some storages at a time."""
        for start in range(0, len(self._sizes), BLOCK_OBJECTS):
            part = slice(start, start + BLOCK_OBJECTS)
            touched = np.flatnonzero(self._first[part] != _NEVER) + start
            twice = np.repeat(touched, 2)
            release = np.arange(len(twice)) % 2 == 1
            yield pl.DataFrame(
                {
                    "pid": self._pid[twice],
                    "device": self._device[twice],
                    "object_id": (twice + 1).astype(np.uint64),
                    "bytes": self._sizes[twice],
                    "event": pl.Series(release).replace_strict(
                        {False: "allocate", True: "release"}, return_dtype=pl.String
                    ),
                    "ts": np.where(release, self._last[twice], self._first[twice]),
                }
            ).with_columns(space=pl.lit("tensor"), stack_id=pl.lit(0, pl.UInt64))
