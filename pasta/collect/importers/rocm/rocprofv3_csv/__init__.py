"""Importer of rocprofv3's CSV files: `rocprofv3 --output-format csv`."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from pasta.collect.importer import Imported, importer
from pasta.collect.importers.rocm.cells import first_cells
from pasta.collect.importers.rocm.finish import finish_transforms
from pasta.collect.importers.rocm.rocprofv3_csv.tables import CsvTables
from pasta.collect.losses import Losses
from pasta.collect.sources import Source, files_of, open_sources
from pasta.errors import InputError
from pasta.trace_writer import PartWriter

_KINDS: dict[str, frozenset[str]] = {
    "agents": frozenset({"Node_Id", "Agent_Type"}),
    "counters": frozenset({"Counter_Name", "Counter_Value", "Kernel_Name", "Dispatch_Id"}),
    "kernels": frozenset({"Kernel_Name", "Start_Timestamp", "End_Timestamp", "Agent_Id"}),
    "copies": frozenset({"Direction", "Start_Timestamp", "End_Timestamp"}),
    "allocations": frozenset({"Operation", "Allocation_Size", "Start_Timestamp"}),
    "scratch": frozenset({"Operation", "Alloc_Flags", "Start_Timestamp"}),
    "calls": frozenset({"Domain", "Function", "Start_Timestamp", "End_Timestamp"}),
    "aggregates": frozenset({"Name", "Calls", "TotalDurationNs"}),
}
"""Kind of file -> columns that tell it; read in this order, so that agents are known first."""

_AGGREGATES = "aggregates"
_NAME = re.compile(
    r"(?P<process>.*?)_?(?:agent_info|counter_collection|kernel_trace|memory_copy_trace"
    r"|memory_allocation_trace|scratch_memory_trace|(?:hip|hsa|marker|rccl|rocdecode|rocjpeg)"
    r"(?:_api|_runtime_api|_compiler_api)?_trace"
    r"|(?:kernel|domain|memory_copy|memory_allocation|scratch_memory|counter_collection"
    r"|(?:hip|hsa|marker|rccl)(?:_api)?)_stats)\.csv(?:\.gz)?"
)


@importer("rocprofv3_csv")
class Rocprofv3Csv:
    """Imports the files of one process, given one by one or as their folder."""

    format = "rocprofv3 (CSV)"
    version = 2
    general = False

    def recognises(self, source: Source) -> bool:
        """Tell by the columns that the first line names, or that of a file in a folder."""
        if source.folder is not None:
            return any(_kind_of_file(file) for file in _csv_files(source.folder))
        return bool(_kind(source))

    def piece_of(self, source: Source) -> str | None:
        """Return folder and start of the name, as in `908_kernel_trace.csv`."""
        if source.folder is not None or not _kind(source):
            return None
        file = source.file or Path(source.name)
        named = _NAME.fullmatch(file.name)
        return str(file.with_name(f"{named['process']}_")) if named else None

    def read(self, source: Source, part: PartWriter, losses: Losses) -> Imported:
        """Append the rows of all files of the process.

        Raises:
            InputError: a file holds sums only, or the folder more than one process.
        """
        files = source.pieces or (source.file,) if source.folder is None else _of_folder(source)
        if files == (None,):
            kind = _refuse_sums(_kind(source), source.name)
            tables = CsvTables(part, losses, 0)
            tables.read(kind, source)
        else:
            tables = _read_files([file for file in files if file], part, losses)
        tables.finish()
        return Imported(pid=tables.pid, transforms=finish_transforms(losses))


def _read_files(files: Sequence[Path], part: PartWriter, losses: Losses) -> CsvTables:
    kinds = {file: _kind_of_file(file) for file in files}
    order = list(_KINDS)
    if set(kinds.values()) <= {_AGGREGATES}:
        _refuse_sums(_AGGREGATES, str(files[0]))
    tables = CsvTables(part, losses, _pid_of(files))
    for file in sorted(files, key=lambda file: (order.index(kinds[file]), str(file))):
        if kinds[file] == _AGGREGATES:
            losses.skip("sums of calls, which the traces beside them give too: left out")
            continue
        with _opened(file) as source:
            tables.read(kinds[file], source)
    return tables


def _of_folder(source: Source) -> tuple[Path, ...]:
    """Return the files of a folder.

    Raises:
        InputError: they are of several processes.
    """
    assert source.folder is not None  # noqa: S101 (asked before)
    files = tuple(file for file in _csv_files(source.folder) if _kind_of_file(file))
    processes: dict[str, Path] = {}
    for file in files:
        if (named := _NAME.fullmatch(file.name)) and named["process"]:
            processes.setdefault(str(file.with_name(named["process"])), file)
    if len(processes) > 1:
        first, second, *_ = processes
        raise InputError(
            f"{source.name}: holds the files of {len(processes)} processes ({first}_..., {second}_...);"
            " name the files instead, and each process becomes a rank"
        )
    return files


def _csv_files(folder: Path) -> list[Path]:
    return [file for file in files_of(folder) if file.name.endswith((".csv", ".csv.gz"))]


def _kind_of_file(file: Path) -> str:
    try:
        with _opened(file) as source:
            return _kind(source)
    except InputError:
        return ""


def _kind(source: Source) -> str:
    """Return the kind of file that the columns tell; empty: another format."""
    columns = set(_columns(source))
    return next((kind for kind, needed in _KINDS.items() if needed <= columns), "")


def _columns(source: Source) -> list[str]:
    return first_cells(source) if b"\n" in source.head else []


def _pid_of(files: Sequence[Path]) -> int:
    """Return the process that a file tells in its first row, else one that stands in a name."""
    for file in files:
        with _opened(file) as source:
            names = _columns(source)
            if "Process_Id" in names:
                row = first_cells(source, 1)
                cell = row[names.index("Process_Id")] if len(row) == len(names) else ""
                if cell.isdecimal() and len(cell) < 19:
                    return int(cell)
    for file in files:
        named = _NAME.fullmatch(file.name)
        if named and named["process"].isdecimal() and len(named["process"]) < 19:
            return int(named["process"])
    return 0


def _refuse_sums(kind: str, name: str) -> str:
    if kind == _AGGREGATES:
        raise InputError(
            f"{name}: holds sums of calls, not their times; import the *_trace.csv files of the same"
            " run (rocprofv3 --kernel-trace --output-format csv)"
        )
    return kind


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[Source]:
    with contextlib.closing(open_sources([file])) as sources:
        yield next(sources)
