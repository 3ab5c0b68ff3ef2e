"""Importing small files in tests, and looking at what became of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pasta.collect.importing import ImportReport, import_trace
from pasta.trace import Trace


def imported_file(
    file: Path, tmp_path: Path, *, strict: bool = False
) -> tuple[ImportReport, Trace]:
    """Import a file into a folder of its own below `tmp_path`."""
    out = tmp_path / f"t{len(list(tmp_path.iterdir()))}"
    report = import_trace([file], out, strict=strict)
    return report, Trace.open(out)


def imported_content(
    content: bytes | str, tmp_path: Path, *, strict: bool = False
) -> tuple[ImportReport, Trace]:
    """Write a file that has no telling name, and import it."""
    file = tmp_path / "content"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return imported_file(file, tmp_path, strict=strict)


def rows(trace: Trace, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return some columns of a table, row by row."""
    return trace.scan(table).select(columns).collect().rows()


def losses(report: ImportReport) -> dict[str, int]:
    """Return how often each loss was counted."""
    return {reason: count for _, reason, count, _ in report.losses}
