"""The system as a graph: entities (hosts), their nodes (processors, accelerators, networks) and links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

Fact = str | int | float | bool


@dataclass(frozen=True)
class Node:
    """A device of a host.

    Attributes:
        name: unique in its entity, as `gpu0`.
        kind: `cpu`, `gpu`, `nic` or another.
        model: what its maker calls it; empty: unknown.
        device: the ordinal by which `device` in a trace's tables means it; `None`: it has none.
        cores: the host's cores that it has, of a `cpu`.
        memory: bytes of its own memory; `None`: unknown or none.
        collectors: what watches it, as `--with` takes it; empty: nothing.
        facts: whatever else is known of it.
    """

    name: str
    kind: str
    model: str = ""
    device: int | None = None
    cores: tuple[int, ...] = ()
    memory: int | None = None
    collectors: str = ""
    facts: Mapping[str, Fact] = field(default_factory=dict)


@dataclass(frozen=True)
class Link:
    """A connection of two nodes, both ways.

    Attributes:
        source: a node; of a system's links `entity/node`.
        target: the other.
        kind: `pcie`, `network` or another; empty: unknown.
        bandwidth: bytes per second in each direction; `None`: unknown.
    """

    source: str
    target: str
    kind: str = ""
    bandwidth: int | None = None


@dataclass(frozen=True)
class Entity:
    """A host.

    Attributes:
        name: unique in the system.
        launch: what starts a command there, as `ssh worker`; empty: it is this host.
        pasta: what pasta is called there.
        command: what runs there in place of the command that is given; empty: that one.
        cores: those that the program may use; empty: all.
        collector_cores: those set apart for collection; empty: all.
        nodes: its devices.
        links: between them.
    """

    name: str
    launch: tuple[str, ...] = ()
    pasta: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    cores: tuple[int, ...] = ()
    collector_cores: tuple[int, ...] = ()
    nodes: tuple[Node, ...] = ()
    links: tuple[Link, ...] = ()

    @property
    def collectors(self) -> list[str]:
        """What watches its nodes, each once, in the order in which they are named."""
        named = [name for node in self.nodes for name in node.collectors.split(",") if name]
        return list(dict.fromkeys(named))


@dataclass(frozen=True)
class System:
    """Hosts and what links them.

    Attributes:
        entities: the hosts.
        links: between nodes of different hosts.
    """

    entities: tuple[Entity, ...]
    links: tuple[Link, ...] = ()

    def all_links(self) -> Iterator[Link]:
        """Yield every link, its ends as `entity/node`."""
        for entity in self.entities:
            for link in entity.links:
                source, target = f"{entity.name}/{link.source}", f"{entity.name}/{link.target}"
                yield Link(source, target, link.kind, link.bandwidth)
        yield from self.links
