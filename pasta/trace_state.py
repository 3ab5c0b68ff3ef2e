"""Whether a trace was finished, and what it means for its readers where it was not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pasta.trace import RANK_GLOB, Trace

COMPLETE = "complete"
PART = "part.json"
"""In the folder of each rank that has finished, where several launchers write one trace."""
RECORDER = "recorder.json"
"""Beside it, from the beginning: who writes the share of that rank, as `this_process` tells it."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_MEANS = "what was not written yet is missing, and spans that were open may come twice"


def this_process() -> dict[str, Any]:
    """Return what tells this process from all others of all machines, for `recorder` in `trace.json`."""
    pid = os.getpid()
    host = os.uname().nodename
    return {"host": host, "pid": pid, "started": _started(pid), "system": _system()}


def runs_still(recorder: Any) -> bool | None:
    """Tell whether a process runs that `this_process` described; `None`: nothing here can tell."""
    here = _system()
    if not here or not isinstance(recorder, dict) or recorder.get("system") != here:
        return None
    if not isinstance(recorder.get("pid"), int):
        return None
    started = _started(recorder["pid"])
    return started is not None and started == recorder.get("started")


def unfinished(trace: Trace) -> str:
    """Return what it means that a trace was not finished, in one line; empty: it was."""
    if failure := trace.info.get("failure"):
        return " ".join(str(failure).split())
    state = trace.info.get("state", COMPLETE)
    if state == COMPLETE:
        return ""
    ranks = trace.info.get("world_size", 1)
    recorder = trace.info.get("recorder")
    if isinstance(ranks, int) and ranks > 1:
        done = len(list(trace.path.glob(f"{RANK_GLOB}/{PART}")))
        return f"{trace.path}: {ranks - done} of {ranks} ranks have not finished: {_MEANS}"
    if not isinstance(recorder, dict) or not isinstance(recorder.get("pid"), int):
        return f"{trace.path}: is in the state '{state}', not complete: {_MEANS}"
    process = f"process {recorder['pid']} of {recorder.get('host')}"
    runs = runs_still(recorder)
    if runs:
        return f"{trace.path}: is being written by {process}: rows are still to come"
    if runs is None:
        return f"{trace.path}: was not finished yet by {process}, which may run still: {_MEANS}"
    return (
        f"{trace.path}: was never finished, as {process}, which wrote it, is gone: {_MEANS};"
        f" complete it: pasta trace rescue {trace.path}"
    )


def _system() -> str:
    """Return what process ids hold for: this boot of this machine, and this container."""
    try:
        return f"{_BOOT.read_text('ascii').strip()} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(pid: int) -> int | None:
    """Return when a process was started, in the kernel's ticks; `None`: there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    state, *rest = stat.rpartition(")")[2].split()
    return None if state == "Z" else int(rest[18])
