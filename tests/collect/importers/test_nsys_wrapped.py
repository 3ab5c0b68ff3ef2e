"""What `--with nsys` leaves becomes rows of the recording, each of its own process."""

from __future__ import annotations

from pathlib import Path

import pytest

from pasta.collect.recording import record_command
from pasta.collect.selection import Selection
from pasta.trace import Trace
from tests.collect.importers.nsys_help import (
    BASE,
    KERNEL,
    NVTX,
    OTHER,
    PROCESS,
    export,
    kernel,
    mark,
    process,
    rows,
    thread,
)
from tests.collect.recorded_programs import ROOT
from tests.collect.wrapped_programs import install


def test_rows_of_many_processes_keep_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    made = export(
        tmp_path / "made.sqlite",
        CUPTI_ACTIVITY_KIND_KERNEL=(
            KERNEL,
            [kernel(10, 20), kernel(30, 45, globalPid=process(OTHER))],
        ),
        NVTX_EVENTS=(
            NVTX,
            [mark(5, 50, 59, "outer"), mark(6, 9, 59, "inner", globalTid=thread(7, OTHER))],
        ),
    )
    leave = f"__import__('shutil').copyfile({str(made)!r}, output.parent / 'report.sqlite')"
    install(monkeypatch, tmp_path / "bin", "nsys", leave)
    done = record_command(["true"], tmp_path / "t", {"nsys": "report"}, Selection())
    assert (done.notes, done.failure) == ([], "")
    trace = Trace.open(tmp_path / "t")
    assert [(row["ts"] - BASE, row["dur"], row["pid"]) for row in rows(trace, "kernel")] == [
        (10, 10, PROCESS),
        (30, 15, OTHER),
    ]
    assert [(row["name"], row["pid"], row["parent_id"]) for row in rows(trace, "span")] == [
        ("outer", PROCESS, 0),
        ("inner", OTHER, 0),
    ]
    assert {PROCESS, OTHER} <= {row["pid"] for row in rows(trace, "process")}
