"""Collector `offcpu`: when threads were off the CPU, why, and where in the code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pasta.collect.companions.companion import Watch
from pasta.collect.ebpf.bpftrace import Bpftrace
from pasta.collect.ebpf.switches import Switches

RECORDS = 26
"""How many switches each CPU gathers: what fits on the stack of a BPF program, 512 bytes."""
_MISSED_WITHOUT_KERNEL = "frames of the kernel: level kernel"
_END_OF_TIME = 1 << 62
_CUT = (
    "call stacks of threads that left the CPU by over 256, as code without frame pointers seems to: cut to"
    " the innermost frame, and left out above 1024"
)
_FRAME_POINTERS = "callers of functions compiled without frame pointers"


class OffCpu(Bpftrace):
    """Watches the scheduler; see `scripts/offcpu.bt`."""

    name = "offcpu"
    script = "offcpu.bt"
    with_stack: ClassVar[frozenset[str]] = frozenset({"C", "I"})

    def settings(self) -> Mapping[str, Any]:
        """Return what the level misses."""
        missed = [_FRAME_POINTERS]
        return {"misses": missed if self.level == "kernel" else [*missed, _MISSED_WITHOUT_KERNEL]}

    def begin(self, watch: Watch) -> None:
        """Make ready for the target's switches."""
        self._switches = Switches(watch.part, watch.losses, watch.offset, self.rounds)

    def text(self, script: str) -> str:
        """Return the script with the stacks of the level, and with room for as many records as fit."""
        kernel = self.level == "kernel"
        fields = [f"@records[$first + {slot}].{part}" for slot in range(RECORDS) for part in (0, 1)]
        return (
            script.replace("STACK_TEXTS", "%s%s" if kernel else "%s")
            .replace("STACKS", "kstack(perf), ustack(perf)" if kernel else "ustack(perf)")
            .replace("INNERMOST", "kstack(perf), ustack(perf, 1)" if kernel else "ustack(perf, 1)")
            .replace("LAST_SLOT", str(RECORDS - 1))
            .replace("RECORD_TEXTS", " ".join(["%llx"] * len(fields)))
            .replace("RECORDS", ", ".join(fields))
        )

    def event(self, words: list[str], stack: list[str]) -> None:
        """Take records of switches, what their contexts stand for, forks and new programs."""
        match words:
            case ["R", cpu, number, now, count, *fields]:
                taken = [int(field, 16) for field in fields[: 2 * int(count)]]
                self._switches.take(int(cpu), int(number), int(now), taken)
                self.told(int(cpu), int(now))
            case ["C" | "I" | "B" as kind, context, pid, tid, state, *_]:
                stack_id = self.texts.stack_id(int(pid), stack) if kind != "B" else 0
                if kind != "C":
                    self.watch.losses.skip(_CUT)
                self._switches.know(int(context), int(pid), int(tid), int(state), stack_id)
            case ["F", parent, pid]:
                self.texts.names.forked(int(parent), int(pid))
            case ["X", pid]:
                self.texts.names.replaced(int(pid))
            case [written, count] if written.startswith("@lines["):
                cpu = written.removeprefix("@lines[").removesuffix("]:")
                self._switches.take(int(cpu), int(count), _END_OF_TIME, [])

    def told(self, cpu: int, now: int) -> None:
        """Take it that all records of a CPU up to a time have come."""
        super().told(cpu, now)
        self._switches.passed(cpu, now)

    def finish(self) -> Sequence[str]:
        """Append all intervals."""
        self._switches.finish()
        return super().finish()
