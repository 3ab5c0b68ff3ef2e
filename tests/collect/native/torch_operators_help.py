"""Training programs for the tests of the native hook, and what reads their rows."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from pasta.collect.channel import Channel
from pasta.collect.target import session
from pasta.collect.wire import TEXT, TEXTS, WIRE_TABLES, Decoder

ROOT = Path(__file__).parents[3]

# Loads the collector as a program without pasta does: by its path.
LOAD = f"""
import importlib.util, os, sys, threading, time
import torch
path = {str(Path(session.__file__).parent)!r}
spec = importlib.util.spec_from_file_location(
    "pasta_target", f"{{path}}/__init__.py", submodule_search_locations=[path])
sys.modules["pasta_target"] = importlib.util.module_from_spec(spec)
from pasta_target.torch import native
operators, reason = native.load()
assert operators, reason
folder = sys.argv[1]
"""


class Rows:
    """What a channel brought, as rows of the trace's tables."""

    def __init__(self) -> None:
        self.tables: dict[str, list[dict[str, Any]]] = {"span": [], "memory": []}
        self.rings: set[str] = set()
        self.unknown = 0
        self._decoders: dict[str, Decoder] = {}

    def read(self, channel: Channel) -> Rows:
        """Take what waits in `channel`."""
        while (batch := channel.poll()) is not None:
            with batch:
                self.rings.add(batch.ring)
                producer = batch.producer
                decoder = self._decoders.setdefault(batch.ring, Decoder(producer))
                if batch.table in (TEXT, TEXTS):
                    decoder.learn(batch.table, batch.rows)
                else:
                    rows: pa.Table = decoder.rows(batch.table, batch.rows)
                    self.tables[batch.table] += rows.to_pylist()
        self.unknown = sum(decoder.unknown for decoder in self._decoders.values())
        return self

    @property
    def spans(self) -> list[dict[str, Any]]:
        """The rows of `span`, in the order in which they ended on each thread."""
        return self.tables["span"]

    @property
    def memory(self) -> list[dict[str, Any]]:
        """The rows of `memory`."""
        return self.tables["memory"]

    def names(self, level: str = "operator") -> Counter[str]:
        """How often each name occurs at a level."""
        return Counter(row["name"] for row in self.spans if row["level"] == level)


def make_channel(name: str, **options: Any) -> Channel:
    """A channel with the tables that programs write."""
    return Channel.create(f"operators-{name}", tables=WIRE_TABLES, **options)


def environment() -> dict[str, str]:
    """The environment of a program that runs `LOAD`."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}
