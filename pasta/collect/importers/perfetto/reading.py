"""Reading the packets of a Perfetto trace into rows of pasta's tables."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

import polars as pl
import pyarrow as pa

from pasta.collect.containers.protobuf_fields import (
    MESSAGE_BYTES_MAX,
    MessageStream,
    WireError,
    by_number,
    integers,
    message,
    number,
    signed,
    unsigned,
)
from pasta.collect.importer import Imported
from pasta.collect.importers.perfetto.clocks import Clocks
from pasta.collect.importers.perfetto.messages import (
    HOUSEKEEPING,
    KINDS,
    TRACE_PACKET,
    EventType,
    Interned,
    Packet,
    Stage,
    TrackEvent,
    Values,
    inner,
    integer,
    last,
    string,
    whole,
)
from pasta.collect.importers.perfetto.sequences import Sequence
from pasta.collect.importers.perfetto.slices import Slice, SliceRows, begun
from pasta.collect.importers.perfetto.tracks import Tracks
from pasta.collect.losses import Losses
from pasta.collect.shaping.open_spans import BegunParents, OpenSpans
from pasta.collect.shaping.rows import Rows
from pasta.schema import TABLES, arrow_schema
from pasta.trace_merge import Transform
from pasta.trace_writer import PartWriter

_LEGACY_PHASE, _LEGACY_DURATION_US, _LEGACY_PID, _LEGACY_TID = 2, 3, 18, 19
_PHASES = {ord("B"): EventType.BEGIN, ord("E"): EventType.END, ord("I"): EventType.INSTANT}
_COMPLETE = ord("X")
_US = 1000
_I32_MAX, _U32_MAX = (1 << 31) - 1, (1 << 32) - 1
_I62_MAX = (1 << 62) - 1

_BROKEN = "packets that cannot be read: left out"
_LEFT_OUT = "packets of {}: left out"
_STATELESS = "packets whose names were lost with packets before them: left out"
_NO_TIME = "packets at no time that can be: left out"
_NO_BEGIN = "ends of slices that never began: left out"
_NO_END = "slices that never ended: kept as unfinished"
_ENDS_EARLY = "slices that end before they begin: kept as unfinished"
_INSTANT = "instant events: left out"
_LEGACY = "events of old kinds (asynchronous, flows, objects): left out"
_UNDESCRIBED = "tracks that were not described before their events: threads and names unknown"
_UNRELATED = "packets on clocks that no snapshot relates to the trace's: times kept as they are"


class Reading:
    """Reads one file.

    Args:
        part: where the rows go.
        losses: where what is left out is counted.

    Attributes:
        kept: how many packets were read.
    """

    def __init__(self, part: PartWriter, losses: Losses) -> None:
        self.kept = 0
        self._part = part
        self._losses = losses
        self._clocks = Clocks()
        self._tracks = Tracks()
        self._sequences: dict[int, Sequence] = {}
        self._open: OpenSpans[Slice] = OpenSpans()
        self._slices = SliceRows(part)
        self._metrics = Rows(
            *(part, "metric", "pid", "device", "ts", "launch_id", "name", "value", "unit")
        )
        self._begun = 0
        self._inflating = False
        self._extents: dict[int, tuple[int, int]] = {}

    def read(self, packets: Iterable[tuple[int, bytes]]) -> None:
        """Append what packets tell, given as (number, bytes) of the fields of a `Trace`."""
        for kind, data in packets:
            if kind != TRACE_PACKET:
                continue
            try:
                self._read_packet(by_number(data))
                self.kept += 1
            except WireError as error:
                self._losses.fault(_BROKEN, where=f"packet {self.kept + 1} ({error})")

    def finish(self) -> Imported:
        """Append what is held back, and what is known of processes and threads."""
        for piece in self._open.left_open():
            self._losses.skip(_NO_END, 1, piece.ts)
            self._add(piece, None)
        self._slices.flush()
        self._metrics.flush()
        self._losses.skip(_UNDESCRIBED, self._tracks.undescribed)
        self._losses.skip(_UNRELATED, self._clocks.unrelated)
        processes, threads = self._tracks.rows(self._extents)
        for table, found in (("process", processes), ("thread", threads)):
            self._part.append(table, pa.Table.from_pylist(found, schema=arrow_schema(table)))
        shift = self._clocks.epoch_ns
        transforms = {table: _shifted(shift) for table in TABLES}
        parents, moved = BegunParents(self._losses).add, transforms["span"]
        transforms["span"] = lambda frame: moved(parents(frame))
        return Imported(pid=next(iter(self._extents), 0), transforms=transforms, shift_ns=shift)

    def _read_packet(self, packet: Values) -> None:
        number_of_sequence = whole(packet, Packet.SEQUENCE)
        sequence = self._sequences.setdefault(number_of_sequence, Sequence(number_of_sequence))
        if not sequence.take(packet):
            self._losses.skip(_STATELESS)
            return
        for kind in packet:
            if kind == Packet.CLOCK_SNAPSHOT:
                self._clocks.take(inner(packet, kind), number_of_sequence)
            elif kind == Packet.TRACK_DESCRIPTOR:
                self._tracks.describe(inner(packet, kind))
            elif kind == Packet.PROCESS_DESCRIPTOR:
                self._tracks.describe_process(inner(packet, kind))
            elif kind == Packet.THREAD_DESCRIPTOR:
                self._tracks.describe_thread(inner(packet, kind))
            elif kind == Packet.PROCESS_TREE:
                self._tracks.describe_tree(inner(packet, kind))
            elif kind == Packet.COMPRESSED_PACKETS:
                self._read_compressed(message(packet[kind][-1]))
            elif kind in (Packet.TRACK_EVENT, Packet.GPU_RENDER_STAGE_EVENT):
                self._read_timed(packet, kind, sequence)
            elif kind not in HOUSEKEEPING:
                self._losses.skip(_LEFT_OUT.format(KINDS.get(kind, f"field {kind}")))

    def _read_compressed(self, data: bytes) -> None:
        if self._inflating:
            raise WireError("compressed packets in compressed packets")
        self._inflating = True
        try:
            self.read(_inflated(data))
        finally:
            self._inflating = False

    def _read_timed(self, packet: Values, kind: int, sequence: Sequence) -> None:
        event = inner(packet, kind)
        if kind == Packet.TRACK_EVENT and TrackEvent.TIMESTAMP_ABSOLUTE_US in event:
            time = integer(event, TrackEvent.TIMESTAMP_ABSOLUTE_US) * _US
        else:
            time = whole(packet, Packet.TIMESTAMP)
        ts = self._clocks.time(time, sequence.clock(packet), sequence.number)
        if ts is None or ts == 0:
            self._losses.fault(_NO_TIME, where=f"packet {self.kept + 1}")
        elif kind == Packet.TRACK_EVENT:
            self._read_event(event, sequence, ts)
        else:
            self._read_stage(event, sequence, ts)

    def _read_event(self, event: Values, sequence: Sequence, ts: int) -> None:
        uuid = whole(
            event if TrackEvent.TRACK_UUID in event else sequence.event, TrackEvent.TRACK_UUID
        )
        self._read_extra_counters(event, sequence, ts)
        legacy = inner(event, TrackEvent.LEGACY_EVENT)
        phase = integer(legacy, _LEGACY_PHASE)
        kind = whole(event, TrackEvent.TYPE) or _PHASES.get(phase, 0)
        if kind == EventType.BEGIN:
            self._open.begin(uuid, self._begin(event, sequence, uuid, ts))
        elif kind == EventType.END:
            piece = self._open.end(uuid)
            if piece is None:
                self._losses.skip(_NO_BEGIN, 1, ts)
            else:
                self._add(piece, ts - piece.ts)
        elif kind == EventType.COUNTER:
            value = last(event, TrackEvent.COUNTER_VALUE)
            double = last(event, TrackEvent.DOUBLE_COUNTER_VALUE)
            found = signed(value or 0) if double is None else number(double)
            self._add_counter(uuid, found, sequence, ts)
        elif phase == _COMPLETE:
            piece = self._begin(event, sequence, uuid, ts)
            place = (integer(legacy, _LEGACY_PID), integer(legacy, _LEGACY_TID))
            self._add(piece, integer(legacy, _LEGACY_DURATION_US) * _US, place)
        elif kind == EventType.INSTANT:
            self._losses.skip(_INSTANT)
        else:
            self._losses.skip(_LEGACY)

    def _begin(self, event: Values, sequence: Sequence, uuid: int, ts: int) -> Slice:
        self._begun += 1
        return begun(event, sequence, self._begun, uuid, ts)

    def _add(self, piece: Slice, dur: int | None, place: tuple[int, int] = (0, 0)) -> None:
        if dur is not None and not 0 <= dur <= _I62_MAX:
            self._losses.fault(_ENDS_EARLY, 1, piece.ts, where=f"slice '{piece.name[:80]}'")
            dur = None
        pid, tid = self._tracks.place(piece.uuid)
        if place[1]:
            pid, tid = place[0] or pid, place[1]
        self._extend(pid, piece.ts, piece.ts + (dur or 0))
        self._slices.add(piece, (pid, tid), self._tracks.track(piece.uuid).name, dur)

    def _extend(self, pid: int, first: int, end: int) -> None:
        known = self._extents.get(pid, (first, end))
        self._extents[pid] = (min(known[0], first), max(known[1], end))

    def _read_extra_counters(self, event: Values, sequence: Sequence, ts: int) -> None:
        for values, tracks in (
            (TrackEvent.EXTRA_VALUES, TrackEvent.EXTRA_TRACKS),
            (TrackEvent.EXTRA_DOUBLE_VALUES, TrackEvent.EXTRA_DOUBLE_TRACKS),
        ):
            if values not in event:
                continue
            listed = event.get(tracks) or sequence.event.get(tracks, [])
            uuids = [uuid for packed in listed for uuid in integers(packed)]
            found = _numbers(event[values], double=values == TrackEvent.EXTRA_DOUBLE_VALUES)
            for uuid, value in zip(uuids, found, strict=False):
                self._add_counter(uuid, value, sequence, ts)

    def _add_counter(self, uuid: int, value: float, sequence: Sequence, ts: int) -> None:
        track = self._tracks.track(uuid)
        if track.incremental:
            value += sequence.counters.get(uuid, 0)
            sequence.counters[uuid] = value
        pid = self._tracks.process(uuid)
        self._extend(pid, ts, ts)
        self._metrics.add(pid, -1, ts, 0, track.name, float(value * track.factor), track.unit)

    def _read_stage(self, event: Values, sequence: Sequence, ts: int) -> None:
        if Stage.SPECIFICATIONS in event and Stage.DURATION not in event:
            return
        context = whole(event, Stage.CONTEXT)
        pid = sequence.contexts.get(context, 0)
        stage = sequence.name(Interned.GPU_SPECIFICATIONS, whole(event, Stage.STAGE_IID))
        name = string(event, Stage.NAME) or sequence.name(
            Interned.EVENT_NAMES, whole(event, Stage.NAME_IID)
        )
        duration = last(event, Stage.DURATION)
        dur = None if duration is None else min(unsigned(duration), _I62_MAX)
        self._losses.skip(_NO_END, int(dur is None), ts)
        self._extend(pid, ts, ts + (dur or 0))
        stream = whole(event, Stage.QUEUE_IID) or whole(event, Stage.OLD_QUEUE)
        device = min(max(integer(event, Stage.GPU), 0), _I32_MAX)
        where = (pid, device, ts, dur, min(context, _I62_MAX), min(stream, _I62_MAX), 0, 0)
        launch = inner(event, Stage.LAUNCH)
        shape = tuple(_size(inner(launch, of), at) for of in (1, 2) for at in (1, 2, 3))
        unnamed = stage or f"stage {integer(event, Stage.OLD_STAGE)}"
        self._slices.add_kernel(where, name or unnamed, shape)


def _size(values: Values, at: int) -> int | None:
    return min(whole(values, at), _U32_MAX) if at in values else None


def _numbers(values: list[int | bytes], *, double: bool) -> list[float]:
    """Return repeated numbers, packed or not."""
    if not double:
        return [signed(item) for packed in values for item in integers(packed)]
    found: list[float] = []
    for value in values:
        if isinstance(value, bytes):
            parts = [value[at : at + 8] for at in range(0, len(value) - 7, 8)]
            found += [number(int.from_bytes(part, "little")) for part in parts]
        else:
            found.append(number(value))
    return found


def _inflated(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Return the packets in compressed ones.

    Raises:
        WireError: they cannot be inflated, or are too large to hold.
    """
    try:
        inflate = zlib.decompressobj()
        plain = inflate.decompress(data, MESSAGE_BYTES_MAX)
    except zlib.error as error:
        raise WireError(str(error)) from error
    if inflate.unconsumed_tail:
        raise WireError("compressed packets that are too large")
    stream = MessageStream(iter([plain]))
    packets = list(stream)
    if stream.cut:
        raise WireError(stream.cut)
    return iter(packets)


def _shifted(nanoseconds: int) -> Transform:
    """Return what adds `nanoseconds` to all times of a table."""

    def shift(frame: pl.DataFrame) -> pl.DataFrame:
        times = [name for name in ("ts", "started", "ended") if name in frame.columns]
        return frame.with_columns(pl.col(name) + nanoseconds for name in times)

    return shift
