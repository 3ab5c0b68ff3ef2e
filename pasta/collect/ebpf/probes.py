"""Collector `probes`: hits of functions and of USDT probes that the user names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pasta.collect.companions.companion import Watch
from pasta.collect.ebpf.bpftrace import Bpftrace
from pasta.collect.ebpf.calls import Calls
from pasta.collect.ebpf.probe_places import Place, not_judged, places
from pasta.collect.shaping.rows import Rows
from pasta.errors import CollectError

RECORDS, FEW = 8, 16
"""How many hits each thread gathers, where probes are few: each has code to write them, and hundreds of these
would take minutes to compile at the start."""
_IN_MAP = re.compile(r"@(?P<map>hits|total|gathered)\[(?P<key>\d+)\]: (?P<count>\d+)")
_RECORD = re.compile(r"@records\[(?P<key>\d+)\]: \((?P<now>\d+), (?P<what>\d+)\)")
_TOLD_OF = re.compile(r"@told: (?P<count>\d+)")
_SLOW = (
    "functions that were not probed, as each hit would take 10 to 20 us (--slow-probes sets them)"
)
_BARE = "call stacks of threads that had hits by over 256: left out"
_UNCOUNTED = "hits that are not known by thread and stack: left out"
_ENTRY = """
{probe}
/@watched[tid] != 0/
{{
    $had = @watched[tid];
    $context = $had > 256 ? @bare_of[(uint64)tid, (uint64){number}]
        : @context_of[(uint64)tid, (uint64){number}, ustack(perf)];
    if ($context == 0) {{
        $made = @contexts[(uint64)cpu] + 1;
        $context = ($made << 12) | (uint64)cpu;
        @contexts[(uint64)cpu] = $made;
        @watched[tid] = $had + 1;
        if ($had > 256) {{
            @bare_of[(uint64)tid, (uint64){number}] = $context;
            printf("S %llu {number} %d %d\\n", $context, pid, tid);
        }} else {{
            @context_of[(uint64)tid, (uint64){number}, ustack(perf)] = $context;
            printf("C %llu {number} %d %d %s\\n.\\n", $context, pid, tid, ustack(perf));
        }}
    }}
    {told}
}}
"""
_RETURN = """
{probe}
/@watched[tid] != 0/
{{
    {told}
}}
"""
_WRITE = """printf("R %d %d %llu {texts}\\n", pid, tid, {count}, {fields});"""
_AT_ONCE = '@told = count(); printf("R %d %d 1 %llx %llx\\n", pid, tid, nsecs, {what});'
_TOLD = """$one_more = @gathered[(uint64)tid];
    $slot = $one_more == 0 ? (uint64)0 : $one_more - 1;
    $first = (uint64)tid << 5;
    @records[$first + $slot] = ((uint64)nsecs, {what});
    @told = count();
    @gathered[(uint64)tid] = $slot + 2;
    if ($slot == {last}) {{
        {write}
        @gathered[(uint64)tid] = (uint64)1;
    }}"""
_REST = """
tracepoint:sched:sched_process_exit,
tracepoint:sched:sched_process_exec
/@gathered[(uint64)tid] > 0/
{{
    $first = (uint64)tid << 5;
    {write}
    {forget}
    delete(@gathered[(uint64)tid]);
}}
"""
_HIT, _BEGIN, _END = range(3)
"""What a record is of, in its two lowest bits; above them is the context, or of an end the probe."""
_COUNTED = "@hits[$context] = count(); @total[(uint64){number}] = count();"


class Probes(Bpftrace):
    """Watches functions and USDT probes; see `scripts/probes.bt`."""

    name = "probes"
    script = "probes.bt"
    with_stack: ClassVar[frozenset[str]] = frozenset({"C"})
    missing: ClassVar[str] = "hits and returns that bpftrace told of and that did not arrive"
    ready_seconds: ClassVar[float] = 120.0

    def check(self) -> None:
        """Check that bpftrace can be used, and find where probes are to be set.

        Raises:
            CollectError: it cannot, or there is nothing to set, or a probe would be slow.
        """
        if not self.options.probes:
            raise CollectError("--with probes: says not what to probe; add --probe KIND:FILE:NAME")
        super().check()
        self._places, self._slow = places(self.options.probes, slow=self.options.slow_probes)

    def settings(self) -> Mapping[str, Any]:
        """Return what is probed, and what of that is slow or not judged."""
        return {
            "probes": [_probe(place) for place in self._places],
            "slow": [place.name for place in self._places if place.slow],
            "cost not judged": not_judged(self._places),
        }

    def begin(self, watch: Watch) -> None:
        """Make ready for the target's calls."""
        watch.losses.skip(_SLOW, len(self._slow))
        self._contexts: dict[int, tuple[Place, int, int, int]] = {}
        self._hits: dict[str, dict[int, int]] = {"hits": {}, "total": {}, "gathered": {}}
        self._records: dict[int, tuple[int, int]] = {}
        self._processes: dict[int, int] = {}
        columns = ("pid", "tid", "ts", "kind", "stack_id", "weight")
        self._rows = Rows(watch.part, "sample", *columns)
        self._calls = Calls(watch.part, watch.losses, watch.offset)

    def text(self, script: str) -> str:
        """Return the script with a block for each probe."""
        blocks = "".join(map(self._block, range(len(self._places))))
        if self._gathers:
            forget = " ".join(f"delete(@records[$first + {slot}]);" for slot in range(RECORDS))
            blocks += _REST.format(write=_written("@gathered[(uint64)tid] - 1"), forget=forget)
        return script.replace("PROBES\n", blocks)

    def take(self, line: str) -> None:
        """Take a line; what maps hold comes last."""
        if found := _IN_MAP.fullmatch(line):
            self._hits[found["map"]][int(found["key"])] = int(found["count"])
        elif found := _RECORD.fullmatch(line):
            self._records[int(found["key"])] = int(found["now"]), int(found["what"])
        elif found := _TOLD_OF.fullmatch(line):
            self._written = int(found["count"])
        else:
            super().take(line)

    def event(self, words: list[str], stack: list[str]) -> None:
        """Take hits, calls, and what their contexts stand for."""
        match words:
            case ["R", pid, tid, count, *fields]:
                numbers = [int(field, 16) for field in fields[: 2 * int(count)]]
                for now, what in zip(numbers[::2], numbers[1::2], strict=True):
                    self._take(int(pid), int(tid), now, what)
            case ["C" | "S" as kind, context, number, pid, tid, *_]:
                self.watch.losses.skip(_BARE, int(kind == "S"))
                stack_id = self.texts.stack_id(int(pid), stack) if kind == "C" else 0
                known = self._places[int(number)], int(pid), int(tid), stack_id
                self._contexts[int(context)] = known
                self._processes[int(tid)] = int(pid)
                self._calls.know(int(context), known[0].name, *known[1:])
            case ["F", parent, pid]:
                self.texts.names.forked(int(parent), int(pid))
            case ["X", pid]:
                self.texts.names.replaced(int(pid))

    def finish(self) -> Sequence[str]:
        """Append counts, or hits and calls; return what was left out as it would be slow."""
        self._append_counts()
        self._take_rest()
        self._calls.finish()
        left_out = ", ".join(self._slow[:5]) + (", ..." if len(self._slow) > 5 else "")
        notes = [f"{len(self._slow)} {_SLOW}: {left_out}"] if self._slow else []
        return [*notes, *super().finish()]

    def _take(self, pid: int, tid: int, now: int, what: int) -> None:
        """Take a record of a thread."""
        self._taken += 1
        kind, of = what & 3, what >> 2
        if kind == _END:
            self._calls.end(now, pid, tid, self._places[of].name)
        else:
            self._calls.take("B" if kind == _BEGIN else "H", now, of)

    def _take_rest(self) -> None:
        """Take what threads had gathered that go on after the program."""
        for tid, one_more in self._hits["gathered"].items():
            for slot in range(one_more - 1):
                if (record := self._records.get((tid << 5) + slot)) is not None:
                    self._take(self._processes.get(tid, tid), tid, *record)

    def _append_counts(self) -> None:
        counted: dict[tuple[str, int, int, int], int] = defaultdict(int)
        for context, count in self._hits["hits"].items():
            if context in self._contexts:
                place, pid, tid, stack_id = self._contexts[context]
                counted[place.name, pid, tid, stack_id] += count
        for (name, pid, tid, stack_id), count in counted.items():
            self._rows.add(pid, tid, None, name, stack_id, float(count))
        self._rows.flush()
        missing = sum(self._hits["total"].values()) - sum(counted.values())
        self.watch.losses.fault(_UNCOUNTED, max(0, missing))

    @property
    def _gathers(self) -> bool:
        """Whether threads gather their hits."""
        return self.level == "events" and len(self._places) <= FEW

    def _block(self, number: int) -> str:
        place = self._places[number]
        returns = place.kind == "uretprobe" and self.level == "events"
        told = _COUNTED.format(number=number)
        if self.level == "events":
            told = _told(f"($context << 2) | {_BEGIN if returns else _HIT}", gathered=self._gathers)
        entry = place._replace(kind="uprobe") if place.kind == "uretprobe" else place
        blocks = _ENTRY.format(probe=_probe(entry), number=number, told=told)
        if not returns:
            return blocks
        ended = _told(f"(uint64){number << 2 | _END}", gathered=self._gathers)
        return blocks + _RETURN.format(probe=_probe(place), told=ended)


def _told(what: str, *, gathered: bool) -> str:
    """Return what tells of a record of a thread: gathers it, or writes it at once."""
    if not gathered:
        return _AT_ONCE.format(what=what)
    return _TOLD.format(what=what, last=RECORDS - 1, write=_written(f"(uint64){RECORDS}"))


def _written(count: str) -> str:
    """Return what writes the first `count` records that a thread has gathered."""
    fields = [f"@records[$first + {slot}].{part}" for slot in range(RECORDS) for part in (0, 1)]
    texts = " ".join(["%llx"] * len(fields))
    return _WRITE.format(texts=texts, count=count, fields=", ".join(fields))


def _probe(place: Place) -> str:
    offset = f"+{place.offset}" if place.offset else ""
    return f'{place.kind}:"{place.path}":{place.name}{offset}'
