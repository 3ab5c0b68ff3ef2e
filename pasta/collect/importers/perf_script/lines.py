"""The lines that `perf script` prints: heads of events, and frames below them."""

from __future__ import annotations

import re
from typing import NamedTuple

from pasta.collect.shaping.decimal_time import LIMIT
from pasta.collect.shaping.stacks import Frame

NANOSECONDS = 1_000_000_000

_HEAD = re.compile(
    r"\s*+(?P<command>\S++(?:\s++\S++)*?)\s++(?P<first>-?\d{1,18})(?:/(?P<second>-?\d{1,18}))?\s++"
    r"(?:[A-Z]{1,4}\s++)?(?:\[\d+\]\s++)?(?:[a-zA-Z.][\w.]{3,4}\s++)?"
    r"(?P<seconds>\d{1,18})\.(?P<fraction>\d{1,9}):(?:\s++(?P<rest>.*))?"
)
_EVENT = re.compile(r"(?:(?P<period>\d{1,18})\s++)?(?P<event>\S+?):(?:\s++(?P<rest>.*))?")
_FRAME = re.compile(r"(?P<address>[0-9a-f]+)(?:\s++(?P<named>.*))?")
_LIBRARY = re.compile(r"(?:(?P<name>.*?) )?\((?P<library>(?:[^()]|\([^()]*\))*+)\)")
_OFFSET = re.compile(r"\+0x[0-9a-f]+\Z")
_SOURCE_LINE = re.compile(r"(?P<file>.*):(?P<line>\d{1,9})")
_PYTHON = "py::"
_RECORD = "PERF_RECORD_"
_PAIR = r"\((-?\d{1,18}):(-?\d{1,18})\)"
_FORK = re.compile(rf"PERF_RECORD_(FORK|EXIT){_PAIR}:{_PAIR}")
_NAMED = re.compile(r"PERF_RECORD_COMM(?: exec)?: (?P<name>.*):(-?\d{1,18})/(-?\d{1,18})")
_MAPPED = re.compile(r"PERF_RECORD_MMAP2? (?P<pid>-?\d{1,18})/-?\d{1,18}: ")
_LOST = re.compile(r"PERF_RECORD_LOST(?:_SAMPLES)? lost (\d{1,18})")
_NEXT = re.compile(r"==>\s.*?(?:next_pid=(\d{1,18})|:(\d{1,18}) \[)")


class Head(NamedTuple):
    """The first line of an event.

    Attributes:
        command: name of the thread.
        pid: its process; `None`: not printed.
        tid: the thread.
        ts: when, in ns on perf's clock.
        period: what the sample stands for, in the unit of the event; `None`: not printed.
        event: the event, as `cycles:u`; empty: not printed.
        rest: what follows: fields of a tracepoint, a record of perf's own, or a single frame.
    """

    command: str
    pid: int | None
    tid: int
    ts: int
    period: int | None
    event: str
    rest: str

    @property
    def record(self) -> str:
        """The record of perf's own that the line tells of; empty: it is a sample."""
        return self.rest if not self.event and self.rest.startswith(_RECORD) else ""


def head_of(line: str) -> Head | None:
    """Return what the first line of an event says; `None`: it is none."""
    found = _HEAD.fullmatch(line)
    if found is None:
        return None
    ts = int(found["seconds"]) * NANOSECONDS + int(found["fraction"].ljust(9, "0"))
    if ts >= LIMIT:
        return None
    pid, tid = found["first"], found["second"]
    rest = found["rest"] or ""
    told = None if rest.startswith(_RECORD) else _EVENT.fullmatch(rest)
    return Head(
        found["command"],
        None if tid is None else int(pid),
        int(pid if tid is None else tid),
        ts,
        int(told["period"]) if told and told["period"] else None,
        told["event"] if told else "",
        (told["rest"] or "" if told else rest).strip(),
    )


def frame_of(line: str) -> Frame | None:
    """Return the frame that a line tells of; `None`: it is none."""
    found = _FRAME.fullmatch(line.strip())
    if found is None:
        return None
    name, library = found["named"] or "", ""
    if located := _LIBRARY.fullmatch(name):
        name, library = located["name"] or "", located["library"]
    name = _OFFSET.sub("", name) or f"0x{found['address']}"
    library = "" if library in ("inlined", "[unknown]") else library
    if name.startswith(_PYTHON):
        function, _, file = name.removeprefix(_PYTHON).partition(":")
        return Frame(function, file, 0, "python", library)
    return Frame(name, "", 0, "", library)


def source_of(line: str) -> tuple[str, int] | None:
    """Return file and line that `-F +srcline` prints below a frame; `None`: it is none."""
    found = _SOURCE_LINE.fullmatch(line.strip())
    if found is None:
        return None
    return ("", 0) if found["file"] in ("", "??") else (found["file"], int(found["line"]))


def fork_or_exit(record: str) -> tuple[str, int, int, int] | None:
    """Return `FORK` or `EXIT`, the process, the thread and the parent process of a record."""
    found = _FORK.match(record)
    return (found[1], int(found[2]), int(found[3]), int(found[4])) if found else None


def thread_named(record: str) -> tuple[str, int, int] | None:
    """Return the name that a record gives to a thread, its process, and the thread."""
    found = _NAMED.fullmatch(record.rstrip())
    return (found["name"], int(found[2]), int(found[3])) if found else None


def process_mapped(record: str) -> int | None:
    """Return the process that a record says has mapped a file."""
    found = _MAPPED.match(record)
    return int(found["pid"]) if found else None


def records_lost(record: str) -> int:
    """Return how many records were lost, as a record of perf's own tells; 0: it tells of none."""
    found = _LOST.match(record)
    return int(found[1]) if found else 0


def next_thread(fields: str) -> int | None:
    """Return the thread that a `sched:sched_switch` lets run; `None`: it does not say."""
    found = _NEXT.search(fields)
    return int(found[1] or found[2]) if found else None
