"""Importer of Chrome's trace format: what many recorders write and Perfetto shows."""

from __future__ import annotations

from typing import Any

import polars as pl

from pasta.collect.containers.json_events import BLOCK_BYTES, EventReader
from pasta.collect.importer import Imported, importer
from pasta.collect.importers.chrome_json.events import decode_events
from pasta.collect.importers.chrome_json.origin import append_origin
from pasta.collect.importers.chrome_json.reading import Reading
from pasta.collect.losses import Losses
from pasta.collect.shaping.decimal_time import LIMIT
from pasta.collect.shaping.open_spans import BegunParents
from pasta.collect.sources import Source
from pasta.schema import TABLES
from pasta.trace_merge import Transform
from pasta.trace_writer import PartWriter

_BLANK = b" \t\r\n\xef\xbb\xbf"
_BASE = "baseTimeNanoseconds"
_TIMES = ("ts", "started", "ended")


@importer("chrome_json")
class ChromeJson:
    """Reads a file of any number of processes; what PyTorch's profiler writes goes to Kineto's."""

    format = "Chrome trace (JSON)"
    version = 2
    general = True

    def recognises(self, source: Source) -> bool:
        """Tell whether a file starts as a JSON object or array."""
        return source.head.lstrip(_BLANK)[:1] in (b"{", b"[")

    def read(self, source: Source, part: PartWriter, losses: Losses) -> Imported:
        """Append the events of `source`."""
        reader = EventReader(
            source.chunks, decode_events, losses, source.damage, block_bytes=BLOCK_BYTES
        )
        reading = Reading(part, losses)
        for events in reader:
            reading.take(events)
        reading.finish()
        if cut := reader.cut:
            losses.fault(f"{cut}, {reader.kept} events kept", where=cut.rpartition(" at ")[2])
        base = _base(reader.metadata)
        pid, owner = append_origin(reading, part)
        return Imported(pid=pid, transforms=_transforms(base, owner, losses), shift_ns=base)


def _base(metadata: dict[str, Any]) -> int:
    """Return what is added to times so that they count from 1970, where the recorder says."""
    found = metadata.get("viztracer_metadata")
    for known in (metadata, found if isinstance(found, dict) else {}):
        base = known.get(_BASE)
        if type(base) is int and abs(base) < LIMIT:
            return base
    return 0


def _transforms(base: int, owner: int | None, losses: Losses) -> dict[str, Transform]:
    """Return what shifts times, gives device rows their process, and spans their parents."""
    parents = BegunParents(losses)

    def shifted(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(pl.col(name) + base for name in _TIMES if name in frame.columns)

    def owned(frame: pl.DataFrame) -> pl.DataFrame:
        if owner is None:
            return shifted(frame)
        return shifted(frame).with_columns(pl.lit(owner, pl.Int64).alias("pid"))

    changed: dict[str, Transform] = dict.fromkeys(TABLES, shifted)
    changed["span"] = lambda frame: shifted(parents.add(frame))
    changed["kernel"] = changed["copy"] = owned
    return changed
