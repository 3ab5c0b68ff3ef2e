"""What this machine allows of sampling CPUs: which rungs work, what each misses, what to do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PYTHON, PYSPY, FRAME_POINTERS, DWARF = "python", "pyspy", "fp", "dwarf"

_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
_PTRACE_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")
_STATUS = Path("/proc/self/status")
_SYS_PTRACE, _SYS_ADMIN, _PERFMON = 19, 21, 38
_KERNEL_PARANOID = 1
_PROBE_SECONDS = 20


@dataclass(frozen=True)
class Rung:
    """One way of sampling.

    Attributes:
        path: the program.
        lacks: what keeps it from working; empty: nothing.
        advice: what to do about that.
    """

    path: str = ""
    lacks: str = ""
    advice: str = ""


def capabilities(status: str | None = None) -> int:
    """Return the capabilities that this process has in effect, as the bits of a number."""
    text = _text(_STATUS) if status is None else status
    found = re.search(r"^CapEff:\s*([0-9a-f]+)", text, re.MULTILINE)
    return int(found[1], 16) if found else 0


def may_see_kernel(paranoid: str | None = None, held: int | None = None) -> bool:
    """Tell whether perf may see what runs in the kernel, by the kernel's setting and capabilities."""
    text = _text(_PARANOID) if paranoid is None else paranoid
    mask = capabilities() if held is None else held
    allowed = text.strip().lstrip("-").isdigit() and int(text) <= _KERNEL_PARANOID
    return allowed or bool(mask >> _SYS_ADMIN & 1 or mask >> _PERFMON & 1)


def perf_rung() -> Rung:
    """Look whether perf samples a program of this user; takes a tenth of a second."""
    path = shutil.which("perf")
    if path is None:
        return Rung(lacks="no perf on PATH", advice="apt-get install linux-perf, or perf's package")
    sampled = [sys.executable, "-S", "-c", ""]
    command = [path, "record", "-q", "-e", "task-clock:u", "-o", "-", "--", *sampled]
    try:
        done = subprocess.run(  # noqa: S603 - the tool that was found on PATH
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C", "PERF_CONFIG": os.devnull},
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Rung(path, f"perf does not run here ({error})", "install the perf of this kernel")
    if done.returncode == 0:
        return Rung(path)
    paranoid = _text(_PARANOID).strip()
    told = " ".join(done.stderr.decode(errors="replace").split())[:200]
    told = told or f"it ended with {done.returncode}"
    return Rung(
        path,
        f"perf may not sample (perf_event_paranoid {paranoid or 'unknown'}): {told}",
        "sysctl kernel.perf_event_paranoid=2; in a container: --cap-add=PERFMON, or a seccomp profile"
        " that lets perf_event_open pass",
    )


def pyspy_rung() -> Rung:
    """Look whether py-spy is there and may read the memory of programs that are started here."""
    path = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
    if path is None:
        return Rung(lacks="no py-spy on PATH", advice="pip install py-spy")
    scope = _text(_PTRACE_SCOPE).strip()
    if scope not in ("", "0") and not capabilities() >> _SYS_PTRACE & 1:
        return Rung(
            path,
            f"py-spy may not read other processes (kernel.yama.ptrace_scope {scope})",
            "sysctl kernel.yama.ptrace_scope=0, or run as root; in a container: --cap-add=SYS_PTRACE",
        )
    return Rung(path)


def misses(level: str, *, kernel: bool) -> list[str]:
    """Return what a rung does not see, for people."""
    seen_by_perf = (
        []
        if kernel
        else [
            "kernel code: perf may not see it here (perf_event_paranoid, CAP_PERFMON); time in it is not sampled"
        ]
    )
    return {
        PYTHON: [
            "native code: it counts as the function of Python that called it, and has no stack in threads that run no Python",
            "threads that live for less than 0.02 s; where a thread was in its first 0.02 s",
            "Pythons other than CPython 3.11 to 3.13, and those under python -I, -E or -S",
            "programs that are no Python",
        ],
        PYSPY: [
            "when a sample was taken: py-spy tells sums for the whole run",
            "the first tenths of a second of each Python, until py-spy has found it",
            "programs that are no Python",
            "running apart from ready to run: a thread that waits for a CPU counts as on it",
        ],
        FRAME_POINTERS: [
            *seen_by_perf,
            "callers of functions compiled without frame pointers, as in many libraries",
            "functions of Python, unless --python-frames (Python 3.12 and newer)",
        ],
        DWARF: [
            *seen_by_perf,
            "callers beyond the innermost 32 KiB of a stack",
            "functions of Python, unless --python-frames (Python 3.13 and newer)",
        ],
    }[level]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
