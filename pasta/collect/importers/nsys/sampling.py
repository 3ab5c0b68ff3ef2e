"""What was sampled: stacks of threads, their time off the CPUs, counters of GPUs."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa

from pasta.collect.importers.nsys.callchains import Callchains
from pasta.collect.importers.nsys.session import Integers, Session, constant, no_ids
from pasta.collect.importers.nsys.texts import taken

_UNIT = re.compile(r"(.*\S)\s*\[(.*)\]\s*")
_DEVICE_MASK = 0xFF


def add_samples(session: Session) -> None:
    """Append CPU samples with their stacks."""
    columns = ("id", "start", "end", "globalTid", "cpuCycles")
    chains: Callchains | None = None
    for batch in session.batches("COMPOSITE_EVENTS", *columns):
        chains = chains or Callchains(session, "SAMPLING_CALLCHAINS")
        timed, times = session.timed(batch, "sample")
        pid, tid = session.host_threads(timed)
        cycles = timed.integers("cpuCycles")
        session.append(
            "sample",
            {
                "pid": pa.array(pid),
                "tid": pa.array(tid),
                "ts": times["ts"],
                "kind": pa.array(np.where(cycles > 0, "cycles", "samples")),
                "stack_id": chains.stacks(timed.integers("id"), pid),
                "weight": pa.array(np.maximum(cycles, 1).astype(np.float64)),
            },
        )


class Waits:
    """Appends for each thread the time between leaving a CPU and getting one again."""

    def __init__(self, session: Session) -> None:
        self._session = session
        none = np.zeros(0, dtype=np.int64)
        self._left: tuple[Integers, ...] = (none, none, none, none)

    def add(self) -> None:
        """Append those of the whole export."""
        for batch in self._session.batches(
            "SCHED_EVENTS", "start", "end", "globalTid", "isSchedIn"
        ):
            timed, times = self._session.timed(batch, "switch of threads")
            pid, tid = self._session.host_threads(timed)
            arrived = timed.integers("isSchedIn")
            self._pair(pid, tid, times["ts"].to_numpy(), arrived)

    def _pair(self, *switches: Integers) -> None:
        """Pair each leaving with the next arrival; what waits for one stays for the next batch."""
        columns = [np.concatenate(pair) for pair in zip(self._left, switches, strict=True)]
        order = np.lexsort(columns[2::-1])
        pid, tid, ts, arrived = (column[order] for column in columns)
        if not len(ts):
            return
        same = (pid[:-1] == pid[1:]) & (tid[:-1] == tid[1:])
        waits = same & (arrived[:-1] == 0) & (arrived[1:] != 0)
        sound = waits & (ts[1:] >= ts[:-1])
        self._session.losses.fault(
            "wait of a thread that ends before it begins: left out", int((waits & ~sound).sum())
        )
        last = np.append(~same, True)
        self._left = tuple(column[last] for column in (pid, tid, ts, arrived))
        begin = np.flatnonzero(sound)
        dur = ts[begin + 1] - ts[begin]
        self._session.append(
            "sample",
            {
                "pid": pa.array(pid[begin]),
                "tid": pa.array(tid[begin]),
                "ts": pa.array(ts[begin]),
                "dur": pa.array(dur),
                "kind": constant("off_cpu", len(begin), pa.string()),
                "stack_id": no_ids(len(begin)),
                "weight": pa.array(dur.astype(np.float64)),
            },
        )


def add_gpu_metrics(session: Session) -> None:
    """Append the counters of GPUs over time, each device's on a process that used it."""
    names = _metric_names(session)
    labels = pa.array([name for name, _ in names.values()], pa.string())
    units = pa.array([unit for _, unit in names.values()], pa.string())
    places = {metric: place for place, metric in enumerate(names)}
    owner = {device: pid for pid, device in sorted(session.devices, reverse=True)}
    columns = ("timestamp", "start", "end", "typeId", "metricId", "value")
    for batch in session.batches("GPU_METRICS", *columns):
        timed, times = session.timed(batch.starting("timestamp"), "counter")
        metric, inverse = np.unique(timed.integers("metricId"), return_inverse=True)
        place = np.array([places.get(number, -1) for number in metric.tolist()], dtype=np.int64)
        place = place[inverse] if len(place) else place
        device = (timed.integers("typeId") & _DEVICE_MASK).astype(np.int32)
        numbers, of = np.unique(device, return_inverse=True)
        pids = np.array([owner.get(n, session.fallback_pid) for n in numbers.tolist()], np.int64)
        session.append(
            "metric",
            {
                "pid": pa.array(pids[of] if len(pids) else pids),
                "device": pa.array(device),
                "ts": times["ts"],
                "launch_id": no_ids(len(timed)),
                "name": taken(labels, place),
                "value": timed.column("value"),
                "unit": taken(units, place),
            },
        )


def _metric_names(session: Session) -> dict[int, tuple[str, str]]:
    """Return name and unit of each counter, as `SM Active` and `Throughput %`."""
    found: dict[int, tuple[str, str]] = {}
    for batch in session.batches("TARGET_INFO_GPU_METRICS", "metricId", "metricName"):
        rows: Any = zip(
            batch.integers("metricId").tolist(),
            batch.column("metricName").to_pylist(),
            strict=True,
        )
        for number, name in rows:
            match = _UNIT.fullmatch(name or "")
            found[number] = (match[1], match[2]) if match else (name or "", "")
    return found
