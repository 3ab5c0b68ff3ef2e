"""Samples of call stacks on the CPU, its counters and its ceilings."""

from __future__ import annotations

import json

from tests.fuzz.content import Content, one_file
from tests.fuzz.seeds.recorded import recorded

_PERF = """\
python3  12/13  [001]  40832.458651585: PERF_RECORD_COMM exec: python3:12/13
python3  12/13  [001]  40832.459079908: PERF_RECORD_SWITCH OUT preempt
python3  12/13  [001]  40832.459730849: PERF_RECORD_SWITCH IN
python3  12/13  [001]  40832.464230839:    3344481 cpu-clock:u:
\tffffffff816ada86 __mem_cgroup_charge+0x6 ([kernel.kallsyms])
\t    7f0ec7e238a8 std::vector<int, std::allocator<int> >::push_back(int&&)+0x4 (/usr/lib/a b.so)
\t               0 [unknown] ([unknown])

a b c 12 40832.5: 1 cycles: 80c5 main+0x1 (/bin/x)
"""
_SPEEDSCOPE = {
    "$schema": "https://www.speedscope.app/file-format-schema.json",
    "shared": {"frames": [{"name": "main", "file": "x.py", "line": 3}, {"name": "f"}, {"name": "g"}]},
    "profiles": [
        {
            "type": "sampled", "name": "thread 7", "unit": "seconds", "startValue": 0, "endValue": 2,
            "samples": [[0, 1], [0], []], "weights": [0.5, 1, 0.25],
        },
        {
            "type": "evented", "name": "p", "unit": "nanoseconds", "startValue": 0, "endValue": 9,
            "events": [
                {"type": "O", "frame": 0, "at": 1},
                {"type": "O", "frame": 2, "at": 3},
                {"type": "C", "frame": 2, "at": 5},
                {"type": "C", "frame": 0, "at": 9},
            ],
        },
    ],
}  # fmt: skip


def perf_script() -> list[Content]:
    """Return what `perf script` prints, in two layouts."""
    return [one_file(_PERF), recorded("recorded/perf_script.txt", lines=30)]


def collapsed() -> list[Content]:
    """Return folded stacks."""
    return [
        one_file("main;f (x.py:3);g 5\nmain;f 0\n[thread 7];h_[k] 12\nmain 1.5\n"),
        recorded("recorded/py_spy.collapsed", lines=3),
    ]


def speedscope() -> list[Content]:
    """Return profiles of both kinds."""
    return [one_file(json.dumps(_SPEEDSCOPE)), recorded("recorded/py_spy.speedscope.json")]


def perf_stat() -> list[Content]:
    """Return counters of a whole run and of intervals."""
    common = '"unit" : "", "event" : "cycles", "event-runtime" : 9, "pcnt-running" : 50.00}'
    whole = f'{{"counter-value" : "5.5", {common}\n{{"counter-value" : "<not counted>", {common}\n'
    intervals = "".join(
        f'{{"interval" : {end}, "counter-value" : "7", {common}\n' for end in ("0.1", "0.25")
    )
    return [one_file(f"# started\n\n{whole}"), one_file(intervals)]


def carm_csv() -> list[Content]:
    """Return ceilings as the CARM tool writes them."""
    ceilings = ",".join(["2026", "avx2", "dp", "4", "2", "1", "No", "8", "add", *["40.5", "1"] * 6])
    return [one_file(f"Name:,a,L1 Size:,48,L2 Size:,1,L3 Size:,2\nDate,ISA\n{ceilings}\n")]
