"""Which collectors are companions, and the companions that a choice of collectors asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pasta.collect.collectors import Chosen
from pasta.collect.companions.companion import Companion
from pasta.collect.companions.cpu import choice
from pasta.collect.companions.options import HostOptions
from pasta.collect.ebpf.offcpu import OffCpu
from pasta.collect.ebpf.probes import Probes
from pasta.collect.ebpf.processes import Processes
from pasta.errors import ForbiddenError

COMPANIONS: dict[str, Callable[[str, HostOptions], Companion | None]] = {
    "cpu": choice.sampling,
    OffCpu.name: OffCpu,
    Processes.name: Processes,
    Probes.name: Probes,
}
"""Collector -> what makes its companion of a level and options; levels of `cpu` may need none."""


def with_levels_chosen(chosen: Chosen, command: Sequence[str], options: HostOptions) -> Chosen:
    """Return collectors with the levels that are best here, where that was left to pasta.

    Raises:
        CollectError: no level of one works here.
    """
    if chosen.get("cpu") != choice.BEST:
        return chosen
    return {**chosen, "cpu": choice.best_level(command, options)}


def companions_of(chosen: Chosen, options: HostOptions) -> tuple[list[Companion], dict[str, str]]:
    """Return the companions that are asked for, and the collectors that are forbidden here, with the reason.

    Raises:
        CollectError: one of them cannot work on this machine, or no collector is allowed.
    """
    companions, forbidden = [], {}
    for name in filter(COMPANIONS.__contains__, chosen):
        companion = COMPANIONS[name](chosen[name], options)
        if companion is None:
            continue
        try:
            companion.check()
        except ForbiddenError as error:
            forbidden[name] = str(error)
            if forbidden.keys() == chosen.keys():
                raise
        else:
            companions.append(companion)
    return companions, forbidden
