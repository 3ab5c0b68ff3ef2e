"""Telling a running recording to record or not, and asking how it fares."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pasta.collect.channel import SHARED_MEMORY
from pasta.collect.target.channel_layout import RING_PREFIX
from pasta.collect.target.selection import CONTROL
from pasta.errors import CollectError
from pasta.whole_file import write_json

STATUS = "status"
"""File in the channel's folder in which the reader says each second how it fares."""


def ask(pid: int, *, record: bool, steps: int | None = None) -> Path:
    """Ask all processes of a recording to record, for so many steps or until asked, or not to.

    Args:
        pid: process id of `pasta collect` or of a program that it records.
        record: whether to record.
        steps: how many steps.

    Returns:
        The channel's folder.

    Raises:
        CollectError: no such recording runs.
    """
    folder = find_channel(pid)
    write_control(folder, record=record, steps=steps)
    return folder


def status(pid: int) -> dict[str, Any]:
    """Return how a recording fares: `state`, `seconds`, `rows`, `bytes`, `losses`, `processes`.

    Raises:
        CollectError: no such recording runs, or it has not said yet how it fares.
    """
    file = find_channel(pid) / STATUS
    try:
        found: dict[str, Any] = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise CollectError(f"process {pid}: has not begun to record yet; try again") from error
    return found


def find_channel(pid: int) -> Path:
    """Return the channel folder of a recording, by its own process id or that of a program in it.

    Raises:
        CollectError: there is none.
    """
    for folder in SHARED_MEMORY.glob("pasta-[0-9]*-*"):
        if folder.suffix == ".removed":
            continue
        if folder.name.startswith(f"pasta-{pid}-") or any(folder.glob(f"{RING_PREFIX}{pid}-*")):
            return folder
    named = _channel_in_environment(pid)
    if named is not None:
        return named
    raise CollectError(
        f"process {pid}: no recording of it runs here; start it as: pasta collect --idle -o DIR -- ..."
    )


def _channel_in_environment(pid: int) -> Path | None:
    """Return the channel that a process was started with, though it has not written to it yet."""
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    for entry in entries:
        name, _, value = entry.partition(b"=")
        if name == b"PASTA_CHANNEL" and Path(os.fsdecode(value)).is_dir():
            return Path(os.fsdecode(value))
    return None


def write_control(folder: Path, *, record: bool, steps: int | None = None) -> None:
    """Put what is asked into a channel's folder, where its programs look ten times a second."""
    write_json(folder / CONTROL, {"record": record, "steps": steps})


def write_status(folder: Path, content: dict[str, Any]) -> None:
    """Put how a recording fares into its channel's folder."""
    write_json(folder / STATUS, content)
