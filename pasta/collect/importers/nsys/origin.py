"""Where an export comes from: time base, processes, threads, devices, what the tool warned of."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from pasta.collect.importers.nsys.export import Export
from pasta.collect.importers.nsys.session import Session, process_of
from pasta.collect.losses import Losses
from pasta.schema import arrow_schema

_LATEST = 1 << 62
_WARNING, _ERROR = 2, 3
_LOST = re.compile(r"\b(?:drop|lost|lose|discard|overflow|incomplete|truncat)\w*", re.IGNORECASE)
_USUAL = re.compile(r"^No \w+ events collected")
_TOLD_CHARACTERS, _TOLD_MAX = 300, 100
_SMALL_TABLE_ROWS = 1 << 20
_UNREAD = re.compile(
    r"(?!DIAGNOSTIC_)\w+_EVENTS?|CUPTI_ACTIVITY_KIND_\w+|PROFILER_OVERHEAD", re.IGNORECASE
)


def rows_of(export: Export, table: str, **kinds: pa.DataType) -> list[dict[str, Any]]:
    """Return the rows of a small table; of a large one the first 2^20."""
    rows: list[dict[str, Any]] = []
    for batch in export.read(table, kinds):
        rows += batch.to_pylist()
        if len(rows) >= _SMALL_TABLE_ROWS:
            break
    return rows


def base_of(export: Export, losses: Losses) -> int:
    """Return the time in ns since 1970 to which an export's times are relative; 0: unknown."""
    rows = rows_of(export, "TARGET_INFO_SESSION_START_TIME", utcEpochNs=pa.int64())
    base = next((row["utcEpochNs"] for row in rows if row["utcEpochNs"] is not None), None)
    if base is None or not 0 <= base < _LATEST:
        losses.skip("time of the session's start is not in the file: times are relative to it")
        return 0
    return int(base)


def count_warnings(export: Export, losses: Losses) -> None:
    """Count what Nsight Systems warned of, and what it says was lost."""
    told: set[str] = set()
    for row in rows_of(export, "DIAGNOSTIC_EVENT", severity=pa.int64(), text=pa.string()):
        text = " ".join((row["text"] or "").split())[:_TOLD_CHARACTERS]
        serious = row["severity"] in (_WARNING, _ERROR) and not _USUAL.match(text)
        if serious or _LOST.search(text):
            told.add(text)
            reason = text if len(told) <= _TOLD_MAX else "many more warnings"
            losses.skip(f"Nsight Systems warned: {reason}")


def count_unread(export: Export, read: set[str], losses: Losses) -> None:
    """Count the rows of tables of events that no table of a trace has room for."""
    for table in export.names:
        if table.upper() in read or not _UNREAD.fullmatch(table):
            continue
        count = sum(batch.num_rows for batch in export.read(table, {"start": pa.int64()}))
        losses.skip(f"row of {table}: no table has room for it, left out", count)


def append_origin(session: Session) -> None:
    """Append the rows of `process`, `thread` and `device`, for what other rows are of."""
    session.part.append("process", _processes(session))
    session.part.append("thread", _threads(session))
    session.part.append("device", _devices(session))


def rank_of(export: Export) -> int | None:
    """Return the MPI rank, where all threads of the export that have one are of one."""
    ranks = {row["rank"] for row in rows_of(export, "MPI_RANKS", rank=pa.int64())}
    rank = ranks.pop() if len(ranks) == 1 else None
    return rank if rank is not None and 0 <= rank < 1 << 31 else None


def _processes(session: Session) -> pa.Table:
    names = {
        process_of(row["globalPid"]): row["name"]
        for row in rows_of(session.export, "PROCESSES", globalPid=pa.int64(), name=pa.string())
        if row["globalPid"] is not None
    }
    environment = {
        row["name"]: row["value"]
        for row in rows_of(
            session.export, "TARGET_INFO_SYSTEM_ENV", name=pa.string(), value=pa.string()
        )
    }
    exported = {
        row["name"]: row["value"]
        for row in rows_of(session.export, "META_DATA_EXPORT", name=pa.string(), value=pa.string())
    }
    versions = [
        ("NVIDIA driver", environment.get("NvDriverVersion")),
        ("CUDA driver", _cuda_version(environment.get("CudaDriverVersion"))),
        ("Nsight Systems", exported.get("EXPORT_PRODUCT_VERSION")),
    ]
    framework = "; ".join(f"{name} {version}" for name, version in versions if version)
    return _table(
        "process",
        [
            {
                "pid": pid,
                "host": environment.get("Hostname"),
                "command": names.get(pid),
                "started": started,
                "ended": ended,
                "framework": framework or None,
                "stack_id": 0,
            }
            for pid, (started, ended) in sorted(session.extents.items())
        ],
    )


def _cuda_version(number: str | None) -> str | None:
    """Return `13.0` for 13000."""
    if number is None or not number.isdecimal() or len(number) > 6:
        return number
    return f"{int(number) // 1000}.{int(number) % 1000 // 10}"


def _threads(session: Session) -> pa.Table:
    names = {}
    for row in rows_of(session.export, "ThreadNames", globalTid=pa.int64(), nameId=pa.int64()):
        if row["globalTid"] is not None:
            thread = process_of(row["globalTid"]), row["globalTid"] & 0xFFFFFF
            if thread in session.threads:
                names[thread] = session.texts.text(row["nameId"])
    return _table(
        "thread",
        [
            {"pid": pid, "tid": tid, "name": names.get((pid, tid)), "stack_id": 0}
            for pid, tid in sorted(session.threads)
        ],
    )


def _devices(session: Session) -> pa.Table:
    cards = rows_of(
        session.export,
        "TARGET_INFO_GPU",
        id=pa.int64(),
        cuDevice=pa.int64(),
        name=pa.string(),
        uuid=pa.string(),
        totalMemory=pa.int64(),
        memoryBandwidth=pa.int64(),
        smCount=pa.int64(),
        computeMajor=pa.int64(),
        computeMinor=pa.int64(),
        l2CacheSize=pa.int64(),
    )
    by_id = {card["id"]: card for card in cards}
    by_ordinal = {card["cuDevice"]: card for card in cards}
    of_process = {
        (row["pid"], row["cudaId"]): by_id.get(row["gpuId"])
        for row in rows_of(
            session.export,
            "TARGET_INFO_CUDA_DEVICE",
            pid=pa.int64(),
            cudaId=pa.int64(),
            gpuId=pa.int64(),
        )
    }
    rows = []
    for pid, device in sorted(session.devices):
        if device < 0:
            continue
        card = of_process.get((pid, device)) or by_ordinal.get(device) or by_id.get(device) or {}
        rows.append({"pid": pid, "device": device, "vendor": "nvidia", **_card(card)})
    return _table("device", rows)


def _card(card: dict[str, Any]) -> dict[str, Any]:
    major, minor = card.get("computeMajor"), card.get("computeMinor")
    return {
        "name": card.get("name") or "",
        "uuid": card.get("uuid"),
        "memory_bytes": _positive(card.get("totalMemory")),
        "multiprocessors": _positive(card.get("smCount"), 1 << 31),
        "compute_capability": None if major is None else f"{major}.{minor or 0}",
        "peak_bandwidth": _positive(card.get("memoryBandwidth")),
        "cache_bytes": _positive(card.get("l2CacheSize")),
    }


def _positive(value: int | None, limit: int = _LATEST) -> int | None:
    return value if value is not None and 0 < value < limit else None


def _table(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=arrow_schema(name))
