"""Where a Kineto trace comes from: process, threads, devices, rank and time base."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pyarrow as pa

from pasta.collect.importers.kineto.events import Event
from pasta.collect.importers.kineto.tables import KinetoTables
from pasta.collect.losses import Losses
from pasta.collect.shaping.decimal_time import LIMIT
from pasta.schema import arrow_schema
from pasta.trace_writer import PartWriter

_VERSIONS = {
    "cuda_runtime_version": "CUDA runtime",
    "cuda_driver_version": "CUDA driver",
    "cupti_version": "CUPTI",
    "hip_runtime_version": "HIP runtime",
    "hip_driver_version": "HIP driver",
    "roctracer_version": "roctracer",
}
_VENDOR_WORDS = {
    "nvidia": ("nvidia", "tesla", "geforce", "quadro"),
    "amd": ("amd", "radeon", "instinct"),
}
_AMD_KEYS = ("hip_runtime_version", "hip_driver_version", "roctracer_version")


class Origin:
    """Collects what events and metadata tell about a file's process.

    Attributes:
        rank: rank in the run; `None` where the file does not say.
        pid: the process whose rows these are.
        base_ns: what the file's times are relative to.
        names: what metadata events say, by (kind, pid, tid) as text.
    """

    def __init__(self) -> None:
        self.rank: int | None = None
        self.pid = 0
        self.base_ns = 0
        self._metadata: dict[str, Any] = {}
        self.names: dict[tuple[str, str, str], str] = {}

    def read_names(self, events: list[Event]) -> None:
        """Keep the names that metadata events give processes and threads."""
        for event in events:
            try:
                arguments = msgspec.json.decode(event.args, type=dict[str, Any])
            except msgspec.DecodeError:
                continue
            label = arguments.get("name", arguments.get("labels"))
            if label is not None:
                self.names[event.name, _key(event.pid), _key(event.tid)] = str(label).strip()

    def read_metadata(self, metadata: dict[str, Any]) -> None:
        """Take rank and time base from the outermost object's keys."""
        self._metadata = metadata
        rank = self._distributed.get("rank")
        self.rank = rank if type(rank) is int and 0 <= rank < 1 << 31 else None
        base = metadata.get("baseTimeNanoseconds")
        self.base_ns = base if type(base) is int and abs(base) < LIMIT else 0

    @property
    def _distributed(self) -> dict[str, Any]:
        found = self._metadata.get("distributedInfo")
        return found if isinstance(found, dict) else {}

    def append_tables(self, tables: KinetoTables, part: PartWriter, losses: Losses) -> None:
        """Append the rows of `process`, `thread` and `device`."""
        self.pid = self._find_pid(tables, losses)
        part.append("process", self._process(tables))
        part.append("thread", self._threads(tables))
        part.append("device", self._devices(tables))

    def _find_pid(self, tables: KinetoTables, losses: Losses) -> int:
        """Return the pid of most host rows; a container's other pids are the same process."""
        rows: Counter[int] = Counter()
        for (pid, _), count in tables.host_threads.items():
            if type(pid) is int and 0 <= pid < 1 << 62:
                rows[pid] += count
        labelled = [
            pid
            for (kind, pid, _), label in self.names.items()
            if kind == "process_labels" and label == "CPU" and pid.isdigit()
        ]
        if rows:
            pid, most = rows.most_common(1)[0]
            others = rows.total() - most
            losses.skip(
                f"host event under another pid than {pid}: taken as of this process", others
            )
            return pid
        return int(labelled[0]) if labelled else 0

    def _process(self, tables: KinetoTables) -> pa.Table:
        world_size = self._distributed.get("world_size")
        host = self._metadata.get("host_name")
        versions = [
            f"{name} {self._metadata[key]}"
            for key, name in _VERSIONS.items()
            if key in self._metadata
        ]
        if "nccl_version" in self._distributed:
            versions.append(f"NCCL {self._distributed['nccl_version']}")
        row = {
            "host": host if isinstance(host, str) else None,
            "command": self._name("process_name", self.pid),
            "world_size": _whole(world_size, 1 << 31),
            "started": tables.first,
            "ended": tables.last,
            "framework": "; ".join(versions) or None,
            "stack_id": 0,
        }
        return _table("process", [row])

    def _name(self, kind: str, pid: Any, tid: Any = None) -> str | None:
        for (known, known_pid, known_tid), label in self.names.items():
            if (known, known_pid) == (kind, _key(pid)) and tid is None:
                return label
            if (known, known_pid, known_tid) == (kind, _key(pid), _key(tid)):
                return label
        return None

    def _threads(self, tables: KinetoTables) -> pa.Table:
        rows: dict[int, dict[str, Any]] = {}
        for pid, tid in tables.host_threads:
            number = tables.thread_number(tid)
            name = self.names.get(("thread_name", _key(pid), _key(tid)))
            if name is None and number != tid:
                name = str(tid)
            known = rows.setdefault(number, {"tid": number, "name": name, "stack_id": 0})
            known["name"] = known["name"] or name
        return _table("thread", list(rows.values()))

    def _devices(self, tables: KinetoTables) -> pa.Table:
        found = self._metadata.get("deviceProperties")
        described = (
            [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
        )
        rows = {
            int(item["id"]): self._device(item)
            for item in described
            if type(item.get("id")) is int and 0 <= item["id"] < 1 << 31
        }
        seen = sorted(device for device in tables.devices if device >= 0)
        if len(described) == len(seen) == 1 and seen[0] not in rows:
            # ROCm counts agents where the properties count GPUs; with one of each they are one.
            rows = {seen[0]: self._device(described[0])}
        for device in seen:
            rows.setdefault(device, self._device({}))
        return _table("device", [{"device": device, **row} for device, row in sorted(rows.items())])

    def _device(self, properties: dict[str, Any]) -> dict[str, Any]:
        name = str(properties.get("name", ""))
        major, minor = properties.get("computeMajor"), properties.get("computeMinor")
        return {
            "vendor": self._vendor(name),
            "name": name,
            "memory_bytes": _whole(properties.get("totalGlobalMem")),
            "multiprocessors": _whole(properties.get("numSms"), 1 << 31),
            "compute_capability": None if major is None else f"{major}.{minor}",
        }

    def _vendor(self, name: str) -> str:
        words = name.lower()
        for vendor, marks in _VENDOR_WORDS.items():
            if any(mark in words for mark in marks):
                return vendor
        if any(label.startswith("MTIA") for label in self.names.values()):
            return "meta"
        if any(key in self._metadata for key in _AMD_KEYS):
            return "amd"
        return "nvidia" if "cuda_runtime_version" in self._metadata else ""


def _key(identifier: Any) -> str:
    return str(identifier)


def _whole(value: Any, limit: int = 1 << 62) -> int | None:
    return value if type(value) is int and 0 <= value < limit else None


def _table(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=arrow_schema(name))
