"""Stacks of samples and of spans as speedscope's JSON.

Source: https://github.com/jlfwong/speedscope, `file-format-spec.ts`. Numbers there are doubles, too coarse for
ns since 1970; so times count from the first span.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import msgspec
import polars as pl

from pasta.errors import InputError
from pasta.exports.columns import mapped, numbered
from pasta.exports.exporter import Exported, exporter
from pasta.exports.json_text import content, text
from pasta.exports.lanes import Events, Lanes
from pasta.exports.names import process_numbers, thread_texts
from pasta.exports.stacks import Stack, samples, stacks
from pasta.exports.timeline import FOREVER, timeline
from pasta.trace import Trace

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_THREAD = ("rank", "pid", "tid")
_COPIED_BYTES = 1 << 20

Thread = tuple[int, int, int]


@exporter("speedscope")
def export_speedscope(trace: Trace, out: str) -> Exported:
    """Write a profile for each thread's samples and each thread's spans.

    Raises:
        InputError: the trace has neither samples nor spans with a duration.
    """
    exported = Exported()
    if not trace.has("sample") and not trace.has("span"):
        raise InputError(f"{trace.path}: has neither samples nor spans, of which stacks are made")
    with TemporaryDirectory(prefix="pasta-export-") as scratch:
        document = _Document(trace, exported, Path(scratch))
        document.fill()
        with Path(out).open("wb") as file:
            file.writelines(document.pieces())
    return exported


class _Profile:
    """One profile, whose long lists grow in files of their own."""

    def __init__(self, scratch: Path, number: int, head: str, lists: tuple[str, ...]) -> None:
        self.start: int = 0
        self.end: float = 0
        self._head = head
        self._files = {name: scratch / f"{number}-{name}" for name in lists}
        self._separators = dict.fromkeys(lists, b"")

    @property
    def is_empty(self) -> bool:
        """Whether nothing was added yet."""
        return not any(self._separators.values())

    def append(self, name: str, items: memoryview) -> None:
        """Add items, each with a comma before it, to one of the lists."""
        with self._files[name].open("ab") as file:
            file.write(items[1:] if not self._separators[name] else items)
        self._separators[name] = b","

    def pieces(self) -> Iterator[bytes]:
        """Give the text of the profile."""
        yield f'{{{self._head},"startValue":{self.start},"endValue":{self.end}'.encode()
        for name, path in self._files.items():
            yield f',"{name}":['.encode()
            with path.open("rb") as file:
                while piece := file.read(_COPIED_BYTES):
                    yield piece
            yield b"]"
        yield b"}"


class _Document:
    def __init__(self, trace: Trace, exported: Exported, scratch: Path) -> None:
        self._trace = trace
        self._exported = exported
        self._scratch = scratch
        self._pids = process_numbers(trace)
        self._threads = thread_texts(trace)
        self._frames: dict[str, int] = {}
        self._profiles: list[_Profile] = []

    def fill(self) -> None:
        """Add the profiles of all threads."""
        if self._trace.has("sample"):
            self._add_samples()
        if self._trace.has("span"):
            self._add_spans()
        if not self._profiles:
            raise InputError(f"{self._trace.path}: has no span with a duration to make stacks of")

    def pieces(self) -> Iterator[bytes]:
        """Give the text of the whole document."""
        head = {"$schema": _SCHEMA, "exporter": "pasta", "name": self._trace.path.name}
        yield msgspec.json.encode(head)[:-1] + b',"profiles":['
        for number, profile in enumerate(self._profiles):
            yield b"," if number else b""
            yield from profile.pieces()
        frames = [{"name": name} for name in self._frames]
        yield b'],"shared":' + msgspec.json.encode({"frames": frames}) + b"}"

    def profile(self, thread: Thread, kind: str, unit: str, suffix: str) -> _Profile:
        """Add a profile; its title is as other profilers write those of threads."""
        rank, pid, tid = thread
        name = (self._threads.get(thread) or f"rank {rank}") + suffix
        head = {
            "type": kind,
            "name": f'Process {self._pids.get((rank, pid), pid)} Thread {tid} "{name}"',
            "unit": unit,
        }
        lists = ("events",) if kind == "evented" else ("samples", "weights")
        text_of_head = msgspec.json.encode(head)[1:-1].decode()
        profile = _Profile(self._scratch, len(self._profiles), text_of_head, lists)
        self._profiles.append(profile)
        return profile

    def frame(self, name: str) -> int:
        """Return the place of a frame among those that all profiles share."""
        return self._frames.setdefault(name or "unknown", len(self._frames))

    def _add_samples(self) -> None:
        known = stacks(self._trace)
        profiles: dict[Thread, _Profile] = {}
        for batch in samples(self._trace, known, self._exported):
            for key, rows in batch.group_by(_THREAD, maintain_order=True):
                thread = cast(Thread, key)
                if thread not in profiles:
                    profiles[thread] = self.profile(thread, "sampled", "none", ", samples")
                frames = mapped(rows["stack_id"], partial(self._stack, known, thread), pl.String)
                columns = {"samples": frames, "weights": rows["weight"]}
                for name, items in columns.items():
                    profiles[thread].append(name, content(pl.select(text(",", items)).to_series()))
                profiles[thread].end += float(rows["weight"].sum())

    def _stack(self, known: dict[Stack, list[str]], thread: Thread, stack_id: int) -> str:
        names = known.get((*thread[:2], stack_id), ["unknown"])
        return msgspec.json.encode([self.frame(name) for name in names]).decode()

    def _add_spans(self) -> None:
        spans = _Spans(self)
        columns = ("tid", "dur", "name")
        for found in timeline(
            self._trace, ("span",), self._exported, unfinished=False, columns=columns
        ):
            if "span" in found:
                spans.add(found["span"])
        spans.finish()


class _Spans:
    """Writes begins and ends of spans, each thread's in order, to profiles of a document."""

    def __init__(self, document: _Document) -> None:
        self._document = document
        self._lanes = Lanes()
        self._tracks: dict[Thread, int] = {}
        self._profiles: list[_Profile] = []
        self._first: int | None = None

    def add(self, spans: pl.DataFrame) -> None:
        """Add spans, in order of time."""
        if self._first is None:
            self._first = int(spans["ts"][0])
        tracks = numbered(spans, _THREAD, lambda key: self._tracks.setdefault(key, len(self._tracks)))  # fmt: skip
        frames = mapped(spans["name"], self._document.frame, pl.Int64).to_numpy()
        starts, ends = spans["ts"].to_numpy(), spans["end"].to_numpy()
        begun, ended = self._lanes.lay(tracks, starts, ends, frames)
        self._write(pl.concat([_events("O", begun._replace(rows=frames)), _events("C", ended)]))

    def finish(self) -> None:
        """Add the ends of what is open."""
        self._write(_events("C", self._lanes.ended(FOREVER)))

    def _write(self, events: pl.DataFrame) -> None:
        threads = list(self._tracks)
        for lane in self._lanes.lanes[len(self._profiles) :]:
            suffix = f" ({lane.place + 1})" if lane.place else ""
            thread = threads[lane.track]
            self._profiles.append(self._document.profile(thread, "evented", "nanoseconds", suffix))
        at = pl.col("time") - (self._first or 0)
        texts = text(',{"type":"', pl.col("type"), '","frame":', pl.col("frame"), ',"at":', at, "}")
        ordered = events.sort("lane", "time", "turn").with_columns(
            at.alias("at"), texts.alias("text")
        )
        for (lane,), rows in ordered.group_by("lane", maintain_order=True):
            profile = self._profiles[lane]
            profile.start = rows["at"][0] if profile.is_empty else profile.start
            profile.end = rows["at"][-1]
            profile.append("events", content(rows["text"]))


def _events(kind: str, events: Events) -> pl.DataFrame:
    """Return events of one type, of the frames that their rows tell."""
    columns = {"lane": events.lanes, "time": events.times, "turn": events.turns}
    return pl.DataFrame({**columns, "frame": events.rows}).with_columns(pl.lit(kind).alias("type"))
