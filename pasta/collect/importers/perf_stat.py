"""Importer of the counters that `perf stat -j` prints: a line of JSON for each event and interval."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
from msgspec import Struct, field

from pasta.collect.containers.text_lines import TextLines
from pasta.collect.importer import Imported, importer
from pasta.collect.losses import Losses
from pasta.collect.shaping.rows import Rows
from pasta.collect.sources import Source
from pasta.errors import InputError
from pasta.trace_writer import PartWriter

_NS = 1_000_000_000
_LATEST = Decimal(1 << 62) / _NS
_DURATION = "duration_time"
_ALL_THE_TIME = 100.0


class _Line(Struct, gc=False):
    """One event; `interval` is the end of its interval in s since the start, as text to stay exact."""

    event: str
    value: str = field(name="counter-value")
    unit: Any = ""
    interval: msgspec.Raw = msgspec.Raw(b"")
    runtime: Any = field(default=None, name="event-runtime")
    running: Any = field(default=_ALL_THE_TIME, name="pcnt-running")


_decode = msgspec.json.Decoder(_Line).decode


@importer("perf_stat")
class PerfStat:
    """Reads each counter of each interval as a row of `metric`; times count from the start."""

    format = "perf stat (JSON)"
    version = 1
    general = False

    def recognises(self, source: Source) -> bool:
        """Tell whether lines of JSON begin, after comments, that have a counter's value."""
        lines = source.head.lstrip(b"\xef\xbb\xbf").splitlines()
        first = next((line for line in lines if line.strip() and line[:1] != b"#"), b"")
        return first.lstrip()[:1] == b"{" and b'"counter-value"' in first

    def read(self, source: Source, part: PartWriter, losses: Losses) -> Imported:
        """Append a row for each counter that was counted.

        Raises:
            InputError: no line is one of `perf stat`.
        """
        counters = _Counters(part, losses)
        for text in TextLines(source, losses):
            if not text.strip() or text.startswith("#"):
                continue
            try:
                counters.add(_decode(text))
            except (msgspec.DecodeError, RecursionError):
                losses.fault("line that is no counter: left out", where=repr(text[:60]))
        counters.finish()
        if not counters.lines:
            raise InputError(
                f"{source.name}: no line is a counter of perf stat -j; record it again"
            )
        return Imported()


class _Counters:
    """Rows of counters, of intervals that follow each other or of one whole run."""

    def __init__(self, part: PartWriter, losses: Losses) -> None:
        self.lines = 0
        self._losses = losses
        self._rows = Rows(part, "metric", "pid", "ts", "dur", "name", "value", "unit")
        self._whole: list[tuple[_Line, float]] = []
        self._begin = self._end = 0

    def add(self, line: _Line) -> None:
        """Take one line."""
        self.lines += 1
        value = self._value(line)
        if value is None:
            return
        if not bytes(line.interval):
            self._whole.append((line, value))
            return
        end = self._interval_end(line)
        if end is None:
            return
        if end > self._end:
            self._begin, self._end = self._end, end
        self._append(line, value, self._begin, self._end - self._begin)

    def finish(self) -> None:
        """Append what was counted over the whole run, which is as long as `duration_time` says."""
        known = [int(value) for line, value in self._whole if line.event.startswith(_DURATION)]
        for line, value in self._whole:
            dur = known[0] if known else _whole_number(line.runtime)
            self._append(line, value, 0, dur)
        if self._whole and not known:
            self._losses.skip(
                "counter without an interval: its time is that for which it was counted, which is time"
                " on the CPU; perf stat -e duration_time tells the other",
                len(self._whole),
            )
        self._rows.flush()

    def _append(self, line: _Line, value: float, ts: int, dur: int | None) -> None:
        unit = line.unit if isinstance(line.unit, str) else ""
        self._rows.add(0, ts, dur, line.event, value, unit)

    def _value(self, line: _Line) -> float | None:
        try:
            value = float(line.value)
        except ValueError:
            self._losses.skip(f"counter that was {line.value[:40].strip('<>')}: left out")
            return None
        running = line.running
        if isinstance(running, int | float) and running < _ALL_THE_TIME:
            self._losses.skip("counter that had to share its hardware: perf scaled it up")
        return value

    def _interval_end(self, line: _Line) -> int | None:
        try:
            seconds = Decimal(bytes(line.interval).decode())
        except (InvalidOperation, UnicodeDecodeError):
            seconds = Decimal(-1)
        if not 0 <= seconds < _LATEST or int(seconds * _NS) < self._end:
            self._losses.fault("interval that ends before the one before it: left out")
            return None
        return int(seconds * _NS)


def _whole_number(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 62 else None
