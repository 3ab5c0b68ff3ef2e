"""Cards joined by NVLink, as a stand-in for NVML tells of them, and as written by hand."""

from __future__ import annotations

import pytest

from pasta.collect.nvml.library import Library, NvLink
from pasta.system.graph import Link, System
from pasta.system.local import Card, local_entity
from pasta.system.nvlinks import joined_by_nvlink, nvlink_facts
from pasta.system.text import read_system, system_text
from tests.collect.nvml.stand_in import compiled

SPEED = 26_562 * 10**6


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return Library(str(compiled(tmp_path_factory.mktemp("nvml"))))


def entity(library, root):
    cards = [Card(card.name, "", card.bus, None, card.nvlinks()) for card in library.cards()]
    return local_entity(root, cards)


def of_nvlink(entity) -> list[Link]:
    return [link for link in entity.links if link.kind == "nvlink"]


def test_links_of_two_cards_are_counted_once(library, tmp_path, monkeypatch):
    monkeypatch.setenv("STAND_IN_NVLINK", "cards")
    found = entity(library, tmp_path)
    assert of_nvlink(found) == [Link("gpu0", "gpu1", "nvlink", 2 * SPEED)]
    facts = {node.name: node.facts for node in found.nodes}
    assert facts["gpu1"]["nvlinks"] == "2 to gpu"
    assert facts["gpu1"]["nvlink version"] == "4.0"


def test_switches_are_devices(library, tmp_path, monkeypatch):
    monkeypatch.setenv("STAND_IN_NVLINK", "switches")
    found = entity(library, tmp_path)
    switches = [(node.name, node.facts["bus"]) for node in found.nodes if node.kind == "switch"]
    assert switches == [("nvswitch0", "0000:c0:00.0"), ("nvswitch1", "0000:c2:00.0")]
    assert of_nvlink(found) == [
        Link(gpu, switch, "nvlink", SPEED)
        for gpu in ("gpu0", "gpu1")
        for switch in ("nvswitch0", "nvswitch1")
    ]
    (tmp_path / "system.yaml").write_text(system_text(System((found,))))
    assert read_system(tmp_path / "system.yaml") == System((found,))


def test_cards_without_nvlink_have_none(library, tmp_path):
    found = entity(library, tmp_path)
    assert of_nvlink(found) == []
    assert all("nvlinks" not in node.facts for node in found.nodes)


def test_what_is_not_known_is_not_told():
    unseen = NvLink("gpu", "0000:ff:00.0", "", None)
    untold = NvLink("", "0000:a1:00.0", "5.0", None)
    nodes, links = joined_by_nvlink({"0000:a0:00.0": [unseen, untold], "0000:a1:00.0": []})
    assert (nodes, links) == ([], [Link("gpu0", "gpu1", "nvlink", None)])
    assert nvlink_facts([unseen, untold]) == {
        "nvlinks": "1 to gpu, 1 to unknown",
        "nvlink version": "5.0",
    }
