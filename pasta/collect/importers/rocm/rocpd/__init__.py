"""Importers of the SQLite files of AMD's profilers, told apart by their tables.

rocpd (`rocprofv3`, since ROCm 7) and RPD (`runTracer.sh`) share the name of their tables, not what is in them;
rocprofiler-compute keeps counters.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable

from pasta.collect.containers.sqlite_tables import SqliteTables
from pasta.collect.importer import Imported, importer
from pasta.collect.importers.rocm.finish import finish_transforms
from pasta.collect.importers.rocm.lookup import Lookups
from pasta.collect.importers.rocm.rocpd import compute, rocpd, rpd
from pasta.collect.losses import Losses
from pasta.collect.sources import Source, as_file
from pasta.trace_writer import PartWriter

_MAGIC = b"SQLite format 3\0"
_RPD, _ROCPD, _COMPUTE = b"rocpd_kernelapi", b"rocpd_info_agent", b"compute_workload"

Read = Callable[[SqliteTables, Lookups, PartWriter, Losses], int]
"""Appends what a file holds and returns its first process."""


@importer("rocpd")
class Rocpd:
    """Imports rocprofv3's database: schema 3, and schema 4 with tracks."""

    format = "rocpd (SQLite of rocprofv3)"
    version = 3
    general = False

    def recognises(self, source: Source) -> bool:
        """Tell by the names of tables, which stand in the first pages."""
        return _holds(source, _ROCPD)

    def read(self, source: Source, part: PartWriter, losses: Losses) -> Imported:
        """Append the rows of all processes of the file."""
        return _read(source, part, losses, rocpd.read)


@importer("rpd")
class Rpd:
    """Imports the older RPD files: schema version 2."""

    format = "RPD (SQLite of rocmProfileData)"
    version = 2
    general = False

    def recognises(self, source: Source) -> bool:
        """Tell by the names of tables, which stand in the first pages."""
        return _holds(source, _RPD)

    def read(self, source: Source, part: PartWriter, losses: Losses) -> Imported:
        """Append operations as kernels and copies, API calls, and what monitors saw."""
        return _read(source, part, losses, rpd.read)


@importer("rocprof_compute_db")
class RocprofComputeDatabase:
    """Imports rocprofiler-compute's database of counters."""

    format = "rocprofiler-compute (SQLite)"
    version = 2
    general = False

    def recognises(self, source: Source) -> bool:
        """Tell by the names of tables, which stand in the first pages."""
        return _holds(source, _COMPUTE)

    def read(self, source: Source, part: PartWriter, losses: Losses) -> Imported:
        """Append dispatches, and the metrics of kernels that were dispatched once."""
        return _read(source, part, losses, compute.read)


def _holds(source: Source, table: bytes) -> bool:
    return source.head.startswith(_MAGIC) and table in source.head


def _read(source: Source, part: PartWriter, losses: Losses, read: Read) -> Imported:
    scratch = part.folder.with_name(f"{part.folder.name}-scratch")
    try:
        with SqliteTables(as_file(source, scratch), losses) as tables:
            pid = read(tables, Lookups(tables, scratch), part, losses)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    for damage in source.damage:
        losses.fault(damage)
    return Imported(pid=pid, transforms=finish_transforms(losses))
