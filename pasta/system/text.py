"""A system's YAML: reading it with the place of every mistake, and writing it.

version: 1
entities:
  head:
    cores: 2-7
    collector_cores: 0-1
    nodes:
      cpu0: {kind: cpu, cores: 0-7, with: torch}
      gpu0: {kind: gpu, model: H100, device: 0, memory: 80GB, with: cuda}
      eth0: {kind: nic}
    links: [{from: cpu0, to: gpu0, kind: pcie, bandwidth: 64GB}]
  worker: {launch: ssh worker, nodes: {eth0: {kind: nic}}}
links: [{from: head/eth0, to: worker/eth0, kind: network}]
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from pasta.collect.collectors import parse_with
from pasta.errors import CollectError, ConfigError, did_you_mean, shown
from pasta.pipeline.arguments import Bytes, coerce
from pasta.system.cores import cores_text, read_cores
from pasta.system.graph import Entity, Fact, Link, Node, System
from pasta.yaml_text import read_document

MOST_ENTITIES = 10_000
_SYSTEM = ("version", "entities", "links")
_ENTITY = ("launch", "pasta", "command", "cores", "collector_cores", "nodes", "links")
_NODE = ("kind", "model", "device", "cores", "memory", "with", "facts")
_LINK = ("from", "to", "kind", "bandwidth")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}")


def read_system(path: Path) -> System:
    """Read a system.

    Raises:
        ConfigError: the file is absent, not YAML, or says what no system can be; with the place.
    """
    return read_document(path, _system)


def system_text(system: System) -> str:
    """Return a system as YAML that `read_system` reads back."""
    document = {
        "version": 1,
        "entities": {entity.name: entity_document(entity) for entity in system.entities},
        **({"links": [_link_document(link) for link in system.links]} if system.links else {}),
    }
    return yaml.safe_dump(document, sort_keys=False, width=100, allow_unicode=True)


def read_entity(name: str, document: Any) -> Entity:
    """Return an entity of what another host says of itself.

    Raises:
        ConfigError: it is none.
    """
    return _entity(name, document, "")


def entity_document(entity: Entity) -> dict[str, Any]:
    """Return an entity as the YAML has it below its name."""
    words = {"launch": entity.launch, "pasta": entity.pasta, "command": entity.command}
    cores = {"cores": entity.cores, "collector_cores": entity.collector_cores}
    links = [_link_document(link) for link in entity.links]
    return {
        **{key: shlex.join(value) for key, value in words.items() if value},
        **{key: cores_text(value) for key, value in cores.items() if value},
        "nodes": {node.name: _node_document(node) for node in entity.nodes},
        **({"links": links} if links else {}),
    }


def _system(document: Any) -> System:
    top = _keys(document, _SYSTEM, "")
    if type(top.get("version")) is not int or top["version"] != 1:
        raise ConfigError("version", f"must be 1, got {shown(top.get('version'))}")
    given = coerce(top.get("entities"), dict[str, Any], "entities", {})
    if not 1 <= len(given) <= MOST_ENTITIES:
        raise ConfigError("entities", f"expected 1 to {MOST_ENTITIES:,}, got {len(given)}")
    entities = tuple(_entity(name, each, "entities") for name, each in given.items())
    ends = {f"{entity.name}/{node.name}" for entity in entities for node in entity.nodes}
    return System(entities, _links(top.get("links", []), ends, "links"))


def _entity(name: Any, document: Any, path: str) -> Entity:
    path = f"{path}.{_named(name, path)}"
    given = _keys(document or {}, _ENTITY, path)
    nodes = coerce(given.get("nodes", {}), dict[str, Any], f"{path}.nodes", {})
    found = tuple(_node(each, what, f"{path}.nodes") for each, what in nodes.items())
    names = {node.name for node in found}
    return Entity(
        name=name,
        launch=_words(given, "launch", path),
        pasta=_words(given, "pasta", path),
        command=_words(given, "command", path),
        cores=_cores(given, "cores", path),
        collector_cores=_cores(given, "collector_cores", path),
        nodes=found,
        links=_links(given.get("links", []), names, f"{path}.links"),
    )


def _node(name: Any, document: Any, path: str) -> Node:
    path = f"{path}.{_named(name, path)}"
    given = _keys(document, _NODE, path)
    if "kind" not in given:
        raise ConfigError(path, "needs the key 'kind', as cpu, gpu or nic")
    device, memory = given.get("device"), given.get("memory")
    return Node(
        name=name,
        kind=coerce(given["kind"], str, f"{path}.kind", {}),
        model=coerce(given.get("model", ""), str, f"{path}.model", {}),
        device=None if device is None else coerce(device, int, f"{path}.device", {}),
        cores=_cores(given, "cores", path),
        memory=None if memory is None else coerce(memory, Bytes, f"{path}.memory", {}),
        collectors=_collectors(given.get("with", ""), f"{path}.with"),
        facts=_facts(given.get("facts", {}), f"{path}.facts"),
    )


def _links(given: Any, ends: Collection[str], path: str) -> tuple[Link, ...]:
    found = []
    for index, document in enumerate(coerce(given, list[Any], path, {})):
        place = f"{path}[{index}]"
        link = _keys(document, _LINK, place)
        for key in ("from", "to"):
            if link.get(key) not in ends:
                known = did_you_mean(str(link.get(key)), ends)
                raise ConfigError(f"{place}.{key}", f"no node {shown(link.get(key))}.{known}")
        bandwidth = link.get("bandwidth")
        found.append(
            Link(
                link["from"],
                link["to"],
                coerce(link.get("kind", ""), str, f"{place}.kind", {}),
                None if bandwidth is None else coerce(bandwidth, Bytes, f"{place}.bandwidth", {}),
            )
        )
    return tuple(found)


def _keys(document: Any, known: Iterable[str], path: str) -> dict[str, Any]:
    found: dict[str, Any] = coerce(document, dict[str, Any], path or "the file", {})
    for key in found:
        if key not in known:
            raise ConfigError(path, f"no such key as {shown(key)}.{did_you_mean(str(key), known)}")
    return found


def _named(name: Any, path: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(path, f"expected a name such as gpu0, got {shown(name)}")
    return name


def _words(given: Mapping[str, Any], key: str, path: str) -> tuple[str, ...]:
    path = f"{path}.{key}"
    value = given.get(key, "")
    try:
        words = shlex.split(value) if isinstance(value, str) else coerce(value, list[str], path, {})
    except ValueError as error:
        raise ConfigError(path, f"no command line ({error})") from error
    if any("\0" in word for word in words):
        raise ConfigError(path, "an argument may not hold a null character")
    return tuple(words)


def _cores(given: Mapping[str, Any], key: str, path: str) -> tuple[int, ...]:
    value = given.get(key, "")
    text = str(value) if type(value) is int else coerce(value, str, f"{path}.{key}", {})
    return read_cores(text, f"{path}.{key}")


def _collectors(given: Any, path: str) -> str:
    text: str = coerce(given, str, path, {}).replace(" ", "")
    if text:
        try:
            parse_with([text])
        except CollectError as error:
            raise ConfigError(path, str(error).removeprefix("--with").lstrip(": ")) from error
    return text


def _facts(given: Any, path: str) -> dict[str, Fact]:
    found: dict[str, Fact] = coerce(given, dict[str, Any], path, {})
    for name, value in found.items():
        if not isinstance(value, Fact):
            raise ConfigError(f"{path}.{name}", f"expected a text or a number, got {shown(value)}")
    return found


def _node_document(node: Node) -> dict[str, Any]:
    given = {
        "model": node.model,
        "device": node.device,
        "cores": cores_text(node.cores),
        "memory": node.memory,
        "with": node.collectors,
        "facts": dict(node.facts),
    }
    kept = {key: value for key, value in given.items() if value not in (None, "", {})}
    return {"kind": node.kind, **kept}


def _link_document(link: Link) -> dict[str, Any]:
    given = {"kind": link.kind, "bandwidth": link.bandwidth}
    kept = {key: value for key, value in given.items() if value not in (None, "")}
    return {"from": link.source, "to": link.target, **kept}
