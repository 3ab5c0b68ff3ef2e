"""Processes, threads and devices of a file."""

from __future__ import annotations

import re

from pasta.collect.importers.chrome_json.reading import Reading
from pasta.collect.shaping.rows import Rows
from pasta.trace_writer import PartWriter

_VENDORS = {"nvidia": ("nvidia", "tesla", "geforce"), "amd": ("amd", "radeon", "instinct")}
_LABEL = re.compile(r"^(?:/device:\w+:\d+\s*|\d+ |/\S*)")


def append_origin(reading: Reading, part: PartWriter) -> tuple[int, int | None]:
    """Append the rows of `process`, `thread` and `device`.

    Returns:
        The process with most rows, and the process that owns all work of devices: the only one on
        the host, `None` where there are several or none, and each device's work stays with the
        process that the file gives it.
    """
    tables = reading.tables
    host = tables.host_events
    owner = next(iter(host)) if len(host) == 1 and tables.devices else None
    device_pids = {pid for pid, _ in tables.devices} if owner is None else set()
    names = reading.lanes.processes.items()
    commands = {tables.number(pid, "pid"): name for pid, name in names}
    processes = Rows(part, "process", "pid", "command", "started", "ended", "stack_id")
    for pid in [*host, *sorted(device_pids - host.keys())]:
        processes.add(pid, commands.get(pid), tables.first, tables.last, 0)
    processes.flush()
    threads = Rows(part, "thread", "pid", "tid", "name", "stack_id")
    for (pid, tid), name in tables.threads.items():
        threads.add(pid, tid, name, 0)
    threads.flush()
    _append_devices(reading, part, owner)
    main = host.most_common(1)[0][0] if host else min(device_pids, default=0)
    return main, owner


def _append_devices(reading: Reading, part: PartWriter, owner: int | None) -> None:
    names: dict[tuple[int, int], str] = {}
    for (pid, device), label in reading.tables.devices.items():
        key = (pid if owner is None else owner, device)
        names[key] = names.get(key) or _LABEL.sub("", label)
    rows = Rows(part, "device", "pid", "device", "vendor", "name")
    for (pid, device), name in names.items():
        if device >= 0:
            rows.add(pid, device, _vendor(name), name)
    rows.flush()


def _vendor(name: str) -> str:
    words = name.lower()
    for vendor, marks in _VENDORS.items():
        if any(mark in words for mark in marks):
            return vendor
    return ""
