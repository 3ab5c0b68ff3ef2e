"""What threads did: calls of CUDA, ranges of NVTX, calls of libraries and of the system."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pasta.collect.importers.nsys.callchains import Callchains
from pasta.collect.importers.nsys.session import (
    Batch,
    Integers,
    Session,
    constant,
    no_ids,
    process_of,
)
from pasta.collect.importers.nsys.texts import joined, taken

_I32 = pa.int32()
_VERSION = r"_v\d{4,}$"
_MARK, _PUSH_POP, _START_END, _DOMAIN = 34, 59, 60, 75
_LIBRARIES = re.compile(
    r"OSRT_API|(?:CUBLAS|CUDNN|CUSPARSE|CUSOLVER|NVSHMEM|MPI|UCP|OPENACC|OPENMP)_\w*EVENTS"
    r"|CUDA_GRAPH(?:_NODE)?_EVENTS",
    re.IGNORECASE,
)


def add_calls(session: Session) -> None:
    """Append calls of the CUDA runtime and driver."""
    chains = Callchains(session, "CUDA_CALLCHAINS")
    columns = ("start", "end", "globalTid", "correlationId", "nameId", "returnValue", "callchainId")
    names = pc.replace_substring_regex(session.texts.values, _VERSION, "")
    for batch in session.batches("CUPTI_ACTIVITY_KIND_RUNTIME", *columns):
        timed, times = session.timed(batch, "call", ends=True)
        pid, tid = session.host_threads(timed)
        session.append(
            "call",
            times
            | {
                "pid": pa.array(pid),
                "tid": pa.array(tid),
                "correlation": timed.ids("correlationId"),
                "external_id": no_ids(len(timed)),
                "name": taken(names, session.texts.places(timed.integers("nameId", -1))),
                "result": timed.number("returnValue", _I32),
                "stack_id": chains.stacks(timed.integers("callchainId"), pid),
            },
        )


class Ranges:
    """Appends NVTX's ranges and marks as spans."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._domains: dict[tuple[int, int], str] = {}

    def add(self) -> None:
        """Append all of the export's."""
        columns = ("start", "end", "eventType", "text", "textId", "globalTid", "domainId")
        for batch in self._session.batches("NVTX_EVENTS", *columns):
            kind = batch.integers("eventType", _PUSH_POP)
            self._learn_domains(batch.only(kind == _DOMAIN))
            wanted = np.isin(kind, (_MARK, _PUSH_POP, _START_END))
            others = wanted.size - int(wanted.sum()) - int((kind == _DOMAIN).sum())
            self._session.losses.skip("NVTX event that is no range and no mark: left out", others)
            self._append(batch.only(wanted))

    def _learn_domains(self, batch: Batch) -> None:
        if not len(batch):
            return
        names = self._texts(batch).to_pylist()
        pids = process_of(batch.integers("globalTid")).tolist()
        for pid, domain, name in zip(pids, batch.integers("domainId").tolist(), names, strict=True):
            if name:
                self._domains[pid, domain] = name

    def _append(self, batch: Batch) -> None:
        session = self._session
        timed, times = session.timed(batch, "NVTX range")
        instant = timed.integers("eventType", _PUSH_POP) == _MARK
        unfinished = ~timed.known("end") & ~instant
        session.losses.skip(
            "NVTX range that never ended: kept as unfinished", int(unfinished.sum())
        )
        if instant.any():
            times["dur"] = pc.if_else(pa.array(instant), 0, times["dur"])
        threads = session.host_threads(timed)
        times["name"] = self._with_domain(
            self._texts(timed), threads[0], timed.integers("domainId")
        )
        _append_spans(session, threads, "annotation", times)

    def _texts(self, batch: Batch) -> pa.Array[Any]:
        """Return the events' texts: their own, else the registered ones."""
        own = batch.column("text")
        if own.null_count == 0:
            return own
        registered = self._session.texts.take(batch.integers("textId", -1))
        return pc.coalesce(own, registered).fill_null("")

    def _with_domain(self, names: pa.Array[Any], pid: Any, domain: Any) -> pa.Array[Any]:
        """Put the name of its domain before a name, as `NCCL:ncclAllReduce`."""
        if not self._domains or not domain.any():
            return names
        prefixes = [
            f"{self._domains[key]}:" if key in self._domains else ""
            for key in zip(pid.tolist(), domain.tolist(), strict=True)
        ]
        return joined(pa.array(prefixes, pa.string()), names, "")


def add_libraries(session: Session) -> None:
    """Append calls of libraries and of the system as spans of level `library`."""
    for table in session.export.names:
        if not _LIBRARIES.fullmatch(table):
            continue
        prefix = table.split("_")[0]
        chains = Callchains(session, f"{prefix}_CALLCHAINS")
        columns = ("start", "end", "globalTid", "nameId", "textId", "callchainId")
        for batch in session.batches(table, *columns):
            timed, times = session.timed(batch, f"call in {table}", ends=True)
            threads = session.host_threads(timed)
            own = session.texts.places(timed.integers("nameId", -1))
            places = np.where(own >= 0, own, session.texts.places(timed.integers("textId", -1)))
            times["name"] = taken(session.texts.values, places).fill_null(prefix)
            times["stack_id"] = chains.stacks(timed.integers("callchainId"), threads[0])
            _append_spans(session, threads, "library", times)


def _append_spans(
    session: Session,
    threads: tuple[Integers, Integers],
    level: str,
    columns: dict[str, pa.Array[Any]],
) -> None:
    """Append spans on threads, given as process and thread of each."""
    pid, tid = threads
    none = no_ids(len(pid))
    session.append(
        "span",
        {"stack_id": none}
        | columns
        | {
            "pid": pa.array(pid),
            "tid": pa.array(tid),
            "span_id": none,
            "parent_id": none,
            "external_id": none,
            "level": constant(level, len(pid), pa.string()),
        },
    )
