"""The graph of a machine, from a file system made by hand."""

from __future__ import annotations

from pathlib import Path

from pasta.system.graph import Link, System
from pasta.system.local import Card, local_entity
from pasta.system.text import read_system, system_text

CARDS = [Card("NVIDIA H100", "GPU-1", "0000:17:00.0", 80 << 30)]


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content + "\n")
    return root


TWO_SOCKETS = {
    "proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC 9654\n",
    "sys/devices/system/node/node0/cpulist": "0-3",
    "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:       1000 kB",
    "sys/devices/system/node/node1/cpulist": "4-7",
    "sys/devices/system/node/node1/meminfo": "Node 1 MemTotal:       2000 kB",
    "sys/devices/system/node/node2/cpulist": "",
    "sys/bus/pci/devices/0000:17:00.0/vendor": "0x10de",
    "sys/bus/pci/devices/0000:17:00.0/class": "0x030200",
    "sys/bus/pci/devices/0000:17:00.0/numa_node": "1",
    "sys/bus/pci/devices/0000:17:00.0/current_link_speed": "32.0 GT/s PCIe",
    "sys/bus/pci/devices/0000:17:00.0/current_link_width": "16",
    "sys/bus/pci/devices/0000:31:00.0/vendor": "0x1002",
    "sys/bus/pci/devices/0000:31:00.0/class": "0x120000",
    "sys/bus/pci/devices/0000:31:00.0/device": "0x74a1",
    "sys/bus/pci/devices/0000:31:00.0/numa_node": "-1",
    "sys/bus/pci/devices/0000:00:1f.0/vendor": "0x8086",
    "sys/bus/pci/devices/0000:00:1f.0/class": "0x060100",
    "sys/class/net/eth0/type": "1",
    "sys/class/net/eth0/operstate": "up",
    "sys/class/net/eth0/speed": "100000",
    "sys/class/net/eth0/device/numa_node": "0",
    "sys/class/net/lo/type": "772",
    "sys/class/net/lo/operstate": "unknown",
    "sys/class/net/dummy0/type": "1",
    "sys/class/net/dummy0/operstate": "down",
}


def test_processors_accelerators_and_networks_with_their_links(tmp_path):
    entity = local_entity(machine(tmp_path, TWO_SOCKETS), CARDS)
    nodes = {node.name: node for node in entity.nodes}
    assert list(nodes) == ["cpu0", "cpu1", "gpu0", "gpu1", "eth0"]
    assert (nodes["cpu1"].cores, nodes["cpu1"].memory) == ((4, 5, 6, 7), 2000 << 10)
    assert nodes["cpu0"].model == "AMD EPYC 9654"
    assert (nodes["gpu0"].model, nodes["gpu0"].device) == ("NVIDIA H100", 0)
    assert (nodes["gpu1"].model, nodes["gpu1"].device) == ("amd 0x74a1", None)
    assert nodes["eth0"].facts == {"state": "up", "bytes per second": 12_500_000_000}
    lane = 32e9 / 8 * 128 / 130
    assert set(entity.links) == {
        Link("cpu0", "cpu1", "numa"),
        Link("cpu1", "gpu0", "pcie", int(lane) * 16),
        Link("cpu0", "eth0"),
    }


def test_one_processor_where_linux_tells_of_no_numa_nodes(tmp_path):
    files = {
        "sys/devices/system/cpu/online": "0-1",
        "proc/meminfo": "MemTotal:        500 kB\nMemFree: 1 kB",
    }
    [node] = local_entity(machine(tmp_path, files), []).nodes
    assert (node.name, node.cores, node.memory) == ("cpu0", (0, 1), 500 << 10)


def test_a_machine_that_tells_nothing_has_one_processor(tmp_path):
    [node] = local_entity(tmp_path, []).nodes
    assert (node.kind, node.cores, node.memory) == ("cpu", (), None)


def test_this_machine_is_a_system_that_can_be_read_back(tmp_path):
    system = System((local_entity(),))
    file = tmp_path / "system.yaml"
    file.write_text(system_text(system))
    assert read_system(file) == system
