"""The tool `system` on a graph of two hosts, written by hand."""

from __future__ import annotations

import pasta
from pasta.system.assemble import node_rows
from pasta.system.graph import Entity, Link, Node, System
from pasta.testing import write_trace

SYSTEM = System(
    (
        Entity(
            "head",
            nodes=(
                Node("cpu0", "cpu", cores=(0, 1, 2), memory=64),
                Node("gpu0", "gpu", "H100", device=0, memory=80, collectors="cuda,nvml"),
            ),
            links=(Link("cpu0", "gpu0", "pcie", 63),),
        ),
        Entity("far", nodes=(Node("cpu0", "cpu", cores=(7,)), Node("eth0", "nic"))),
    ),
    (Link("far/eth0", "head/cpu0", "network"),),
)


def answer(tmp_path):
    rows = [row for name in ("head", "far") for row in node_rows(SYSTEM, name, 0).to_pylist()]
    return pasta.run("system", trace=write_trace(tmp_path / "t", node=rows))


def test_hosts_have_the_sums_of_their_devices(tmp_path):
    report = answer(tmp_path)
    columns = ["entity", "cores", "accelerators", "host_memory_bytes", "device_memory_bytes"]
    assert report.tables["hosts"].select(columns).rows() == [
        ("far", 1, 0, None, None),
        ("head", 3, 1, 64, 80),
    ]
    assert report.findings == ["the run of t was on 2 hosts with 4 cores and 1 accelerator"]


def test_every_device_names_what_it_is_linked_with(tmp_path):
    shown = answer(tmp_path).tables["shown"]
    assert shown.select("name", "links", "link_kinds", "link_bandwidths").rows() == [
        ("far/cpu0", [], [], []),
        ("far/eth0", ["head/cpu0"], ["network"], [0]),
        ("head/cpu0", ["head/gpu0", "far/eth0"], ["pcie", "network"], [63, 0]),
        ("head/gpu0", ["head/cpu0"], ["pcie"], [63]),
    ]
    assert shown["collectors"].to_list()[-1] == ["cuda", "nvml"]
