"""Completing a trace whose recorder was killed, of what that had written.

Run as `python -m pasta.collect.rescue TRACE RANK` by the guard of a recording's channel, should the
recorder be killed.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from pasta.collect.companions.registry import COMPANIONS
from pasta.collect.live_tables import complete_tables
from pasta.collect.shared_trace import complete_of_shares, finish_share
from pasta.collect.target.ranks import Place
from pasta.errors import TraceError
from pasta.schema import TABLES, arrow_schema
from pasta.trace import MANIFEST, RANK_PREFIX, Trace
from pasta.trace_parts import part_files
from pasta.trace_state import COMPLETE, PART, RECORDER, runs_still, unfinished
from pasta.trace_writer import PartWriter, flatten
from pasta.whole_file import UNFINISHED, write_json

ENDED = "unknown, as pasta was killed while it wrote the trace"
_LOST = "pasta was killed while it wrote the trace: what was not written yet"
_DYING_SECONDS = 10.0
"""How long a process may take from where its files are closed, which its guard sees, to its end."""
_ALL_OF = ", and all that {} saw"
_FIRST_PART = "part-000000"
_PACKAGE = Path(__file__).parents[1]
_BEGUN_MANIFEST = f".{MANIFEST}"
"""What a manifest had as its name while it was written, before it was one of `UNFINISHED`: older traces may hold it."""


def rescuer(trace: Path, place: Place) -> list[str]:
    """Return the command that completes a launcher's share in a trace, run where it was killed."""
    here = ["/bin/sh", "-c", 'cd -- "$0" && exec "$@"', str(_PACKAGE.parent)]
    return [*here, sys.executable, "-m", __name__, str(trace), str(place.rank)]


def rescue(path: Path, rank: int | None = None, *, gone: bool = False) -> Trace:
    """Complete a trace of which some recorder is gone; what it holds is kept, what is hidden removed.

    Args:
        path: the trace.
        rank: whose recorder is gone, where several write one trace; `None`: all that have not finished.
        gone: whether recorders that cannot be looked for here, as of another machine, are known to be gone.

    Raises:
        TraceError: it is none, is complete, is or may be being written, or has files that cannot be
            read or written.
    """
    trace = Trace.open(path)
    if trace.info.get("state", COMPLETE) == COMPLETE:
        raise TraceError(f"{path}: is complete; there is nothing to rescue")
    size = trace.info.get("world_size", 1)
    try:
        if isinstance(size, int) and size > 1:
            _rescue_shares(trace, size, rank, gone=gone)
        else:
            by_guard = rank is not None
            patience = _DYING_SECONDS if by_guard else 0.0
            _rescue_whole(trace, gone=gone or by_guard, patience=patience)
    except (OSError, pa.ArrowException, pl.exceptions.PolarsError) as error:
        why = " ".join(str(error).split())
        raise TraceError(
            f"{path}: cannot be completed ({why}); it stays as far as it is"
        ) from error
    return Trace.open(path)


def _rescue_shares(trace: Trace, size: int, rank: int | None, *, gone: bool) -> None:
    """Complete the share of a rank, or those of all ranks whose launchers are gone."""
    folders = _rank_folders(trace.path)
    left = {of: folder for of, folder in folders.items() if not (folder / PART).exists()}
    if rank is not None:
        left = {of: folder for of, folder in left.items() if of == rank}
    elif live := [of for of, folder in left.items() if runs_still(_recorder(folder))]:
        ranks = ", ".join(map(str, live))
        raise TraceError(f"{trace.path}: rank {ranks} is being written: rows are still to come")
    elif not gone:
        for of, folder in left.items():
            _check_known(f"{trace.path}: rank {of}", _recorder(folder))
    for of, folder in left.items():
        _complete(folder, of, trace.info)
        finish_share(trace.path, of, size, ended=ENDED)
    if rank is None:
        _remove_hidden(trace.path)
        complete_of_shares(trace.path, size)


def _recorder(folder: Path) -> Any:
    """Return who writes the share of a rank; `None`: it was killed before it could say so."""
    try:
        return json.loads((folder / RECORDER).read_bytes())
    except (OSError, ValueError):
        return None


