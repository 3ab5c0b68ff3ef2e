"""Every importer with the small files that fuzzed ones are made from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random

from pasta.collect.importer import IMPORTERS, Importer
from pasta.collect.importers.kineto import halves
from pasta.collect.importing import import_trace

from .content import Content, one_file
from .decoders import decoders
from .judge import Judge
from .seeds import SEEDS
from .seeds.pytorch import execution_twin
from .seeds.tables import mapped, tables

TWINS = {"torch_execution": execution_twin()}
_SPLICED = 0.05


@dataclass
class Target:
    """One importer to be fuzzed.

    Attributes:
        name: the importer's name.
        importer: reads the inputs.
        seeds: valid inputs, tiny so that reading is fast.
        twin: the file that the inputs complete, for an importer that completes others.
    """

    name: str
    importer: Importer
    seeds: list[Content]
    twin: bytes | None = None

    def judge(self, folder: Path) -> Judge:
        """Return a judge that works below `folder`, which is there."""
        twin = None
        if self.twin is not None:
            (folder / "twin.json").write_bytes(self.twin)
            twin = folder / "judge" / "twin"
            import_trace([folder / "twin.json"], twin)
        return Judge(folder / "judge", twin=twin)

    def make(self, random: Random) -> Content:
        """Return an input, which follows from the generator alone."""
        seed = random.choice(self.seeds)
        content = seed.changed(random)
        if random.random() < _SPLICED:
            content = _spliced(content, random.choice(self.seeds), random)
        return content

    def add_corpus(self, folder: Path) -> None:
        """Take the files that a run guided by coverage has found as more seeds."""
        kind = self.seeds[0].kind
        found = sorted(file for file in folder.glob("*") if file.is_file())
        self.seeds.extend(one_file(file.read_bytes(), kind) for file in found)


def targets() -> dict[str, Target]:
    """Return the targets by name: importers that have seeds, maps of tables, readers of containers.

    No importer reads a file by two processes from here on, whatever size a gzip trailer claims.
    """
    halves._SPLIT_BYTES = 1 << 62
    found = [
        Target(name, IMPORTERS.get(name), SEEDS[name](), TWINS.get(name))
        for name in IMPORTERS
        if name in SEEDS
    ]
    found += [Target(name, importer, tables()) for name, importer in mapped()]
    found += [Target(name, decoder, seeds) for name, decoder, seeds in decoders()]
    return {target.name: target for target in found}


def _spliced(one: Content, other: Content, random: Random) -> Content:
    """Return the start of one file followed by the end of another."""
    if one.folder or other.folder:
        return one
    [(name, left)], [right] = one.files.items(), other.files.values()
    at, behind = random.randrange(len(left) + 1), random.randrange(len(right) + 1)
    return Content({name: left[:at] + right[behind:]}, one.kind)
