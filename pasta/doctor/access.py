"""What stands between pasta and the counters: permissions, and other profilers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from pasta.doctor.check import Check, Status
from pasta.doctor.facts import Facts, text_of

_PARAMETERS = Path("/proc/driver/nvidia/params")
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
_OWN_STATUS = Path("/proc/self/status")
_SYS_ADMIN = 21
_PARANOID_ENOUGH = 2
_INJECTED = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "ROCP_TOOL_LIBRARIES")
_PROFILERS = re.compile(
    r"nsys|nsight|injection|cupti|sanitizer|rocprof|roctracer|launcher", re.IGNORECASE
)


def checks(facts: Facts) -> Iterator[Check]:
    """Yield what is permitted, and who else looks at programs that are started from here."""
    yield counters(text_of(_PARAMETERS), text_of(_OWN_STATUS))
    yield cpu_samples(text_of(_PARANOID))
    yield subscriber(facts)
    yield from other_profilers(os.environ)


def counters(parameters: str, status: str) -> Check:
    """Check whether GPU performance counters may be read, which `cuda.counters` does.

    Args:
        parameters: `/proc/driver/nvidia/params`.
        status: `/proc/self/status`.
    """
    name = "GPU counters"
    only = re.search(r"^RmProfilingAdminOnly: (\d+)", parameters, re.MULTILINE)
    capabilities = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    admin = capabilities is not None and int(capabilities[1], 16) >> _SYS_ADMIN & 1 == 1
    if only is None:
        return Check(Status.UNKNOWN, name, "no NVIDIA driver says who may read them")
    if only[1] == "0":
        return Check(Status.OK, name, "everybody may read them")
    if admin:
        return Check(Status.OK, name, "administrators may read them, as this process is")
    return Check(
        Status.LIMITED,
        name,
        "only administrators may read them",
        "for cuda.counters: load the driver with NVreg_RestrictProfilingToAdminUsers=0, or use"
        " sudo, or docker run --cap-add=SYS_ADMIN",
    )


def cpu_samples(paranoid: str) -> Check:
    """Check whether profilers may sample CPUs, as cpu:fp, cpu:dwarf and nsys do."""
    name = "perf_event_paranoid"
    if not paranoid.strip():
        return Check(Status.UNKNOWN, name, "this kernel tells none")
    if int(paranoid) > _PARANOID_ENOUGH:
        advice = "CPU samples by perf and nsys need it: sysctl kernel.perf_event_paranoid=2"
        return Check(Status.LIMITED, name, paranoid.strip(), advice)
    return Check(Status.OK, name, paranoid.strip())


def subscriber(facts: Facts) -> Check:
    """Check, in a program started for it, whether CUPTI is free."""
    name = "CUPTI is free"
    if facts.cupti_path is None or "error" in facts.cupti:
        return Check(Status.UNKNOWN, name, "not tried, as there is no CUPTI")
    if facts.cupti["cuda"]:
        return Check(Status.UNKNOWN, name, f"not tried: {facts.cupti['cuda']}")
    refused = facts.cupti["refused"]
    if not refused:
        return Check(Status.OK, name, "a program started from here can be recorded")
    return Check(
        Status.LIMITED,
        name,
        f"it refuses: {refused}",
        "another profiler holds it in programs started from here: unset the variables below, or"
        " leave that profiler's session",
    )


def other_profilers(environment: Mapping[str, str]) -> Iterator[Check]:
    """Yield the variables by which other profilers enter programs."""
    found = False
    for name in _INJECTED:
        if environment.get(name):
            found = True
            yield _variable(name, environment[name])
    preloaded = environment.get("LD_PRELOAD", "")
    if _PROFILERS.search(preloaded):
        found = True
        yield _variable("LD_PRELOAD", preloaded)
    if not found:
        yield Check(Status.OK, "other profilers", "no variable loads one into programs")


def _variable(name: str, value: str) -> Check:
    advice = f"loads another profiler into every program, which may exclude pasta's: unset {name}"
    return Check(Status.LIMITED, name, value, advice)
