"""NVIDIA Nsight Systems: SQLite exports of any version, `arrowdir` and `parquetdir` exports, reports."""

from __future__ import annotations

import shutil

from pasta.collect.containers.sqlite_tables import SqliteTables
from pasta.collect.importer import Imported, importer
from pasta.collect.importers.nsys.export import FolderTables, is_export
from pasta.collect.importers.nsys.reading import import_export
from pasta.collect.importers.nsys.report import exported, is_report
from pasta.collect.losses import Losses
from pasta.collect.sources import Source, as_file
from pasta.trace_writer import PartWriter


@importer("nsys")
class NsightSystems:
    """Imports one export, with all processes and devices that it is of; a report is exported first."""

    format = "Nsight Systems (SQLite, Arrow or Parquet export)"
    version = 2
    general = False

    def recognises(self, source: Source) -> bool:
        """Tell whether a file or folder holds tables as Nsight Systems names them, or is a report."""
        return is_export(source) or is_report(source)

    def read(self, source: Source, part: PartWriter, losses: Losses) -> Imported:
        """Append the rows of an export.

        Raises:
            InputError: nothing of it can be read, or it is a report that `nsys` does not export.
        """
        if source.folder is not None:
            return import_export(FolderTables(source.folder, losses), part, losses)
        scratch = part.folder.with_name(f"{part.folder.name}-scratch")
        try:
            is_own = is_report(source)
            file = exported(source, scratch) if is_own else as_file(source, scratch)
            for damage in source.damage:
                losses.fault(damage)
            with SqliteTables(file, losses) as tables:
                return import_export(tables, part, losses)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
