"""A small reader of Perfetto's track events, by the rules of its trace processor.

It shares no code with the importer: packets are decoded here, names resolved by sequence, and events are
replayed in order of time as the trace processor does, slices of a track as a stack.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

BEGIN, END, COUNTER = 1, 2, 4


def decoded(data: bytes) -> dict[int, list[Any]]:
    """Return the values of a message by the number of their field."""
    found: dict[int, list[Any]] = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            value, at = _varint(data, at)
        elif tag & 7 == 1:
            value, at = data[at : at + 8], at + 8
        else:
            assert tag & 7 == 2
            size, at = _varint(data, at)
            assert at + size <= len(data)
            value, at = data[at : at + size], at + size
        found.setdefault(tag >> 3, []).append(value)
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


@dataclass
class Slice:
    track: int
    name: str
    category: str
    ts: int
    dur: int | None
    depth: int
    flows: list[int]
    arguments: dict[str, Any]


@dataclass
class Read:
    """What a trace holds."""

    tracks: dict[int, dict[int, list[Any]]] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)
    counters: list[tuple[int, int, float]] = field(default_factory=list)
    times: list[int] = field(default_factory=list)

    def name(self, track: int) -> str:
        """Return the name of a track, a thread's by its descriptor."""
        about = self.tracks[track]
        return (decoded(about[4][0])[5] if 4 in about else about[2])[0].decode()

    def process(self, track: int) -> str:
        """Return the name of the process that a track is of."""
        about = self.tracks[self.tracks[track].get(5, [track])[0]]
        return decoded(about[3][0])[6][0].decode()


def read(data: bytes) -> Read:
    """Read a trace; fails where the trace processor would drop or misplace something."""
    found = Read()
    names: dict[tuple[int, int], str] = {}
    valid = False
    stacks: dict[int, list[Slice]] = {}
    for packet in map(decoded, decoded(data)[1]):
        assert packet[10] == [1]
        flags = packet.get(13, [0])[0]
        if flags & 1:
            names, valid = {}, True
        assert valid or not flags & 2
        for interned in map(decoded, packet.get(12, [])):
            for kind, entries in interned.items():
                for entry in map(decoded, entries):
                    names[kind, entry[1][0]] = entry[2][0].decode()
        for about in map(decoded, packet.get(60, [])):
            found.tracks[about[1][0]] = about
        for event in map(decoded, packet.get(11, [])):
            ts, track = packet[8][0], event[11][0]
            assert track in found.tracks
            assert flags & 2
            found.times.append(ts)
            if event[9] == [COUNTER]:
                value = struct.unpack("<d", event[44][0])[0] if 44 in event else event[30][0]
                found.counters.append((track, ts, value))
            elif event[9] == [BEGIN]:
                stack = stacks.setdefault(track, [])
                begun = _slice(event, names, track, ts, len(stack))
                stack.append(begun)
                found.slices.append(begun)
            else:
                assert event[9] == [END]
                ended = stacks[track].pop()
                ended.dur = ts - ended.ts
                assert ended.dur >= 0
    return found


def _slice(event, names, track: int, ts: int, depth: int) -> Slice:
    flows = [struct.unpack("<Q", flow)[0] for flow in event.get(47, [])]
    arguments = {}
    for annotation in map(decoded, event.get(4, [])):
        text = [names[29, iid] for iid in annotation.get(17, [])]
        (value,) = annotation.get(3, []) + annotation.get(4, []) + text
        arguments[names[3, annotation[1][0]]] = value
    name, category = names[2, event[10][0]], names[1, event[3][0]]
    return Slice(track, name, category, ts, None, depth, flows, arguments)
