"""Importer of the ceilings that the CARM tool measures: bandwidths of caches and memory, and arithmetic."""

from __future__ import annotations

import csv
import math

from pasta.collect.containers.text_lines import TextLines
from pasta.collect.importer import Imported, importer
from pasta.collect.losses import Losses
from pasta.collect.shaping.rows import Rows
from pasta.collect.sources import Source
from pasta.errors import InputError
from pasta.trace_writer import PartWriter

_GIGA = 1e9
_CEILINGS = {9: "L1", 11: "L2", 13: "L3", 15: "DRAM", 17: "FP", 19: "FP_FMA"}
"""Field of a row -> what it is the ceiling of, in GB/s or Gflop/s; 0: not measured."""
_FIELDS = 20


@importer("carm_csv")
class CarmCsv:
    """Reads each ceiling of each row as a metric called `roof ISA PRECISION N threads: LEVEL`."""

    format = "CARM tool's rooflines (CSV)"
    version = 1
    general = False

    def recognises(self, source: Source) -> bool:
        """Tell whether the first line names a machine and the sizes of its caches."""
        first = source.head.lstrip(b"\xef\xbb\xbf").partition(b"\n")[0]
        return first.startswith(b"Name:,") and b",L1 Size:," in first

    def read(self, source: Source, part: PartWriter, losses: Losses) -> Imported:
        """Append a row for each ceiling; they are no matter of time.

        Raises:
            InputError: no row holds a ceiling.
        """
        rows = Rows(part, "metric", "pid", "name", "value", "unit")
        found = 0
        for number, text in enumerate(TextLines(source, losses)):
            if number < 2 or not text.strip():
                continue
            ceilings = _ceilings(text)
            if not ceilings:
                losses.fault("row without a ceiling: left out", where=repr(text[:60]))
            for name, value, unit in ceilings:
                rows.add(0, name, value, unit)
            found += len(ceilings)
        rows.flush()
        if not found:
            raise InputError(
                f"{source.name}: no row of the CARM tool holds a ceiling; run it again"
            )
        return Imported()


def _ceilings(text: str) -> list[tuple[str, float, str]]:
    """Return name, value and unit of each ceiling of a row."""
    fields = next(csv.reader([text]), [])
    if len(fields) < _FIELDS:
        return []
    _, isa, precision, threads = (field.strip()[:40] for field in fields[:4])
    of = f"roof {isa} {precision} {threads} threads"
    found = []
    for place, level in _CEILINGS.items():
        try:
            value = float(fields[place])
        except ValueError:
            continue
        if value > 0 and math.isfinite(value):
            unit = "flop/s" if level.startswith("FP") else "bytes/s"
            found.append((f"{of}: {level}", value * _GIGA, unit))
    return found
