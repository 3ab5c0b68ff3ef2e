"""Perfetto's traces: protocol buffers, a stream of packets."""

from __future__ import annotations

from pasta.collect.containers.protobuf_fields import (
    LENGTH,
    VARINT,
    MessageStream,
    WireError,
    fields,
)
from pasta.collect.importer import Imported, importer
from pasta.collect.importers.perfetto.messages import TRACE_PACKET, Packet
from pasta.collect.importers.perfetto.reading import Reading
from pasta.collect.losses import Losses
from pasta.collect.sources import Source
from pasta.errors import InputError
from pasta.trace_writer import PartWriter

_FIRST_BYTE = b"\x0a"
_LOOKED_AT = 16
_NUMBERS_MAX = 1000
_WIRES: dict[int, int] = {
    Packet.TIMESTAMP: VARINT,
    Packet.SEQUENCE: VARINT,
    Packet.SEQUENCE_FLAGS: VARINT,
    Packet.TIMESTAMP_CLOCK: VARINT,
    Packet.TRACK_EVENT: LENGTH,
    Packet.CLOCK_SNAPSHOT: LENGTH,
    Packet.INTERNED_DATA: LENGTH,
    Packet.TRACK_DESCRIPTOR: LENGTH,
}
_TYPICAL = frozenset([Packet.TIMESTAMP, Packet.SEQUENCE, Packet.TRACK_DESCRIPTOR])


@importer("perfetto")
class Perfetto:
    """Imports tracks of all processes: slices, counters and the work of GPUs."""

    format = "Perfetto trace (protobuf)"
    version = 2
    general = False

    def recognises(self, source: Source) -> bool:
        """Tell whether most of the first fields are packets, with what most packets have."""
        if not source.head.startswith(_FIRST_BYTE):
            return False
        sound = 0
        seen: set[int] = set()
        stream = MessageStream(iter([source.head]))
        for number, data in stream:
            found = _fields_of_packet(data) if number == TRACE_PACKET else set()
            sound += bool(found)
            seen |= found
            if stream.kept >= _LOOKED_AT:
                break
        return sound > stream.kept // 2 and not seen.isdisjoint(_TYPICAL)

    def read(self, source: Source, part: PartWriter, losses: Losses) -> Imported:
        """Append the events of all packets.

        Raises:
            InputError: not one packet can be read.
        """
        stream = MessageStream(source.chunks, source.damage)
        reading = Reading(part, losses)
        reading.read(stream)
        if stream.cut:
            where = stream.cut.rpartition(" at ")[2]
            losses.fault(f"{stream.cut}, {reading.kept} packets kept", where=where)
        if not reading.kept:
            raise InputError(f"{source.name}: has no packet that can be read; is it cut?")
        return reading.finish()


def _fields_of_packet(data: bytes) -> set[int]:
    """Return the numbers of the fields of a packet; empty: it is none."""
    try:
        found = [(number, wire) for number, wire, _ in fields(data)]
    except WireError:
        return set()
    odd = any(number > _NUMBERS_MAX or _WIRES.get(number, wire) != wire for number, wire in found)
    return set() if odd else {number for number, _ in found}
