"""How NVIDIA's cards are joined by NVLink: each with each, or all with switches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pasta.collect.nvml.library import NvLink
from pasta.system.graph import Fact, Link, Node

_GPU, _SWITCH = "gpu", "switch"


def joined_by_nvlink(cards: Mapping[str, Sequence[NvLink]]) -> tuple[list[Node], list[Link]]:
    """Return the switches that cards are joined by, and a link for each two devices that NVLinks join.

    A link's bandwidth is that of all NVLinks between the two, in one direction. Each card tells of a link,
    so those of two cards are counted where the first of them does. Links to what is not a device of this
    host, as a card that this process may not see, are left out; `nvlink_facts` counts them.

    Args:
        cards: address on the PCI bus -> NVLinks, in the order of the cards' ordinals.
    """
    names = {bus: f"gpu{place}" for place, bus in enumerate(cards)}
    buses = sorted({one.bus for links in cards.values() for one in links if one.peer == _SWITCH})
    switches = {bus: f"nvswitch{place}" for place, bus in enumerate(buses)}
    joined: dict[tuple[str, str], list[NvLink]] = {}
    for place, (bus, nvlinks) in enumerate(cards.items()):
        later = set(list(cards)[place + 1 :])
        for one in nvlinks:
            if one.peer == _SWITCH:
                joined.setdefault((names[bus], switches[one.bus]), []).append(one)
            elif one.peer in (_GPU, "") and one.bus in later:
                joined.setdefault((names[bus], names[one.bus]), []).append(one)
    nodes = [_switch(name, bus) for bus, name in switches.items()]
    return nodes, [Link(*ends, "nvlink", _bandwidth(links)) for ends, links in joined.items()]


def nvlink_facts(nvlinks: Sequence[NvLink]) -> dict[str, Fact]:
    """Return how many NVLinks a card has, of which version, and to what, for people."""
    if not nvlinks:
        return {}
    versions = sorted({one.version for one in nvlinks if one.version})
    peers = Counter(one.peer or "unknown" for one in nvlinks)
    told = ", ".join(f"{count} to {peer}" for peer, count in sorted(peers.items()))
    return {"nvlinks": told, **({"nvlink version": ", ".join(versions)} if versions else {})}


def _switch(name: str, bus: str) -> Node:
    return Node(name, _SWITCH, "NVSwitch", facts={"bus": bus} if bus else {})


def _bandwidth(links: Iterable[NvLink]) -> int | None:
    speeds = [one.bandwidth for one in links]
    return None if None in speeds else sum(speed for speed in speeds if speed)
