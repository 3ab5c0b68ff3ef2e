"""A system's YAML: read, written, and refused with the place of the mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from pasta.errors import ConfigError
from pasta.system import text
from pasta.system.graph import Entity, Link, Node, System
from pasta.system.text import read_system, system_text

EXAMPLE = System(
    (
        Entity(
            "head",
            cores=(2, 3),
            collector_cores=(0,),
            nodes=(
                Node("cpu0", "cpu", cores=(0, 1, 2, 3), memory=1 << 36, collectors="torch"),
                Node("gpu0", "gpu", "H100", device=0, facts={"uuid": "x", "watts": 700.5}),
                Node("eth0", "nic"),
            ),
            links=(Link("cpu0", "gpu0", "pcie", 64 * 10**9),),
        ),
        Entity(
            "far",
            launch=("ssh", "-p", "22", "a b"),
            pasta=("python3", "-m", "pasta"),
            command=("./x", "two words"),
            nodes=(Node("eth0", "nic"),),
        ),
    ),
    (Link("head/eth0", "far/eth0", "network"),),
)


def written(tmp_path: Path, document: str) -> Path:
    file = tmp_path / "system.yaml"
    file.write_text(document)
    return file


def test_what_is_written_is_read_back(tmp_path):
    assert read_system(written(tmp_path, system_text(EXAMPLE))) == EXAMPLE


def test_the_example_of_the_module_is_a_system(tmp_path):
    document = (text.__doc__ or "").partition("\n\n")[2]
    system = read_system(written(tmp_path, document))
    head = system.entities[0]
    assert head.collectors == ["torch", "cuda"]
    assert (head.nodes[1].memory, head.links[0].bandwidth) == (80 * 10**9, 64 * 10**9)


def test_links_of_all_hosts_name_them():
    assert [(link.source, link.target) for link in EXAMPLE.all_links()] == [
        ("head/cpu0", "head/gpu0"),
        ("head/eth0", "far/eth0"),
    ]


HEAD = "version: 1\nentities:\n"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("version: 2\nentities: {a: {}}", "version: must be 1, got 2"),
        ("version: true\nentities: {a: {}}", "version: must be 1, got True"),
        ("version: 1\nentities: {}", "entities: expected 1 to 10,000, got 0"),
        (HEAD + "  a b: {}", "entities: expected a name such as gpu0, got 'a b'"),
        (HEAD + "  ../a: {}", "entities: expected a name such as gpu0, got '../a'"),
        (HEAD + "  a: {laumch: x}", "entities.a: no such key as 'laumch'. Did you mean 'launch'?"),
        (HEAD + '  a: {launch: "ssh \'x"}', "entities.a.launch: no command line"),
        (HEAD + "  a: {cores: 3-1}", "entities.a.cores: expected cores"),
        (HEAD + "  a: {nodes: {g: {}}}", "entities.a.nodes.g: needs the key 'kind'"),
        (HEAD + "  a: {nodes: {g: {kind: gpu, with: tortch}}}", "entities.a.nodes.g.with: "),
        (HEAD + "  a: {nodes: {g: {kind: gpu, facts: {x: [1]}}}}", "entities.a.nodes.g.facts.x: "),
        (
            HEAD + "  a: {nodes: {g: {kind: gpu}}, links: [{from: g, to: h}]}",
            "entities.a.links[0].to: no node 'h'.",
        ),
        (
            HEAD + "  a: {nodes: {g: {kind: gpu}}}\nlinks: [{from: g, to: a/g}]",
            "links[0].from: no node 'g'. Known: a/g.",
        ),
    ],
)
def test_mistakes_are_told_with_their_place(tmp_path, document, message):
    with pytest.raises(ConfigError) as caught:
        read_system(written(tmp_path, document))
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "system.yaml"))
