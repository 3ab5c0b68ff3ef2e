"""Which collectors a tool names for itself, and which of them work on this machine."""

from __future__ import annotations

from collections.abc import Sequence

from pasta.collect.collectors import Chosen, parse_with
from pasta.collect.companions.options import HostOptions
from pasta.collect.companions.registry import COMPANIONS, with_levels_chosen
from pasta.errors import CollectError

NO_COLLECTOR = "none"
"""What `collect` of a tool says whose input is only imported."""


def named_by_tool(tool: str, collect: str) -> Chosen:
    """Return what the key `collect` of a tool says.

    Raises:
        CollectError: no collector records what it reads, or there is none of such a name.
    """
    if collect == NO_COLLECTOR:
        raise CollectError(
            f"tool '{tool}' reads what no collector of pasta records; record it with another program, import"
            f" that (pasta import FILE -o DIR) and give --trace DIR (see docs/tools/{tool}.md)"
        )
    return parse_with([collect])


def those_that_work(chosen: Chosen, command: Sequence[str]) -> tuple[Chosen, list[str]]:
    """Leave out the collectors beside the program that cannot work here, as those that only root may use.

    Args:
        chosen: collector -> level, what would serve best.
        command: what is to be recorded.

    Returns:
        Those that stay, and for each that does not the reason.

    Raises:
        CollectError: none stays; with the reason of the first.
    """
    working, reasons = dict(chosen), []
    for name in chosen:
        try:
            _check(name, chosen, command)
        except CollectError as error:
            reasons.append(str(error))
            del working[name]
            if not working:
                raise CollectError(reasons[0]) from error
    return working, reasons


def _check(name: str, chosen: Chosen, command: Sequence[str]) -> None:
    if name in COMPANIONS:
        options = HostOptions()
        level = with_levels_chosen({name: chosen[name]}, command, options)[name]
        companion = COMPANIONS[name](level, options)
        if companion is not None:
            companion.check()
