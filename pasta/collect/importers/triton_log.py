"""Importer of tritonparse's log of Triton: a line of JSON for each compilation and launch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from pasta.collect.containers.text_lines import TextLines
from pasta.collect.importer import Imported, importer
from pasta.collect.losses import Losses
from pasta.collect.shaping.decimal_time import LIMIT
from pasta.collect.shaping.open_spans import BegunParents
from pasta.collect.shaping.rows import Rows
from pasta.collect.shaping.stacks import Frame, Stacks
from pasta.collect.sources import Source
from pasta.errors import InputError
from pasta.trace_writer import PartWriter

_MARK = re.compile(rb'"event_type"\s*:\s*"(?:compilation|launch)"')
_LINE_BYTES_MAX = 64 << 20  # a compilation holds the kernel in each of the compiler's languages
_TIME = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:\.%f)?Z?")
_NO_FRACTION = "time without a fraction of a second: taken as the start of the second"
_US = 1000
_LARGEST, _LONGEST_US = (1 << 32) - 1, 1 << 50
_DEFAULT_LANES = 32


class _Line(Struct, gc=False):
    """One line; what a kind of event lacks is empty."""

    event_type: Any = None
    pid: Any = None
    stack: Any = None
    timestamp: Any = None
    name: Any = None
    grid: Any = None
    stream: Any = None
    compilation_metadata: Any = None
    payload: Any = None


class _Times(Struct, gc=False):
    """How long a compilation took, in microseconds."""

    ir_initialization: Any = None
    lowering_stages: Any = None
    store_results: Any = None


class _Metadata(Struct, gc=False):
    """What Triton's compiler tells of a kernel."""

    name: Any = None
    cache_hit: Any = None
    num_warps: Any = None
    warp_size: Any = None
    shared: Any = None
    registers: Any = field(default=None, name="n_regs")


K = TypeVar("K", bound=Struct)

_decode = msgspec.json.Decoder(_Line).decode


@importer("triton_log")
class TritonLog:
    """Reads launches as kernels without times, and compilations as spans."""

    format = "Triton log (tritonparse)"
    version = 2
    general = False

    def recognises(self, source: Source) -> bool:
        """Tell whether a compilation or a launch is near the start of lines of JSON."""
        head = source.head.lstrip(b"\xef\xbb\xbf \t\r\n")
        return head[:1] == b"{" and _MARK.search(head) is not None and b'"pid"' in head

    def read(self, source: Source, part: PartWriter, losses: Losses) -> Imported:
        """Append the rows of each line.

        Raises:
            InputError: no line is one of the log.
        """
        lines = TextLines(source, losses, longest=_LINE_BYTES_MAX)
        log = _Log(part, losses)
        for text in lines:
            if not text.strip():
                continue
            try:
                line = _decode(text)
            except (msgspec.DecodeError, RecursionError):
                losses.fault("line that is no JSON object: left out", where=repr(text[:60]))
                continue
            log.take(line)
        log.finish()
        if not log.taken:
            raise InputError(f"{source.name}: no line of tritonparse's log is whole; log it again")
        return Imported(pid=log.first_pid, transforms={"span": BegunParents(losses).add})


