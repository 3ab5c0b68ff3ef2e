"""What can be collected from a running program: collectors, their levels and what these fill."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pasta.errors import CollectError, did_you_mean

ALWAYS = frozenset({"process", "thread", "loss"})


@dataclass(frozen=True)
class Level:
    """How closely a collector looks.

    Attributes:
        tables: what it fills, beside `process`, `thread` and `loss`.
        cost: what it costs, for people.
        loses: what a kill can lose, for people.
        maybe: tables that it fills where the program has what they hold.
        interface: what it records devices through, which serves nobody else; empty: it shares all.
    """

    tables: frozenset[str]
    cost: str
    loses: str
    maybe: frozenset[str] = frozenset()
    interface: str = ""


@dataclass(frozen=True)
class Collector:
    """A collector of running programs; its levels stand cheapest first, the default ahead of all.

    Attributes:
        name: what `--with` calls it.
        about: what it records.
        levels: level name -> level.
        by_name_only: whether it runs only where `--with` names it, whatever a tool needs.
        outside: whether it records from outside of the program's processes.
    """

    name: str
    about: str
    levels: Mapping[str, Level]
    by_name_only: bool = False
    outside: bool = False


_HOST = frozenset({"span", "memory"})
_DEVICE = frozenset({"kernel", "copy", "call", "sync", "collective", "device"})
_COUNTED = frozenset({"kernel", "metric", "device"})
_LAUNCHED = frozenset({"kernel", "call", "memory", "touch", "metric", "device"})
_SAMPLED = frozenset({"sample", "frame"})
_PERF_COST = "about 1 % of processor time at 99 samples a second"
_OWN_COST = "about 1 % of processor time at 99 samples a second"
_PYSPY_COST = (
    "the program stops for each sample: 3 % of its time at 99 a second, more with deep stacks"
)
_CPU_LOSES = "nothing where the program is killed; all of it where pasta is"
CUPTI, ROCPROFILER = "CUPTI", "ROCprofiler"
SANITIZER, NSIGHT_COMPUTE = "Compute Sanitizer", "Nsight Compute"
_SANITIZER_LOSES = "the last 0.1 s, and launches that run or whose results are not read yet"
_CUPTI_LOSES = "what CUPTI holds: the last 0.1 s, or 256 KB of records of each thread"
_NCU_LOSES = "all of it where ncu is killed; else what it has not yet counted"
_BPFTRACE_LOSES = "nothing; where pasta is killed, what was not written yet"

COLLECTORS: dict[str, Collector] = {
    "torch": Collector(
        "torch",
        "operators, modules, phases, steps and memory of PyTorch programs",
        {
            "operators": Level(
                _HOST,
                "about 0.5 us an operator with the native hook, about 15 us without",
                "the last 0.1 s with the native hook, the open cycle (0.5 s) without",
                frozenset({"device"}),
            ),
            "timeline": Level(
                _HOST,
                "what PyTorch's profiler costs: about 15 us an operator or kernel",
                "the open cycle (2 s; --cycle)",
                _DEVICE,
                CUPTI,
            ),
            "touch": Level(
                _HOST | {"touch"},
                "40 to 90 us an operator",
                "the last 0.1 s",
                frozenset({"device"}),
            ),
        },
    ),
    "cuda": Collector(
        "cuda",
        "kernels, copies and NVTX ranges of any CUDA program, through CUPTI",
        {
            "kernels": Level(
                frozenset(),
                "about 1.1 to 1.2 times a program of many short kernels",
                _CUPTI_LOSES,
                frozenset({"kernel", "copy", "span", "device", "call", "metric"}),
                CUPTI,
            ),
            "calls": Level(
                frozenset(),
                "about 1.0 to 1.5 times a program of many short kernels",
                _CUPTI_LOSES,
                frozenset({"kernel", "copy", "span", "device", "call", "metric", "sync", "memory"}),
                CUPTI,
            ),
        },
    ),
    "cuda.memory": Collector(
        "cuda.memory",
        "what each kernel of any CUDA program does to memory, through Compute Sanitizer",
        {
            "touch": Level(
                frozenset(),
                "about 1.2 to 2 times a program of many short kernels",
                _SANITIZER_LOSES,
                _LAUNCHED,
                SANITIZER,
            ),
            "counts": Level(
                frozenset(),
                "about 2 to 6 times a program of many short kernels",
                _SANITIZER_LOSES,
                _LAUNCHED,
                SANITIZER,
            ),
            "access": Level(
                frozenset(),
                "5 to 25 times, as every access becomes a row",
                _SANITIZER_LOSES,
                _LAUNCHED | {"access"},
                SANITIZER,
            ),
        },
    ),
    "nsys": Collector(
        "nsys",
        "what Nsight Systems records of the whole command: CUDA, NVTX, calls of the OS runtime",
        {
            "report": Level(
                frozenset(),
                "what Nsight Systems costs",
                "what it has not yet taken from the program; all of it where nsys is killed",
                _DEVICE - {"collective"} | {"span"},
                CUPTI,
            )
        },
        by_name_only=True,
        outside=True,
    ),
    "rocprofv3": Collector(
        "rocprofv3",
        "what rocprofv3 records of each process of the command: HIP, ROCTx, RCCL",
        {
            "runtime": Level(
                frozenset(),
                "what rocprofv3 costs",
                "all of it: each process writes its file when it exits",
                _DEVICE | {"span"},
                ROCPROFILER,
            )
        },
        by_name_only=True,
        outside=True,
    ),
    "cuda.counters": Collector(
        "cuda.counters",
        "counters of each kernel of the whole command, through Nsight Compute",
        {
            "roofline": Level(
                _COUNTED,
                "each launch runs about 9 times, alone",
                _NCU_LOSES,
                interface=NSIGHT_COMPUTE,
            ),
            "occupancy": Level(
                _COUNTED,
                "each launch runs once or twice, alone",
                _NCU_LOSES,
                interface=NSIGHT_COMPUTE,
            ),
            "stalls": Level(
                _COUNTED,
                "each launch runs about 12 times, alone",
                _NCU_LOSES,
                interface=NSIGHT_COMPUTE,
            ),
        },
        by_name_only=True,
        outside=True,
    ),
    "nvml": Collector(
        "nvml",
        "clocks, power, temperature, throttling, memory in use of NVIDIA cards over time",
        {
            "samples": Level(
                frozenset({"metric", "device"}),
                "a process beside the program; some ms of it for each card and sample",
                "the last sample",
            )
        },
        by_name_only=True,
        outside=True,
    ),
    "cpu": Collector(
        "cpu",
        "stacks of what runs on the CPU: by Python processes themselves, py-spy or perf",
        {
            "best": Level(_SAMPLED, _PERF_COST, _CPU_LOSES),
            "fp": Level(_SAMPLED, _PERF_COST, _CPU_LOSES),
            "python": Level(_SAMPLED, _OWN_COST, "the last 0.1 s"),
            "pyspy": Level(_SAMPLED, _PYSPY_COST, _CPU_LOSES),
            "dwarf": Level(_SAMPLED, "32 KiB of stack for each sample", _CPU_LOSES),
        },
        outside=True,
    ),
    "processes": Collector(
        "processes",
        "which process and thread started which, by which code, and how they ended (Linux, root)",
        {
            "tree": Level(
                frozenset({"frame"}),
                "some us for each thread, process or program that starts",
                _BPFTRACE_LOSES,
            )
        },
        by_name_only=True,
        outside=True,
    ),
    "probes": Collector(
        "probes",
        "hits of functions and USDT probes that --probe names (Linux, root)",
        {
            "counts": Level(
                _SAMPLED,
                "about 2 us a hit; 10 to 20 where the kernel cannot emulate the instruction",
                _BPFTRACE_LOSES,
            ),
            "events": Level(
                _SAMPLED | {"span"},
                "about 10 us a hit",
                _BPFTRACE_LOSES,
            ),
        },
        by_name_only=True,
        outside=True,
    ),
    "offcpu": Collector(
        "offcpu",
        "when threads of any program were off the CPU, why, and where in the code (Linux, root)",
        {
            "user": Level(
                _SAMPLED,
                "about 2.4 us a switch of a thread; a process beside the program",
                _BPFTRACE_LOSES,
            ),
            "kernel": Level(
                _SAMPLED,
                "about 4 us a switch of a thread; a process beside the program",
                _BPFTRACE_LOSES,
            ),
        },
        by_name_only=True,
        outside=True,
    ),
}
DEFAULT = {"torch": "operators"}

Chosen = dict[str, str]
"""Collector -> level."""


def parse_with(texts: Iterable[str]) -> Chosen:
    """Return what `--with NAME[:LEVEL],...` asks for.

    Raises:
        CollectError: there is no such collector or level, one is asked for twice, or two need what
            serves one of them at a time.
    """
    chosen: Chosen = {}
    for text in texts:
        for item in text.split(","):
            name, _, level = item.strip().partition(":")
            if name not in COLLECTORS:
                raise CollectError(
                    f"--with {item}: no collector '{name}'; there are {', '.join(COLLECTORS)}."
                    f"{did_you_mean(name, COLLECTORS)}"
                )
            levels = COLLECTORS[name].levels
            level = level or next(iter(levels))
            if level not in levels:
                raise CollectError(
                    f"--with {item}: '{name}' has no level '{level}'; it has {', '.join(levels)}."
                    f"{did_you_mean(level, levels)}"
                )
            if name in chosen:
                raise CollectError(f"--with: '{name}' is given twice; one level for each collector")
            chosen[name] = level
    _check_interfaces(chosen)
    return chosen


def _check_interfaces(chosen: Chosen) -> None:
    """Refuse collectors that need the same interface; those of different ones can have two runs."""
    holders: dict[str, str] = {}
    for name, level in chosen.items():
        interface = COLLECTORS[name].levels[level].interface
        if interface and interface in holders:
            raise CollectError(
                f"--with: {holders[interface]} and {name}:{level} both need {interface}, which serves"
                " one of them at a time; leave out one, or take torch:operators of PyTorch"
            )
        holders[interface] = f"{name}:{level}"


def collectors_for(
    required: Iterable[str], optional: Iterable[str], *, nvidia: bool = False
) -> Chosen:
    """Return the cheapest collectors that fill all `required` tables and most `optional` ones.

    Args:
        required: tables that must be filled.
        optional: tables that are welcome; they decide only where none is required.
        nvidia: whether the machine has NVIDIA cards: then CUDA's own collectors, which need no
            PyTorch, come before its profiler, and PyTorch's operators are recorded beside them.

    Raises:
        CollectError: no collector fills one of them, or none fills all in one execution.
    """
    wanted = set(required) - ALWAYS
    hoped = set(optional) - ALWAYS
    if not wanted and not hoped:
        return dict(DEFAULT)
    candidates = list(_candidates(nvidia=nvidia))
    fitting = [(chosen, filled) for chosen, filled in candidates if wanted <= filled]
    if not fitting:
        raise CollectError(
            f"no collector fills {', '.join(sorted(wanted))} in one execution;"
            " choose with --with, or give the tool a trace: --trace DIR"
        )
    if wanted:
        return fitting[0][0]
    return max(fitting, key=lambda candidate: len(hoped & candidate[1]))[0]


def _candidates(*, nvidia: bool) -> Iterator[tuple[Chosen, frozenset[str]]]:
    """Yield choices of collectors with the tables that they fill, in the order of preference."""
    operators = COLLECTORS["torch"].levels["operators"]
    yield dict(DEFAULT), operators.tables | operators.maybe
    if nvidia:
        for name in ("cuda", "cuda.memory"):
            for level, filled in _filled(name):
                yield {name: level, **DEFAULT}, filled | operators.tables
    for name, collector in COLLECTORS.items():
        if not collector.by_name_only:
            for level, filled in _filled(name):
                yield {name: level}, filled


def _filled(name: str) -> Iterator[tuple[str, frozenset[str]]]:
    for level, about in COLLECTORS[name].levels.items():
        yield level, about.tables | about.maybe
