"""A trace whose ranks are written by several launchers, as under srun or mpirun.

Whoever comes first makes `trace.json`; each writes a folder of its rank with a `part.json` in it
when it has finished, and whoever sees that all are there marks the trace complete.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from pasta.collect.target.ranks import Place, process_name
from pasta.errors import TraceError
from pasta.trace import MANIFEST, RANK_FOLDER, RANK_GLOB
from pasta.trace_state import COMPLETE, PART, RECORDER, this_process
from pasta.trace_writer import beginning, new_manifest
from pasta.whole_file import UNFINISHED, write_json

_PATIENCE = 5.0
"""Seconds to wait for who has begun a manifest to write it."""
_BETWEEN = 0.01


class SharedTrace:
    """One rank's share in a trace.

    Args:
        path: the trace, made by whoever comes first.
        info: what goes into `trace.json`, if this is the first.
        place: rank and world size.
        run_id: what all ranks of the run have in common; `None`: the parent process and its start.

    Raises:
        TraceError: the folder holds something else, or this rank's share, or cannot be made.
    """

    def __init__(
        self, path: Path, info: Mapping[str, Any], place: Place, run_id: str | None
    ) -> None:
        self.path = path
        self._place = place
        self._run_id = run_id or f"parent={process_name(os.getppid())}"
        with beginning(path):
            path.mkdir(parents=True, exist_ok=True)
            if any(not _belongs(file.name) for file in path.iterdir()):
                raise TraceError(f"{path}: already exists and is not empty; choose another -o")
            content = new_manifest({**info, "run_id": self._run_id, "world_size": place.world_size})
            try:
                write_json(path / MANIFEST, content, new=True)
            except FileExistsError:
                self._check_manifest()
            self._folder = path / RANK_FOLDER.format(place.rank)
            try:
                self._folder.mkdir()
            except FileExistsError as error:
                raise TraceError(
                    f"{path}: rank {place.rank} is there already; choose another -o"
                ) from error
            with _removed_on_failure(self._folder):
                write_json(self._folder / RECORDER, this_process())

    def finish(self, **info: Any) -> None:
        """Write what is known of this rank's end; the last one completes the trace."""
        finish_share(self.path, self._place.rank, self._place.world_size, **info)

    def _check_manifest(self) -> None:
        try:
            known = json.loads(_written(self.path / MANIFEST))["run_id"]
        except (OSError, ValueError, KeyError, TypeError):
            known = None
        if known != self._run_id:
            raise TraceError(f"{self.path}: holds a trace of another run; choose another -o")


def finish_share(path: Path, rank: int, world_size: int, **info: Any) -> None:
    """Write what is known of a rank's end; the last of all completes the trace in `path`."""
    write_json(path / RANK_FOLDER.format(rank) / PART, {"rank": rank, **info})
    if len(list(path.glob(f"{RANK_GLOB}/{PART}"))) >= world_size:
        complete_of_shares(path, world_size)


def complete_of_shares(path: Path, world_size: int) -> None:
    """Mark the trace in `path` complete, of the shares that are finished; no more of them will come."""
    parts = [json.loads(file.read_bytes()) for file in path.glob(f"{RANK_GLOB}/{PART}")]
    parts.sort(key=lambda part: part["rank"])
    manifest = json.loads((path / MANIFEST).read_bytes())
    ends = {part["ended"] for part in parts}
    each = [f"rank {part['rank']}: {part['ended']}" for part in parts if part["ended"] != "exit 0"]
    if absent := world_size - len(parts):
        each.append(f"{absent} of {world_size} ranks left nothing")
    ended = ends.pop() if len(ends) == 1 and not absent else "; ".join(each)
    told: dict[str, Any] = {"ended": ended, "ranks": [part["rank"] for part in parts]}
    if failures := [part["failure"] for part in parts if "failure" in part]:
        told["failure"] = "; ".join(failures)
    write_json(path / MANIFEST, {**manifest, **told, "state": COMPLETE})


def _written(path: Path) -> bytes:
    """Return what a file holds; where the file system knows no links, it is empty before it is whole."""
    until = time.monotonic() + _PATIENCE
    while not (content := path.read_bytes()) and time.monotonic() < until:
        time.sleep(_BETWEEN)
    return content


def _belongs(name: str) -> bool:
    """Tell whether a file is one that another rank's launcher makes."""
    return name == MANIFEST or fnmatch(name, RANK_GLOB) or fnmatch(name, UNFINISHED)


@contextlib.contextmanager
def _removed_on_failure(folder: Path) -> Iterator[None]:
    """Remove a rank's folder where it cannot be begun, so that the rank can be tried again."""
    try:
        yield
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
