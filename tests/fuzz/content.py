"""What is fuzzed: a file or a folder of files, each of a known kind of container."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from .mutators import mutate

_MAGICS = {
    b"SQLite format 3": "sqlite",
    b"PAR1": "arrow",
    b"ARROW1": "arrow",
    b"\xff\xff\xff\xff": "arrow",
    b"\x80": "pickle",
}


@dataclass(frozen=True)
class Content:
    """One input.

    Attributes:
        files: by path within the folder; a single one is no folder.
        kind: the container of files whose first bytes do not tell it.
        folder: whether the files are imported as a folder.
    """

    files: dict[str, bytes]
    kind: str = ""
    folder: bool = False

    def put(self, place: Path) -> Path:
        """Write the input below `place`, and return the path to import."""
        root = place / "folder" if self.folder else place
        for name, data in self.files.items():
            file = root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        return root if self.folder else file

    def changed(self, random: Random) -> Content:
        """Return the input with one of its files changed, or missing."""
        files = dict(self.files)
        name = random.choice(sorted(files))
        if self.folder and random.random() < 0.1:
            other = random.choice([*sorted(files), f"sub/{name}", f"{name}.1", "process_1.parquet"])
            data = files.pop(name)
            if random.random() < 0.7 or not files:
                files[other] = data
        else:
            files[name] = mutate(self.kind or kind_of(files[name]), files[name], random)
        return replace(self, files=files)


def one_file(data: bytes | str, kind: str = "", name: str = "trace") -> Content:
    """Return an input of a single file."""
    return Content({name: data.encode() if isinstance(data, str) else data}, kind)


def kind_of(data: bytes) -> str:
    """Return the kind of container that the first bytes tell; text is `lines`."""
    for magic, kind in _MAGICS.items():
        if data.startswith(magic):
            return kind
    if data.lstrip()[:1] in (b"{", b"["):
        try:
            json.loads(data)
        except ValueError:
            return "json lines"
        return "json"
    return "bytes" if b"\0" in data[:1000] else "lines"
