"""What collectors by bpftrace have in common: starting it, and the lines that it writes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from pasta.collect.companions.companion import Companion, Watch
from pasta.collect.companions.cpu import python_frames
from pasta.collect.companions.cpu.rungs import FRAME_POINTERS
from pasta.collect.companions.options import HostOptions
from pasta.collect.ebpf.cpu_rounds import CpuRounds
from pasta.collect.ebpf.native_names import NativeNames
from pasta.collect.ebpf.stack_texts import StackTexts
from pasta.errors import CollectError, ForbiddenError

TRACING = Path("/sys/kernel/tracing")
_SCRIPTS = Path(__file__).parent / "scripts"
_INITIAL_PROCESS_IDS = 0xEFFFFFFC  # the kernel's PROC_PID_INIT_INO
_SETTINGS = {
    "BPFTRACE_MAP_KEYS_MAX": "65536",
    "BPFTRACE_PERF_RB_PAGES": "1024",
    "BPFTRACE_NO_USER_SYMBOLS": "1",  # it would read every symbol of a process for each stack
    "BPFTRACE_STRLEN": "200",
    "BPFTRACE_MAX_PROBES": "2048",
    "BPFTRACE_MAX_BPF_PROGS": "2048",
}
_MOUNTED = 'mount -t tracefs tracefs "$0" && exec "$@"'
_REMOVED = """
grep -o "[^:]*$1 " "$0" | while read -r event; do echo "-:$event" >> "$0"; done
"""
_LOST = re.compile(r"Lost (\d+) events")
_LOST_EVENTS = "what bpftrace lost, as it came faster than it was read: pieces of its output"
_ENDED_EARLY = "bpftrace ended ahead of the program: nothing was seen from then on"


def check_bpftrace(name: str) -> None:
    """Check that bpftrace can be used.

    Args:
        name: of the collector that wants it.

    Raises:
        CollectError: it cannot, with what to do about it.
        ForbiddenError: it is there, for root.
    """
    if shutil.which("bpftrace") is None:
        raise CollectError(f"--with {name}: bpftrace is not installed (apt-get install bpftrace)")
    if os.geteuid() != 0:
        raise ForbiddenError(f"--with {name}: bpftrace works for root only; run pasta as root")
    if not (TRACING / "events").exists() and shutil.which("unshare") is None:
        raise CollectError(
            f"--with {name}: the kernel's tracing files are not mounted, and there is no unshare (util-linux)"
            f" to mount them for bpftrace alone; mount -t tracefs tracefs {TRACING}"
        )
    if Path("/proc/self/ns/pid").stat().st_ino != _INITIAL_PROCESS_IDS:
        raise CollectError(
            f"--with {name}: process ids here are not the kernel's (a container's own);"
            " run pasta outside, or in a container that shares them (docker run --pid=host)"
        )


def boot_clock_ahead() -> int:
    """Return the ns that bpftrace's clock is ahead of CLOCK_MONOTONIC: how long the machine was suspended.

    The `nsecs` of bpftrace is CLOCK_BOOTTIME, in every version.
    """
    earlier = time.monotonic_ns()
    boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return boot - (earlier + time.monotonic_ns()) // 2


def remove_probes_of(pid: int) -> None:
    """Remove probes from the kernel's list that a bpftrace left there which has ended.

    It does so where it makes an entry for a probe and the kernel then refuses to set that.
    """
    left = ["sh", "-c", _REMOVED, str(TRACING / "uprobe_events"), f"_bcc_{pid}"]
    subprocess.run([*tracefs_command(), *left], check=False, capture_output=True)  # noqa: S603 - a fixed script


def tracefs_command() -> list[str]:
    """Return what gives a command the kernel's tracing files, seen by it alone and gone with it."""
    if (TRACING / "events").exists():
        return []
    return ["unshare", "--mount", "sh", "-c", _MOUNTED, str(TRACING)]