class _Log:
    """Rows of launches and compilations."""

    def __init__(self, part: PartWriter, losses: Losses) -> None:
        self.taken = 0
        self.first_pid = 0
        self._part = part
        self._losses = losses
        self._stacks: dict[int, Stacks] = {}
        self._extents: dict[int, list[int]] = {}
        self._launches = self._begun = 0
        of_span = ("span_id", "level", "name", "external_id", "stack_id")
        self._spans = Rows(part, "span", "pid", "ts", "dur", *of_span)
        of_call = ("correlation", "external_id", "name", "stack_id")
        self._calls = Rows(part, "call", "pid", "ts", *of_call)
        self._kernels = Rows(
            part,
            "kernel",
            *("pid", "launch_id", "correlation", "external_id", "graph_id", "graph_node_id"),
            *("context", "stream", "name", "grid_x", "grid_y", "grid_z"),
            *("block_x", "block_y", "block_z", "registers", "shared_bytes"),
        )

    def take(self, line: _Line) -> None:
        """Take one line."""
        if line.event_type not in ("launch", "compilation"):
            self._losses.skip(f"line of type '{str(line.event_type)[:40]}': left out")
            return
        self.taken += 1
        pid = self._pid(line.pid)
        stack = self._stacks.setdefault(pid, Stacks(self._part, pid)).id_of(_frames(line.stack))
        ts = self._time(line.timestamp)
        if line.event_type == "launch":
            self._add_launch(line, pid, ts, stack)
        else:
            self._add_compilation(line, pid, ts, stack)

    def finish(self) -> None:
        """Append what is held back."""
        for rows in (self._spans, self._calls, self._kernels):
            rows.flush()
        processes = Rows(self._part, "process", "pid", "started", "ended", "stack_id")
        for pid, stacks in self._stacks.items():
            stacks.flush()
            times = self._extents.get(pid, [])
            processes.add(pid, min(times, default=None), max(times, default=None), 0)
        processes.flush()

    def _pid(self, value: Any) -> int:
        pid = value if type(value) is int and 0 <= value < 1 << 63 else 0
        self.first_pid = self.first_pid or pid
        return pid

    def _time(self, text: Any) -> int | None:
        """Return ns since 1970; `None`: the line has no time that can be read."""
        found = _TIME.fullmatch(str(text))
        ts = _since_1970(found[1], found[2] or "") if found else None
        if found is None or ts is None:
            self._losses.fault("line without a time: its rows have none")
            return None
        if found[2] is None:
            self._losses.skip(_NO_FRACTION)
        return ts

    def _add_launch(self, line: _Line, pid: int, ts: int | None, stack: int) -> None:
        self._launches += 1
        number = self._launches
        metadata = _as(_Metadata, line.compilation_metadata)
        name = str(line.name if metadata.name is None else metadata.name)
        x, y, z = _sizes(line.grid)
        warps, lanes = _whole(metadata.num_warps), _whole(metadata.warp_size) or _DEFAULT_LANES
        threads = None if warps is None or warps * lanes > _LARGEST else warps * lanes
        one = None if threads is None else 1
        stream = line.stream if type(line.stream) is int else None
        fits = stream is not None and abs(stream) < 1 << 63
        self._kernels.add(
            *(pid, number, number, 0, 0, 0, 0, stream if fits else None, name, x, y, z),
            *(threads, one, one, _whole(metadata.registers), _whole(metadata.shared)),
        )
        self._calls.add(pid, ts, number, 0, "triton launch", stack)
        if ts is not None:
            self._extend(pid, ts, ts)

    def _add_compilation(self, line: _Line, pid: int, end: int | None, stack: int) -> None:
        payload = line.payload if isinstance(line.payload, dict) else {}
        metadata = _as(_Metadata, payload.get("metadata"))
        stages = list(_stages(_as(_Times, payload.get("times"))))
        if end is None:
            self._losses.skip("compilation without a time: left out")
            return
        total = sum(length for _, length in stages)
        what = "load from cache" if metadata.cache_hit is True else "compile"
        start = end - total
        self._add_span(pid, start, total, f"triton {what} {metadata.name or line.name}", stack)
        for stage, length in stages:
            self._add_span(pid, start, length, f"triton {stage}", 0)
            start += length
        self._extend(pid, end - total, end)

    def _add_span(self, pid: int, ts: int, dur: int, name: str, stack: int) -> None:
        self._begun += 1
        self._spans.add(pid, ts, dur, self._begun, "library", name, 0, stack)

    def _extend(self, pid: int, first: int, last: int) -> None:
        known = self._extents.setdefault(pid, [first, last])
        known[0], known[1] = min(known[0], first), max(known[1], last)


def _since_1970(second: str, fraction: str) -> int | None:
    """Return a time in ns; `None`: there is no such time, or it is not believed."""
    try:
        moment = datetime.fromisoformat(second).replace(tzinfo=UTC)
    except ValueError:
        return None
    ts = int(moment.timestamp()) * 1_000_000_000 + int(fraction.ljust(9, "0"))
    return ts if abs(ts) < LIMIT else None


def _stages(times: _Times) -> Iterator[tuple[str, int]]:
    """Yield the stages of a compilation that took time, with their ns, in their order."""
    lowering = times.lowering_stages if isinstance(times.lowering_stages, list) else []
    named = [pair for pair in lowering if isinstance(pair, list) and len(pair) == 2]
    for name, length in [
        ("ir_initialization", times.ir_initialization),
        *named,
        ("store_results", times.store_results),
    ]:
        if type(length) is int and 0 < length < _LONGEST_US:
            yield str(name), length * _US


def _as(kind: type[K], value: Any) -> K:
    """Return a decoded object as `kind`; what is no object has nothing."""
    return msgspec.convert(value, kind) if isinstance(value, dict) else kind()


def _frames(stack: Any) -> list[Frame]:
    """Return the frames of a stack, which the log has outermost first."""
    entries = stack if isinstance(stack, list) else []
    return [
        Frame(
            str(entry.get("name", "")),
            str(entry.get("filename", "")),
            _whole(entry.get("line")) or 0,
            "python",
        )
        for entry in entries
        if isinstance(entry, dict)
    ]


def _sizes(grid: Any) -> tuple[int | None, int | None, int | None]:
    """Return a grid's size; dimensions that are not given are 1."""
    if not isinstance(grid, list) or not grid:
        return None, None, None
    x, y, z = [*map(_whole, grid[:3]), 1, 1][:3]
    return x, y, z


def _whole(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= _LARGEST else None
