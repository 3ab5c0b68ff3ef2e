"""The clocks of a Perfetto trace: each packet's time on the trace's one clock."""

from __future__ import annotations

from pasta.collect.containers.protobuf_fields import by_number, message
from pasta.collect.importers.perfetto.messages import Values, whole

_CLOCKS, _PRIMARY = 1, 2
_ID, _TIME, _INCREMENTAL, _UNIT = 1, 2, 3, 4
_REALTIME, _BOOTTIME = 1, 6
_OF_SEQUENCE = range(64, 128)
_LATEST = 1 << 61

Key = tuple[int, int]
"""A clock: the sequence that it is of, 0 where it is of all, and its number."""


class Clocks:
    """Turns times of any clock into times of one, by snapshots of all.

    Attributes:
        epoch_ns: added to times to make them time since 1970; 0: not known.
        unrelated: packets of clocks that no snapshot relates to the trace's.
    """

    def __init__(self) -> None:
        self.epoch_ns = 0
        self.unrelated = 0
        self._primary = _BOOTTIME
        self._units: dict[Key, int] = {}
        self._offsets: dict[Key, int] = {}
        self._last: dict[Key, int] = {}

    def take(self, snapshot: Values, sequence: int) -> None:
        """Take a snapshot, a message `ClockSnapshot`."""
        if not self._offsets:
            self._primary = whole(snapshot, _PRIMARY) or _BOOTTIME
        readings: dict[Key, int] = {}
        for data in snapshot.get(_CLOCKS, []):
            clock = by_number(message(data))
            key = _key(whole(clock, _ID), sequence)
            unit = whole(clock, _UNIT) or 1
            self._units[key] = unit
            readings[key] = whole(clock, _TIME) * unit
            if whole(clock, _INCREMENTAL):
                self._last[key] = readings[key]
        primary = readings.get((0, self._primary))
        if primary is None:
            return
        for key, reading in readings.items():
            self._offsets[key] = primary - reading
        epoch = readings.get((0, _REALTIME), 0) - primary
        if not self.epoch_ns and 0 < epoch < _LATEST:
            self.epoch_ns = epoch

    def time(self, time: int, clock: int, sequence: int) -> int | None:
        """Return a time on the trace's clock; `None`: it cannot be.

        Args:
            time: as the packet has it.
            clock: the number of its clock; 0: the trace's.
            sequence: of the packet.
        """
        key = _key(clock or self._primary, sequence)
        found = time * self._units.get(key, 1)
        if key in self._last:
            found += self._last[key]
            self._last[key] = found
        if key not in self._offsets:
            self.unrelated += key[1] != self._primary
        found += self._offsets.get(key, 0)
        return found if 0 <= found < _LATEST else None


def _key(clock: int, sequence: int) -> Key:
    return (sequence if clock in _OF_SEQUENCE else 0, clock)
