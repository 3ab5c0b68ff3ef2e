"""What fills each table of a trace."""

from __future__ import annotations

_TIMELINE = (
    "pasta collect --with torch:timeline or --with cuda, or a file of PyTorch's profiler, Nsight"
    " Systems, rocprofv3 or another recorder of devices (pasta import FILE)"
)
_RECORDER = "pasta collect --with torch"

FILLED_BY: dict[str, str] = {
    "call": _TIMELINE,
    "kernel": _TIMELINE,
    "copy": _TIMELINE,
    "sync": _TIMELINE,
    "collective": _TIMELINE,
    "device": _TIMELINE,
    "span": f"{_RECORDER} or a file of PyTorch's profiler or another (pasta import FILE)",
    "memory": (
        f"{_RECORDER} or --with cuda.memory, or a PyTorch memory snapshot or a profiler trace with"
        " profile_memory=True (pasta import FILE)"
    ),
    "touch": (
        f"{_RECORDER}:touch (operators) or --with cuda.memory (kernels), or a PyTorch execution trace"
        " with its profiler trace (pasta import FILE FILE)"
    ),
    "process": "every collector and importer",
    "node": "pasta system run",
    "thread": "every collector and importer",
    "frame": (
        f"{_RECORDER} --stacks or --with cuda --stacks, or a PyTorch profiler trace with call stacks"
        " (pasta import FILE)"
    ),
    "source": "pasta trace sources DIR, on the machine where the trace was recorded",
    "loss": "every collector and importer that lost something",
    "access": "pasta collect --with cuda.memory:access, or NVBit's memory traces (pasta import FILE)",
    "event": "pasta collect --with cuda.memory --events",
    "metric": (
        "pasta collect --with cuda.counters (launches) or --with nvml (devices over time),"
        " or raw pages of Nsight Compute (pasta import FILE.csv)"
    ),
    "sample": (
        "pasta collect --with cpu or --with offcpu, or Linux perf, py-spy, speedscope or collapsed stacks"
        " (pasta import FILE)"
    ),
}
"""Table -> what fills it, for the message when a tool needs a table that a trace lacks."""
