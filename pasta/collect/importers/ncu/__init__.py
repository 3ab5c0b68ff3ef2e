"""Importer of what Nsight Compute prints with `ncu --csv --page raw`.

A table begins with a line of names, `"ID","Process ID",...`, and a line of units; each line after
it is one launch. Lines of ncu itself (`==PROF==`) and of the program may stand around it. The page
`--page source --print-source cuda,sass` may stand before it; with `--print-metric-instances details`
it then tells the source lines of what was counted by instruction.
"""

from __future__ import annotations

import csv

from pasta.collect.containers.text_lines import TextLines
from pasta.collect.importer import Imported, importer
from pasta.collect.importers.ncu.launches import Launches
from pasta.collect.importers.ncu.source import SourceLines
from pasta.collect.losses import Losses
from pasta.collect.sources import Source
from pasta.errors import InputError
from pasta.trace_writer import PartWriter

_HEADER = b'"ID","Process ID","Process Name"'
_NCU = b"==PROF== "
_PERMISSION = "ERR_NVGPUCTRPERM"
_OF_DETAILS = "Metric Name"
_NEEDED = frozenset({"Process ID", "Process Name", "Kernel Name"})
_NO_NAMES = "line of names that lacks the kernel's or the process's: its launches are left out"
_CUT = "lines of launches that have another number of fields than the table: left out"


@importer("ncu_csv")
class NcuCsv:
    """Reads launches and their counters."""

    format = "Nsight Compute's raw page (CSV)"
    version = 2
    general = False

    def recognises(self, source: Source) -> bool:
        """Tell whether a line of names is near, or ncu speaks of its profiling."""
        lines = source.head.splitlines()
        return any(line.lstrip(b"\xef\xbb\xbf").startswith((_HEADER, _NCU)) for line in lines)

    def read(self, source: Source, part: PartWriter, losses: Losses) -> Imported:
        """Append a `kernel` and its `metric` rows for each launch, and their devices.

        Raises:
            InputError: there is no table, as where ncu was not permitted to count, or it is of
                another page.
        """
        lines = SourceLines()
        launches = Launches(part, losses, lines)
        found = denied = False
        for text in TextLines(source, losses):
            if text.startswith(_HEADER.decode()):
                launches.begin(_names(text, source, losses))
                found = True
            elif launches.units_follow:
                launches.take_units(_fields(text))
            elif not text.startswith('"'):
                denied = denied or _PERMISSION in text
            elif not lines.take(_fields(text)) and found and text[1:2].isdigit():
                losses.fault(_CUT, 0 if launches.take(_fields(text)) else 1)
        launches.finish()
        if not found:
            raise InputError(f"{source.name}: {_why_nothing(denied=denied)}")
        return Imported(pid=launches.first_pid)


def _names(text: str, source: Source, losses: Losses) -> list[str]:
    """Return the names of a table's columns; none where a launch could not be told by them."""
    names = _fields(text)
    if _OF_DETAILS in names:
        raise InputError(
            f"{source.name}: is ncu's page of details, which names no counters; print the other"
            " one: ncu --import REPORT --csv --page raw"
        )
    if not _NEEDED.issubset(names):
        losses.fault(_NO_NAMES)
        return []
    return names


def _fields(text: str) -> list[str]:
    try:
        return next(csv.reader([text]), [""])
    except csv.Error:
        return [text]


def _why_nothing(*, denied: bool) -> str:
    if denied:
        return (
            "ncu was not permitted to read the GPU's counters (ERR_NVGPUCTRPERM); run it as root,"
            " or have the driver loaded with NVreg_RestrictProfilingToAdminUsers=0"
        )
    return "ncu counted no launch; print a report: ncu --import REPORT --csv --page raw"
