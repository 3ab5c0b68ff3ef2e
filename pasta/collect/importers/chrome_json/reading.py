"""Reading the events of one file, whatever their phases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pasta.collect.importers.chrome_json.events import ABSENT, Event, arguments_of
from pasta.collect.importers.chrome_json.lanes import Lanes
from pasta.collect.importers.chrome_json.tables import ChromeTables, Timed, text
from pasta.collect.losses import Losses
from pasta.collect.shaping.decimal_time import nanoseconds
from pasta.collect.shaping.open_spans import OpenSpans
from pasta.trace_writer import PartWriter

_COMPLETE, _BEGIN, _END, _COUNTER, _METADATA = "X", "B", "E", "C", "M"
_ASYNC_BEGINS, _ASYNC_ENDS, _INSTANTS = "bS", "eF", "iIRnTp"
_NAMES = ("process_name", "thread_name")
_EPOCH_NS = 10**17
_NO_START = "event without a start time (0, missing or no number): left out"
_TRACKS_MAX = 1 << 16


class Reading:
    """Hands each event to its table.

    Args:
        part: where the rows go.
        losses: where what cannot be kept is counted.
    """

    def __init__(self, part: PartWriter, losses: Losses) -> None:
        self.lanes = Lanes()
        self.tables = ChromeTables(part, losses, self.lanes)
        self._losses = losses
        self._open: OpenSpans[Timed] = OpenSpans()
        self._begun = 0
        self._epoch = False
        self._tracks: dict[str, str] = {}

    def take(self, events: list[Event]) -> None:
        """Take a block of events."""
        named = [event for event in events if event.ph == _METADATA]
        for event in named:
            self._name(event)
        if named:
            self.tables.forget_lanes()
        timed = [event for event in events if event.ph != _METADATA]
        if not timed:
            return
        ts, known = nanoseconds([event.ts for event in timed])
        known &= self._believed(ts)
        first, self._begun = self._begun + 1, self._begun + len(timed)
        complete = np.array([event.ph == _COMPLETE for event in timed])
        dur, ended = self._durations(timed, np.flatnonzero(complete))
        sound = known & complete & ended & (dur >= 0)
        places = np.flatnonzero(sound)
        chosen = [timed[place] for place in places.tolist()]
        others = self.tables.add_spans(chosen, first + places, ts[places], dur[places])
        remaining = np.concatenate((np.flatnonzero(~sound), places[others]))
        for place in np.sort(remaining).tolist():
            event, number = timed[place], first + place
            if known[place]:
                length = int(dur[place]) if ended[place] else None
                self._add(event, number, int(ts[place]), length)
            elif event.ph in ("s", "t", "f"):
                self._skip(event)
            else:
                self._losses.fault(_NO_START, where=f"event '{str(event.name)[:80]}'")

    def finish(self) -> None:
        """Add what has begun and never ended."""
        for begun in self._open.left_open():
            self._losses.fault("begin without an end: kept as unfinished", 1, begun.ts)
            self.tables.add(begun)
        self.tables.finish()

    def _durations(
        self, events: list[Event], complete: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the durations of events, and which are told; only complete ones have any."""
        dur = np.zeros(len(events), dtype=np.int64)
        ended = np.zeros(len(events), dtype=bool)
        if len(complete):
            texts = [events[place].dur for place in complete.tolist()]
            dur[complete], ended[complete] = nanoseconds(texts)
        return dur, ended

    def _believed(self, ts: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which times can be: 0 is none among times that count from 1970 on."""
        self._epoch = self._epoch or bool(len(ts) and ts.max() > _EPOCH_NS)
        believed: NDArray[np.bool_] = ts != 0 if self._epoch else np.ones(len(ts), dtype=bool)
        return believed

    def _name(self, event: Event) -> None:
        name = arguments_of(event.args).get("name")
        if event.name in _NAMES and name is not None:
            self.lanes.name(event.name, event.pid, event.tid, str(name).strip())

    def _add(self, event: Event, number: int, ts: int, dur: int | None) -> None:
        phase = event.ph if isinstance(event.ph, str) and len(event.ph) == 1 else "?"
        if phase == _COMPLETE:
            self.tables.add(_timed(event, number, ts, self._sound(event, ts, dur)))
        elif phase == _BEGIN:
            self._open.begin(_thread(event), _timed(event, number, ts, None))
        elif phase == _END:
            self._end(self._open.end(_thread(event)), event, ts)
        elif phase in _ASYNC_BEGINS:
            begun = _timed(event, number, ts, None)._replace(tid=self._track(event))
            self._open.begin(_scope(event), begun)
        elif phase in _ASYNC_ENDS:
            self._end(self._asynchronous(event), event, ts)
        elif phase in _INSTANTS:
            self.tables.add(_timed(event, number, ts, 0))
        elif phase == _COUNTER:
            name, arguments = text(event.name), arguments_of(event.args)
            self.tables.add_counter(name, event.pid, event.tid, ts, arguments)
        else:
            self._skip(event)

    def _sound(self, event: Event, ts: int, dur: int | None) -> int | None:
        if dur is None:
            reason = "event without a duration: kept as unfinished"
        elif dur < 0:
            reason = "event with a negative duration: kept as unfinished"
        else:
            return dur
        self._losses.fault(reason, 1, ts, where=f"event '{str(event.name)[:80]}'")
        return None

    def _asynchronous(self, event: Event) -> Timed | None:
        """Return what an event ends: of its process if there is such, since many reuse ids there."""
        scope, is_named = _scope(event), _is_named(event.name)
        here = self._open.end(scope, lambda begun: begun.pid == event.pid and is_named(begun))
        return here or self._open.end(scope, is_named)

    def _end(self, begun: Timed | None, event: Event, ts: int) -> None:
        if begun is None:
            self._losses.fault(
                "end without a begin: left out", 1, ts, where=f"event '{str(event.name)[:80]}'"
            )
        else:
            self.tables.add(begun._replace(dur=self._sound(event, begun.ts, ts - begun.ts)))

    def _track(self, event: Event) -> str:
        """Return a thread of its own for an asynchronous event, whose time is no thread's."""
        scope = f"async {text(event.cat)} {_identity(event)}"
        if scope not in self._tracks and len(self._tracks) < _TRACKS_MAX:
            self._tracks[scope] = scope
        return self._tracks.get(scope, "async")

    def _skip(self, event: Event) -> None:
        if event.ph in ("s", "t", "f"):
            self._losses.skip("flow (an arrow between events): left out")
        else:
            phase = str(event.ph)[:8]
            self._losses.skip(f"event of phase '{phase}': left out")


def _timed(event: Event, number: int, ts: int, dur: int | None) -> Timed:
    arguments = bytes(event.args if event.args is not ABSENT else event.attr)
    name, category = text(event.name), text(event.cat)
    return Timed(number, name, category, event.pid, event.tid, ts, dur, arguments)


def _thread(event: Event) -> tuple[str, str]:
    return str(event.pid), str(event.tid)


def _scope(event: Event) -> tuple[str, str, str]:
    return "async", text(event.cat), _identity(event)


def _identity(event: Event) -> str:
    """Return what tells asynchronous events apart; local ids count within their process."""
    if isinstance(event.id2, dict):
        local = event.id2.get("local")
        return f"{event.pid}/{local}" if local is not None else str(event.id2.get("global"))
    return str(event.id)


def _is_named(name: Any) -> Callable[[Timed], bool]:
    return lambda begun: name is None or begun.name == str(name)