def _check_known(what: str, recorder: Any) -> None:
    """Check that nobody writes who cannot be looked for here."""
    if isinstance(recorder, dict) and runs_still(recorder) is None:
        raise TraceError(
            f"{what}: whether process {recorder.get('pid')} of {recorder.get('host')} writes it still cannot be"
            " known here; if it is gone, say so: --gone"
        )


def _rescue_whole(trace: Trace, *, gone: bool, patience: float) -> None:
    """Complete a trace that one launcher wrote."""
    if _stays(trace.info.get("recorder"), patience):
        raise TraceError(unfinished(trace))
    if not gone:
        _check_known(str(trace.path), trace.info.get("recorder"))
    path, folders = trace.path, _rank_folders(trace.path)
    _remove_hidden(path)
    if len(folders) == 1:
        _unflatten(path, *folders.values())
    for of, folder in (folders or {0: path}).items():
        _complete(folder, of, trace.info)
    if len(folders) == 1:
        flatten(path, *folders)
    told = {"state": COMPLETE, "ended": ENDED, "ranks": sorted(folders) or [0]}
    write_json(path / MANIFEST, {**trace.info, **told})


def _stays(recorder: Any, seconds: float) -> bool:
    """Tell whether a process runs still after so long, where it runs now."""
    until = time.monotonic() + seconds
    while (runs := bool(runs_still(recorder))) and time.monotonic() < until:
        time.sleep(0.05)
    return runs


def _unflatten(path: Path, folder: Path) -> None:
    """Move tables back to the only rank's folder, if it was killed while it moved them to the root."""
    for table in _folders(path):
        if table.name in TABLES and not (folder / table.name).exists():
            table.rename(folder / table.name)


def _reason(info: Mapping[str, Any]) -> str:
    """Return what was lost, with the collectors whose rows come at the end only."""
    told = info.get("collectors")
    collectors = [each for each in told if isinstance(each, dict)] if isinstance(told, list) else []
    names = [str(each.get("name")).partition(":")[0] for each in collectors]
    beside = [name for name in names if name in COMPANIONS]
    return _LOST + (_ALL_OF.format(", ".join(beside)) if beside else "")


def _rank_folders(path: Path) -> dict[int, Path]:
    named = [(folder.name.removeprefix(RANK_PREFIX), folder) for folder in _folders(path)]
    return {int(number): folder for number, folder in named if number.isdecimal()}


def _folders(path: Path) -> list[Path]:
    """Return the folders in a folder; links are not followed, as a trace is not trusted."""
    return [each for each in sorted(path.iterdir()) if each.is_dir() and not each.is_symlink()]


def _complete(folder: Path, rank: int, info: Mapping[str, Any]) -> None:
    """Complete the tables of one rank, and say in them what is missing."""
    _remove_hidden(folder)
    part = PartWriter(folder)
    for table in _folders(folder):
        if table.name in TABLES and _made_parts(table):
            part.resume(table.name)
    row = {"rank": rank, "pid": os.getpid(), "collector": "pasta", "reason": _reason(info)}
    row |= {"count": 1, "first_ts": time.time_ns()}
    part.append("loss", pa.Table.from_pylist([row], schema=arrow_schema("loss")))
    complete_tables(part, rank, {}, {})
    part.finish()


def _made_parts(folder: Path) -> bool:
    """Leave either the parts or the sorted files of a table; tell whether it is to be sorted.

    Parts are removed, the first one first, when all sorted files are complete.
    """
    parts, done = part_files(folder), sorted(folder.glob("[0-9]*.parquet"))
    whole = bool(parts) and parts[0].name.startswith(_FIRST_PART)
    for file in done if whole else parts:
        file.unlink()
    if not whole and folder.name == "loss" and done:
        done[0].rename(folder / f"{_FIRST_PART}{done[0].suffix}")
        return True
    return whole


def _remove_hidden(folder: Path) -> None:
    """Remove files that were being written, and folders in which companions worked."""
    own = [UNFINISHED, _BEGUN_MANIFEST, *(f".{companion}-*" for companion in COMPANIONS)]
    tables = [each for each in _folders(folder) if each.name in TABLES]
    hidden = [each for pattern in own for each in folder.glob(pattern)]
    for each in [*hidden, *(file for table in tables for file in table.glob(".*"))]:
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each)
        else:
            each.unlink()


if __name__ == "__main__":
    try:
        rescue(Path(sys.argv[1]), int(sys.argv[2]))
    except TraceError as error:
        raise SystemExit(str(error)) from error
