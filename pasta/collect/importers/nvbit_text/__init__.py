"""Importer of text memory traces, as NVBit's example `mem_trace` prints them."""

from __future__ import annotations

import pyarrow as pa

from pasta.collect.containers.text_lines import TextLines, first_lines
from pasta.collect.importer import Imported, importer
from pasta.collect.importers.nvbit_text.accesses import Accesses
from pasta.collect.importers.nvbit_text.launches import Launches
from pasta.collect.importers.nvbit_text.lines import instruction_of, launch_of
from pasta.collect.losses import Losses
from pasta.collect.sources import Source
from pasta.schema import arrow_schema
from pasta.trace_writer import PartWriter

_LINES_LOOKED_AT = 2000
_MARK = "MEMTRACE: "


@importer("nvbit_text")
class NvbitText:
    """Reads launches as kernels without times, and the addresses of each active lane."""

    format = "memory trace (NVBit text)"
    version = 3
    general = False

    def recognises(self, source: Source) -> bool:
        """Tell whether a launch or an access is among the first lines."""
        return any(
            launch_of(line) or instruction_of(line.rstrip().rpartition(" - ")[0])
            for line in first_lines(source, _LINES_LOOKED_AT)
        )

    def read(self, source: Source, part: PartWriter, losses: Losses) -> Imported:
        """Append a row of `access` for each active lane of each line."""
        lines = TextLines(source, losses)
        launches = Launches(part, losses)
        accesses = Accesses(part, losses, launches)
        for block in lines.blocks():
            taken = block.split(b"\n")
            taken.pop()
            if lines.cut:
                taken.pop()
            for line in taken:
                if not accesses.take(line):
                    _take_other(line, launches, losses)
            accesses.flush()
        lines.report_cut("the last line is left out")
        launches.finish()
        process = {"pid": 0, "stack_id": 0}
        part.append("process", pa.Table.from_pylist([process], schema=arrow_schema("process")))
        device = {"pid": 0, "device": 0, "vendor": "nvidia"}
        part.append("device", pa.Table.from_pylist([device], schema=arrow_schema("device")))
        return Imported()


def _take_other(line: bytes, launches: Launches, losses: Losses) -> None:
    """Take a line that is no access: a launch, or what the program and NVBit print."""
    text = line.decode().rstrip()
    if launch := launch_of(text):
        launches.add(launch)
    elif text.startswith(_MARK) and "CTX" in text:
        losses.fault("line of no known form: left out", where=repr(text[:60]))
