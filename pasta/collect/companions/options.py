"""What users choose of companions, beside their levels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HostOptions:
    """What companions are told by options of the command line.

    Attributes:
        frequency: samples a second of each CPU that is busy.
        events: further events of perf to sample, as `NAME[@PERIOD[:UNIT]]`.
        python_frames: whether Python's own functions are to be seen by perf.
        native: whether py-spy tells native frames too.
        gil: whether py-spy tells only threads that hold Python's lock.
        idle: whether py-spy tells threads that wait, too.
        probes: what the collector `probes` watches, as `KIND:FILE:NAME` or the name of a set.
        slow_probes: whether probes are set that the kernel cannot emulate.
    """

    frequency: int = 99
    events: tuple[str, ...] = ()
    python_frames: bool = False
    native: bool = False
    gil: bool = False
    idle: bool = False
    probes: tuple[str, ...] = ()
    slow_probes: bool = False
