"""What the packets of one writer build upon: interned names and defaults, until they are cleared."""

from __future__ import annotations

from pasta.collect.containers.protobuf_fields import by_number, message
from pasta.collect.importers.perfetto.messages import (
    Interned,
    Packet,
    Values,
    inner,
    string,
    whole,
)

_CLEARED, _NEEDS = 1, 2
_IID, _NAME, _PID = 1, 2, 2
_PID_MAX = (1 << 62) - 1


class Sequence:
    """The state of one sequence of packets.

    Attributes:
        number: of the sequence.
        event: the defaults of track events.
        counters: the last values of counters that are told by differences, by track.
        contexts: the process of each graphics context.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.contexts: dict[int, int] = {}
        self.event: Values = {}
        self.counters: dict[int, float] = {}
        self._clock = 0
        self._valid = False
        self._names: dict[tuple[int, int], str] = {}

    def take(self, packet: Values) -> bool:
        """Take what a packet changes; tell whether it can be understood."""
        flags = whole(packet, Packet.SEQUENCE_FLAGS)
        if flags & _CLEARED or whole(packet, Packet.INCREMENTAL_STATE_CLEARED):
            self._clear()
        if whole(packet, Packet.PREVIOUS_PACKET_DROPPED) and not flags & _CLEARED:
            self._valid = False
        if flags & _NEEDS and not self._valid:
            return False
        if Packet.DEFAULTS in packet:
            defaults = inner(packet, Packet.DEFAULTS)
            self._clock = whole(defaults, Packet.TIMESTAMP_CLOCK)
            self.event = inner(defaults, Packet.TRACK_EVENT)
        for data in packet.get(Packet.INTERNED_DATA, []):
            for kind, entries in by_number(message(data)).items():
                self._intern(kind, entries)
        return True

    def clock(self, packet: Values) -> int:
        """Return the clock of a packet's time; 0: the trace's."""
        return whole(packet, Packet.TIMESTAMP_CLOCK) or self._clock

    def name(self, kind: Interned, iid: int) -> str:
        """Return an interned text; empty: it is not known."""
        return self._names.get((kind, iid), "")

    def _clear(self) -> None:
        self._valid = True
        self._names = {}
        self.event = {}
        self.counters = {}
        self._clock = 0

    def _intern(self, kind: int, entries: list[int | bytes]) -> None:
        for data in entries:
            entry = by_number(message(data))
            iid = whole(entry, _IID)
            if kind == Interned.GRAPHICS_CONTEXTS:
                self.contexts[iid] = min(whole(entry, _PID), _PID_MAX)
            else:
                self._names[kind, iid] = string(entry, _NAME)
