"""The graph of this machine, read from Linux's sysfs and, where there are NVIDIA's cards, from NVML."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pasta.collect.nvml.library import Library, NvLink, NvmlError
from pasta.errors import ConfigError
from pasta.system.cores import read_cores
from pasta.system.graph import Entity, Fact, Link, Node
from pasta.system.nvlinks import joined_by_nvlink, nvlink_facts

_DISPLAY, _ACCELERATOR = "0x03", "0x12"
_VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel"}
_GPU_VENDORS = {"0x10de", "0x1002"}
_ETHERNET, _INFINIBAND = 1, 32
_LANE_BYTES = {
    "2.5": 250_000_000,
    "5.0": 500_000_000,
    "8.0": 984_615_384,
    "16.0": 1_969_230_769,
    "32.0": 3_938_461_538,
    "64.0": 7_563_025_210,
}
"""Speed of a PCIe lane in GT/s -> its bytes per second after coding (8b/10b, 128b/130b, 242b/256b of flits)."""


@dataclass(frozen=True)
class Card:
    """A card of NVIDIA's, as NVML tells of it; `memory` in bytes, `None` where it does not say."""

    name: str
    uuid: str
    bus: str
    memory: int | None
    nvlinks: Sequence[NvLink] = ()


@dataclass(frozen=True)
class _Gpu:
    node: Node
    bus: str


def local_entity(root: Path = Path("/"), cards: Sequence[Card] | None = None) -> Entity:
    """Return this host with its processors, accelerators, networks and how they are linked.

    Args:
        root: the file system; `sys` and `proc` are read below it.
        cards: NVIDIA's cards in their order; `None`: NVML is asked.
    """
    processors = _processors(root)
    cards = nvidia_cards() if cards is None else cards
    gpus = _gpus(root, cards)
    networks = _networks(root)
    links = [*_between(processors)]
    for gpu in gpus:
        links += _to_processor(root / "sys/bus/pci/devices" / gpu.bus, gpu.node.name, processors)
    for network in networks:
        links += _to_processor(
            root / "sys/class/net" / network.name / "device", network.name, processors
        )
    switches, nvlinks = joined_by_nvlink({card.bus: card.nvlinks for card in cards})
    links += nvlinks
    nodes = (*processors.values(), *(gpu.node for gpu in gpus), *switches, *networks)
    return Entity(socket.gethostname(), nodes=nodes, links=tuple(links))


def nvidia_cards() -> list[Card]:
    """Return NVIDIA's cards; none where NVML cannot be loaded or finds no driver."""
    try:
        cards = Library().cards()
    except (OSError, NvmlError):
        return []
    return [
        Card(card.name, card.uuid, card.bus, card.memory_bytes(), card.nvlinks()) for card in cards
    ]


def _processors(root: Path) -> dict[int, Node]:
    """Return a node for each NUMA node that has processors; one of all where Linux tells none."""
    model = _processor_model(root)
    found: dict[int, Node] = {}
    for folder in sorted(root.glob("sys/devices/system/node/node[0-9]*"), key=_number):
        cores = _cores(_text(folder / "cpulist"))
        if cores:
            number, place = _number(folder), len(found)
            memory = _memory(_text(folder / "meminfo"))
            found[number] = Node(f"cpu{place}", "cpu", model, cores=cores, memory=memory)
    if not found:
        cores = _cores(_text(root / "sys/devices/system/cpu/online"))
        memory = _memory(_text(root / "proc/meminfo"))
        found[0] = Node("cpu0", "cpu", model, cores=cores, memory=memory)
    return found


def _processor_model(root: Path) -> str:
    named = re.search(r"^model name\s*:\s*(.+)$", _text(root / "proc/cpuinfo"), re.MULTILINE)
    return named[1].strip() if named else ""


def _gpus(root: Path, cards: Sequence[Card]) -> list[_Gpu]:
    """Return NVML's cards, with their ordinals, and accelerators that only the PCI bus tells of."""
    found = [
        _Gpu(
            Node(
                f"gpu{place}",
                "gpu",
                card.name,
                device=place,
                memory=card.memory,
                facts={"uuid": card.uuid, "bus": card.bus, **nvlink_facts(card.nvlinks)},
            ),
            card.bus,
        )
        for place, card in enumerate(cards)
    ]
    known = {gpu.bus for gpu in found}
    for device in sorted(root.glob("sys/bus/pci/devices/*")):
        vendor, kind = _text(device / "vendor"), _text(device / "class")
        if device.name in known or vendor not in _GPU_VENDORS:
            continue
        if kind.startswith((_DISPLAY, _ACCELERATOR)):
            model = f"{_VENDORS[vendor]} {_text(device / 'device')}"
            facts: dict[str, Fact] = {"bus": device.name}
            found.append(_Gpu(Node(f"gpu{len(found)}", "gpu", model, facts=facts), device.name))
    return found


def _networks(root: Path) -> list[Node]:
    """Return the interfaces of Ethernet and InfiniBand that are up or belong to a device."""
    found = []
    for folder in sorted(root.glob("sys/class/net/*")):
        kind = _text(folder / "type")
        is_network = kind in (str(_ETHERNET), str(_INFINIBAND))
        up = _text(folder / "operstate") == "up"
        if not is_network or not (up or (folder / "device").exists()):
            continue
        facts: dict[str, Fact] = {"state": _text(folder / "operstate")}
        speed = _text(folder / "speed")
        if speed.isdecimal():
            facts["bytes per second"] = int(speed) * 125_000
        found.append(Node(folder.name, "nic", facts=facts))
    return found


def _between(processors: Mapping[int, Node]) -> Iterator[Link]:
    """Yield a link of each two NUMA nodes."""
    nodes = list(processors.values())
    for place, node in enumerate(nodes):
        for other in nodes[place + 1 :]:
            yield Link(node.name, other.name, "numa")


def _to_processor(device: Path, name: str, processors: Mapping[int, Node]) -> Iterator[Link]:
    """Yield the link of a device to the processor that it is next to, as far as Linux tells."""
    near = _text(device / "numa_node")
    number = int(near) if near.isdecimal() else None
    if len(processors) == 1:
        number = next(iter(processors))
    processor = processors.get(-1 if number is None else number)
    if processor is None or not device.exists():
        return
    lanes = _text(device / "current_link_width")
    lane = _LANE_BYTES.get(_text(device / "current_link_speed").partition(" ")[0])
    bandwidth = lane * int(lanes) if lane and lanes.isdecimal() else None
    yield Link(processor.name, name, "pcie" if bandwidth else "", bandwidth)


def _text(file: Path) -> str:
    """Return what a file of sysfs says; empty where it does not say."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _cores(text: str) -> tuple[int, ...]:
    try:
        return read_cores(text, "")
    except ConfigError:
        return ()


def _memory(text: str) -> int | None:
    total = re.search(r"MemTotal:\s+(\d+) kB", text)
    return int(total[1]) * 1024 if total else None


def _number(folder: Path) -> int:
    return int(re.sub(r"\D", "", folder.name) or 0)
