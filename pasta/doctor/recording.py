"""What `--with` can record on this machine: each collector with all that it needs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence

from pasta.collect.collectors import COLLECTORS
from pasta.collect.companions.cpu.own_samples import sampler_rung
from pasta.collect.companions.cpu.rungs import perf_rung, pyspy_rung
from pasta.collect.ebpf.bpftrace import check_bpftrace
from pasta.collect.ebpf.offcpu import OffCpu
from pasta.collect.ebpf.probes import Probes
from pasta.collect.ebpf.processes import Processes
from pasta.collect.native_library import ACTIVITY, MEMORY, PATCHES, Part, state
from pasta.collect.target.compiled import compiler
from pasta.collect.wrappers import WRAPPERS
from pasta.doctor import versions
from pasta.doctor.check import Check, Status
from pasta.doctor.facts import Facts
from pasta.errors import CollectError

_LOSES_OF_CPU = {
    "python": "Python's functions alone, of CPython 3.11 to 3.13",
    "pyspy": "stops the program for each sample",
    "fp": "no names of Python's functions",
    "dwarf": "nor here",
}
_STATES = {
    "built": "is built with pasta",
    "compiled": "is compiled",
    "possible": "will be compiled at first use",
}


def checks(facts: Facts) -> Iterator[Check]:
    """Yield how each collector stands."""
    yield _torch()
    yield _native("cuda", [ACTIVITY], facts, _lacks_for_timeline(facts))
    yield _native("cuda.memory", [MEMORY, PATCHES], facts, _lacks_for_memory(facts))
    yield _nvml(facts)
    yield _cpu()
    for name in (OffCpu.name, Processes.name, Probes.name):
        yield _ebpf(name)
    for name in WRAPPERS:
        yield _wrapper(name)


def _torch() -> Check:
    if not compiler():
        return Check(
            Status.LIMITED,
            "torch",
            "without the native hook, as there is no C++ compiler",
            "an operator costs some 15 us instead of 0.5 us: install g++",
        )
    return Check(Status.OK, "torch", f"the native hook {_STATES['possible']}")


def _lacks_for_timeline(facts: Facts) -> str:
    if facts.cupti_path is None:
        return "no CUPTI, see above"
    refused = facts.cupti.get("refused")
    return f"CUPTI refuses: {refused}, see above" if refused else ""


def _lacks_for_memory(facts: Facts) -> str:
    return "" if facts.sanitizer_path else "no Compute Sanitizer, see above"


def _native(name: str, parts: Sequence[Part], facts: Facts, lacks: str) -> Check:
    """Check a collector that CUDA loads into programs, which may lack something at run time."""
    if "error" in facts.nvml and facts.module:
        return Check(Status.MISSING, name, "the driver does not answer, see above")
    found = []
    for part in parts:
        try:
            kind, detail = state(part)
        except CollectError as error:
            return Check(Status.MISSING, name, *_split(str(error)))
        if kind == "failed":
            return Check(Status.MISSING, name, detail)
        found.append(f"{part.what} {_STATES[kind]}")
    if lacks:
        return Check(Status.MISSING, name, lacks)
    if not facts.nvml.get("cards"):
        return Check(Status.MISSING, name, f"no NVIDIA GPU here; {', '.join(found)}")
    return Check(Status.OK, name, ", ".join(found))


def _split(message: str) -> tuple[str, str]:
    """Return a collector's message without its option: what is wrong, and what to do."""
    wrong, _, advice = message.partition(": ")[2].rpartition("; ")
    return (wrong, advice) if wrong else (advice, "")


def _nvml(facts: Facts) -> Check:
    if "error" in facts.nvml:
        return Check(Status.MISSING, "nvml", str(facts.nvml["error"]))
    return Check(Status.OK, "nvml", f"{len(facts.nvml['cards'])} GPUs")


def _cpu() -> Check:
    rungs = {"python": sampler_rung(), "pyspy": pyspy_rung(), "fp": perf_rung()}
    found = [name for name, rung in rungs.items() if not rung.lacks]
    if not found:
        return Check(
            Status.MISSING, "cpu", "no level works: no compiler, py-spy or perf, see above"
        )
    levels = [*found, *(["dwarf"] if "fp" in found else [])]
    told = ", ".join(f"{level} ({_LOSES_OF_CPU[level]})" for level in levels)
    lacks = [
        f"{name} lacks: {rung.lacks}; {rung.advice}" for name, rung in rungs.items() if rung.lacks
    ]
    return Check(Status.LIMITED if lacks else Status.OK, "cpu", f"levels {told}", "; ".join(lacks))


def _ebpf(name: str) -> Check:
    try:
        check_bpftrace(name)
    except CollectError as error:
        return Check(Status.MISSING, name, *_split(str(error)))
    levels = ", ".join(COLLECTORS[name].levels)
    return Check(Status.OK, name, f"by bpftrace; levels {levels}")


def _wrapper(name: str) -> Check:
    wrapper = WRAPPERS[name]
    path = shutil.which(wrapper.program)
    if path is None:
        advice = f"install {wrapper.product}, or put it on PATH"
        return Check(Status.MISSING, name, f"no {wrapper.program} on PATH", advice)
    return Check(Status.OK, name, f"{path} {versions.of_program(path)}".strip())