class Bpftrace(Companion):
    """A script for bpftrace that watches the target's processes.

    A script writes one line for each thing, which begins with a word that says what it is; the
    lines of a call stack follow, and then a line with a dot. `ready` comes first, `end` when it is
    asked to end. All times are of the clock of `boot_clock_ahead`. `T CPU NOW` comes from each busy CPU
    several times a second, and from each where `rounds`, the script's second argument, comes by: what
    bpftrace still holds when it is asked to end it throws away, so it is asked when all CPUs have told of
    a later time. Without these lines it might never end: it sees that it was asked when the next line
    comes.

    Attributes:
        script: the file in `scripts/`.
    """

    script: ClassVar[str]
    with_stack: ClassVar[frozenset[str]]
    """Words whose lines are followed by a stack."""
    counted: ClassVar[frozenset[str]] = frozenset()
    """Words whose lines the script counts in `@written`, by CPU, so that none is missed unseen."""
    missing: ClassVar[str] = "lines that bpftrace wrote and that did not arrive"
    """What is lost where fewer came than the script counted."""
    _ready = False
    _ended = False
    _target_ended = 0
    _taken = 0
    _written = 0
    _names: NativeNames | None = None
    _head: list[str]
    _stack: list[str] | None = None

    def __init__(self, level: str, options: HostOptions) -> None:
        super().__init__(level, options)
        self.rounds = CpuRounds()
        self._told: dict[int, int] = {}

    def check(self) -> None:
        """Check that bpftrace can be used.

        Raises:
            CollectError: it cannot, with what to do about it.
        ForbiddenError: it is there, for root.
        """
        check_bpftrace(self.name)

    def environment(self) -> Mapping[str, str]:
        """Return what has CPython tell of its functions, where that is wanted."""
        return python_frames.environment(FRAME_POINTERS) if self.options.python_frames else {}

    def command(self, watch: Watch) -> Sequence[str]:
        """Return bpftrace with its script, which stays readable as long as it runs."""
        self.watch = watch = replace(watch, offset=watch.offset - boot_clock_ahead())
        self.begin(watch)
        self.texts = StackTexts(watch.part, watch.losses, self.name)
        self._names = self.texts.names
        script = watch.folder / self.script
        script.write_text(self.text((_SCRIPTS / self.script).read_text("utf-8")), "utf-8")
        settings = [f"{name}={value}" for name, value in _SETTINGS.items()]
        arguments = [str(watch.target), str(self.rounds.start())]
        run = ["bpftrace", "-B", "line", str(script), *arguments]
        return [*tracefs_command(), "env", *settings, *run]

    def begin(self, watch: Watch) -> None:
        """Make ready for `watch`, whose offset is from bpftrace's clock."""

    def text(self, script: str) -> str:
        """Return the script as this level needs it."""
        return script

    def ready(self) -> bool:
        """Tell whether all probes are set: the script's timer, which says so, is set after them."""
        return self._ready

    def take(self, line: str) -> None:
        """Take a line: a stack is gathered until its dot, all else handed on."""
        if self._stack is not None:
            if line == ".":
                stack, self._stack = self._stack, None
                self.event(self._head, stack)
            elif line:
                self._stack.append(line)
            return
        words = line.split(" ")
        self._taken += words[0] in self.counted
        if lost := _LOST.search(line):
            self.lost(int(lost[1]))
        elif words[0] in self.with_stack:
            self._head, self._stack = words, []
        elif words[0] == "ready":
            self._ready = True
        elif words[0] == "end":
            self._ended = True
        elif words[0].startswith("@written["):
            self._written += int(words[1])
        elif words[0] == "T":
            self.told(int(words[1]), int(words[2]))
        elif words[0] and words[0] != "Attaching":
            self.event(words, [])

    def told(self, cpu: int, now: int) -> None:
        """Take it that all lines of a CPU up to a time have come."""
        self._told[cpu] = now

    def settled(self) -> bool:
        """Tell whether each CPU has told of a time after the end of the target."""
        if not self._target_ended:
            self._target_ended = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            self.rounds.ask()
        return all(self._told.get(cpu, 0) >= self._target_ended for cpu in self.rounds.cpus)

    def lost(self, count: int) -> None:
        """Count what bpftrace could not hand over."""
        self.watch.losses.fault(_LOST_EVENTS, count)

    def finish(self) -> Sequence[str]:
        """Count it where bpftrace ended by itself, and write what is held back."""
        if not self._ended:
            self.watch.losses.fault(_ENDED_EARLY)
        self.watch.losses.fault(self.missing, max(0, self._written - self._taken))
        self.texts.flush()
        return ()

    def close(self) -> None:
        """End the rounds, and remove what bpftrace or CPython left, which others have read by now."""
        self.rounds.close()
        if self.pid and not self._ended:
            remove_probes_of(self.pid)
        if self.options.python_frames and self._names:
            python_frames.remove_files(self._names.pids)

    @abstractmethod
    def event(self, words: list[str], stack: list[str]) -> None:
        """Take what the script says.

        Args:
            words: of the line.
            stack: lines of its call stack, innermost frame first, if it has one.
        """
