"""Call stacks as bpftrace writes them, and their numbers in the trace."""

from __future__ import annotations

from pasta.collect.ebpf.native_names import NativeNames
from pasta.collect.losses import Losses
from pasta.collect.shaping.stacks import Frame, Stacks
from pasta.trace_writer import PartWriter

KERNEL = "[kernel]"
_NAMELESS = "call stacks of which no frame could be read: told as unknown"
_KERNEL_FROM = 0xFFFF_0000_0000_0000  # of x86-64 and aarch64
_PROCESSES_MAX = 4096


class StackTexts:
    """Turns lines such as `7f43284b6353 name+35` into stacks of the trace.

    Addresses of the program are named here, while it lives; those of the kernel by bpftrace.

    Args:
        part: where frames go.
        losses: where stacks that could not be read are counted.
        collector: whose stacks they are, as others may write the same ones.

    Attributes:
        names: who names the program's frames.
    """

    def __init__(self, part: PartWriter, losses: Losses, collector: str) -> None:
        self.names = NativeNames()
        self._part = part
        self._losses = losses
        self._collector = collector
        self._stacks: dict[int, Stacks] = {}

    def stack_id(self, pid: int, lines: list[str], owner: int | None = None) -> int:
        """Return the number of a stack.

        Args:
            pid: the process whose code it is.
            lines: innermost frame first, kernel frames ahead of the program's.
            owner: the process in whose rows the number is; `pid`, if not given.
        """
        user: list[int] = []
        kernel: list[Frame] = []
        for line in reversed(lines):
            address, _, named = line.strip().partition(" ")
            if int(address, 16) >= _KERNEL_FROM:
                kernel.append(Frame(named.rpartition("+")[0] or named, library=KERNEL))
            else:
                user.append(int(address, 16))
        frames = [*self.names.frames(pid, user), *kernel] if user else kernel
        if not frames:
            self._losses.skip(_NAMELESS)
            return 0
        return self._of(pid if owner is None else owner).id_of(frames)

    def flush(self) -> None:
        """Write what is held back."""
        for stacks in self._stacks.values():
            stacks.flush()

    def _of(self, pid: int) -> Stacks:
        if pid not in self._stacks:
            if len(self._stacks) >= _PROCESSES_MAX:
                self._stacks.pop(next(iter(self._stacks))).flush()
            self._stacks[pid] = Stacks(self._part, pid, self._collector)
        return self._stacks[pid]
