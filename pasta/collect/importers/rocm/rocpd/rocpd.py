"""rocprofv3's database of schema 3 and 4: tables end in the GUID of a process, columns are probed.

Schema 3 keeps process, thread, agent and stream in each row; schema 4 keeps them in tracks, and early files of it
keep times in a table of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pasta.collect.containers.sqlite_tables import SqliteTables
from pasta.collect.demangle import demangled
from pasta.collect.importers.rocm.lookup import Lookup, Lookups
from pasta.collect.importers.rocm.rows import RocmRows, chosen, fitting
from pasta.collect.losses import Losses
from pasta.collect.shaping.copies import copy_device, copy_kind
from pasta.collect.shaping.processes import sound_ends
from pasta.trace_writer import PartWriter

_I64: pa.DataType = pa.int64()
_F64: pa.DataType = pa.float64()
_TEXT: pa.DataType = pa.string()
_U32: pa.DataType = pa.uint32()
_U64: pa.DataType = pa.uint64()
_PREFIX = "rocpd_info_process"
_OWNERS = ("pid", "tid", "agent_id", "queue_id", "stream_id")
_GRAPHS = ("graph_exec_id", "graph_node_id")
_COUNTED = {"start": _I64, "end": _I64, "device": pa.int32(), "launch_id": _U64}
"""What counters need of the kernel that they are of."""
_HOST = -1
_ALLOCATIONS = {"ALLOC": "allocate", "FREE": "release"}
_INSERTED = "calls that the compiler puts around launches and into start-up: left out"
_NO_KERNEL = "counters of no kernel: left out"
_NO_ALLOCATION = "memory event that is no allocation or release: left out"


def read(tables: SqliteTables, lookups: Lookups, part: PartWriter, losses: Losses) -> int:
    """Append what a database holds, and return its first process."""
    suffixes = [name[len(_PREFIX) :] for name in tables.names if name.lower().startswith(_PREFIX)]
    pids = [_Recording(tables, suffix, lookups, part, losses).read() for suffix in suffixes]
    return next(iter(pids), 0)


class _Recording:
    """The tables of one process: those that end in its GUID."""

    def __init__(
        self,
        tables: SqliteTables,
        suffix: str,
        lookups: Lookups,
        part: PartWriter,
        losses: Losses,
    ) -> None:
        self._tables = tables
        self._lookups = lookups
        self._suffix = suffix
        self._part = part
        self._losses = losses
        self._texts = self._lookup("string", string=_TEXT)
        self._threads = self._lookup("info_thread", tid=_I64)
        self._tracks = self._lookup("track", **dict.fromkeys(_OWNERS, _I64))
        self._times = self._lookup("timestamp", value=_I64)
        self._agents = self._lookup(
            "info_agent", type=_TEXT, absolute_index=_I64, name=_TEXT, product_name=_TEXT
        )
        self._devices = self._ordinals()
        self._processes = self._lookup(
            "info_process", pid=_I64, ppid=_I64, command=_TEXT, nid=_I64, init=_I64, fini=_I64,
            start=_I64, end=_I64,
        )  # fmt: skip
        pids = [pid for pid in self._processes.rows["pid"].to_pylist() if pid]
        self._rows = RocmRows(part, losses, pids[0] if pids else 0)
        self._read_events()

    def read(self) -> int:
        """Write the rows of all tables; return the process id of the recorded program, 0 where unknown."""
        self._read_regions()
        self._read_counters(self._read_kernels())
        self._read_copies()
        self._read_allocations()
        self._rows.finish()
        self._part.append("process", self._process())
        self._part.append("device", self._device_rows())
        return self._rows.pid

    def _lookup(self, table: str, **columns: pa.DataType) -> Lookup:
        return self._lookups.of_table(f"rocpd_{table}{self._suffix}", columns)

    def _batches(self, table: str, columns: dict[str, pa.DataType]) -> Any:
        """Yield batches of a table with start, end and owners, whichever way it keeps them."""
        name = f"rocpd_{table}{self._suffix}"
        wanted = {
            **columns,
            **dict.fromkeys((*_OWNERS, "start", "end", "start_id", "end_id", "track_id"), _I64),
        }
        there = set(self._tables.columns(name))
        for batch in self._tables.read(name, wanted):
            told = {field: batch[field] for field in batch.schema.names}
            if "track_id" in there:
                owners = self._tracks.of(batch["track_id"], *_OWNERS)
                told.update(zip(_OWNERS, owners, strict=True))
            if "start_id" in there:
                for moment in ("start", "end"):
                    (told[moment],) = self._times.of(batch[f"{moment}_id"], "value")
            (threads,) = self._threads.of(told["tid"], "tid")
            told["tid"] = pc.coalesce(threads, told["tid"])
            yield told

    def _read_events(self) -> None:
        """Read what events are, and the messages of roctx ranges."""
        categories = self._lookup("info_category", name=_TEXT)
        events = self._lookup("event", category_id=_I64, stack_id=_I64)
        source, column = (
            (categories, "name") if categories.rows.num_rows else (self._texts, "string")
        )
        known = events.distinct("category_id")
        (names,) = source.of(known, column)
        self._category_names = dict(zip(known.to_pylist(), names.to_pylist(), strict=True))
        self._events = events
        self._messages = self._read_messages()

    def _read_messages(self) -> Lookup:
        found = self._lookups.empty({"message": _TEXT})
        marks = [
            number
            for number, name in self._category_names.items()
            if (name or "").startswith("MARKER")
        ]
        wanted = {"id": _I64, "category_id": _I64, "extdata": _TEXT}
        if not marks:
            return found
        for batch in self._tables.read(f"rocpd_event{self._suffix}", wanted):
            chosen_rows = batch.filter(pc.is_in(batch["category_id"], pa.array(marks, _I64)))
            messages = [_message(text) for text in chosen_rows["extdata"].to_pylist()]
            columns = {"id": chosen_rows["id"], "message": pa.array(messages, _TEXT)}
            found.add(pa.RecordBatch.from_pydict(columns))
        return found

    def _read_regions(self) -> None:
        for told in self._batches("region", {"name_id": _I64, "event_id": _I64}):
            (names,) = self._texts.of(told["name_id"], "string")
            numbers, correlations = self._events.of(told["event_id"], "category_id", "stack_id")
            categories = [self._category_names.get(number) or "" for number in numbers.to_pylist()]
            marks = np.array([name.startswith("MARKER") for name in categories], dtype=bool)
            inserted = np.array(["COMPILER" in name for name in categories], dtype=bool)
            self._losses.skip(_INSERTED, int(inserted.sum()))
            common = {name: told[name] for name in ("start", "end", "tid")}
            (messages,) = self._messages.of(told["event_id"], "message")
            spans = {**common, "name": pc.coalesce(messages, names)}
            self._rows.spans(chosen(spans, marks))
            calls = {**common, "name": names, "correlation": _id(correlations)}
            self._rows.calls(chosen(calls, ~marks & ~inserted))

    def _read_kernels(self) -> Lookup:
        """Append kernels; return what of them counters need, by event, if there are any."""
        symbols = self._lookup(
            "info_kernel_symbol", kernel_name=_TEXT, display_name=_TEXT, group_segment_size=_I64,
            arch_vgpr_count=_I64, accum_vgpr_count=_I64,
        )  # fmt: skip
        sizes = [f"{size}_size_{axis}" for size in ("workgroup", "grid") for axis in "xyz"]
        wanted = dict.fromkeys(
            ("kernel_id", "dispatch_id", "private_segment_size", "group_segment_size", "event_id",
             *_GRAPHS, *sizes), _I64
        )  # fmt: skip
        counters = self._tables.read(f"rocpd_pmc_event{self._suffix}", {"id": _I64})
        counted = next(counters, None) is not None
        kernels = self._lookups.empty(_COUNTED, key="event_id")
        for told in self._batches("kernel_dispatch", wanted):
            columns = self._kernel_columns(told, symbols)
            self._rows.kernels(columns)
            if counted:
                kept = {name: columns[name] for name in _COUNTED}
                kernels.add(pa.RecordBatch.from_pydict({"event_id": told["event_id"], **kept}))
        return kernels

    def _kernel_columns(self, told: dict[str, Any], symbols: Lookup) -> dict[str, pa.Array[Any]]:
        mangled, shown, static, vector, accumulation = symbols.of(
            told["kernel_id"], "kernel_name", "display_name", "group_segment_size",
            "arch_vgpr_count", "accum_vgpr_count",
        )  # fmt: skip
        (correlations,) = self._events.of(told["event_id"], "stack_id")
        columns = {
            **{name: told[name] for name in ("start", "end")},
            "device": self._device_column(told["agent_id"]),
            "launch_id": _id(told["dispatch_id"]),
            "correlation": _id(correlations),
            "graph_id": _id(told["graph_exec_id"]),
            "graph_node_id": _id(told["graph_node_id"]),
            "stream": pc.coalesce(told["stream_id"], told["queue_id"]),
            "name": _kernel_names(shown, mangled, told["kernel_id"]),
            "registers": fitting(pc.add(vector, accumulation.fill_null(0)), _U32),
            "static_shared": fitting(static, _U32),
            "shared_bytes": fitting(told["group_segment_size"], _U32),
            "local_bytes": fitting(told["private_segment_size"], _U64),
        }
        for axis in "xyz":
            columns[f"block_{axis}"] = fitting(told[f"workgroup_size_{axis}"], _U32)
            columns[f"threads_{axis}"] = told[f"grid_size_{axis}"]
        return columns

    def _read_counters(self, kernels: Lookup) -> None:
        """Append the counters of kernels, summed over the parts of the device."""
        described = self._lookup("info_pmc", name=_TEXT, symbol=_TEXT, units=_TEXT)
        for event_ids, counters, values in self._counter_sums():
            known: pa.Array[Any] = pa.array(event_ids, mask=event_ids == 0)
            of_kernel = dict(zip(_COUNTED, kernels.of(known, *_COUNTED), strict=True))
            found = of_kernel["launch_id"].is_valid().to_numpy(zero_copy_only=False)
            self._losses.skip(_NO_KERNEL, int((~found).sum()))
            names, symbols, units = described.of(counters, "name", "symbol", "units")
            counted = {
                "name": pc.coalesce(names, symbols).fill_null(""),
                "unit": units.fill_null(""),
                "value": values,
            }
            if found.any():
                self._rows.metrics(chosen({**of_kernel, **counted}, found))

    def _counter_sums(self) -> Iterator[tuple[NDArray[np.int64], pa.Array[Any], pa.Array[Any]]]:
        """Yield events, counters and values; the rows of one event stand together."""
        schema = {"event_id": _I64, "pmc_id": _I64, "value": _F64}
        rest = pa.table({name: pa.array([], kind) for name, kind in schema.items()})
        for batch in self._tables.read(f"rocpd_pmc_event{self._suffix}", schema):
            rows = pa.concat_tables([rest, pa.Table.from_batches([batch])])
            if rows.num_rows == 0:
                continue
            events = _known_ids(rows["event_id"].combine_chunks())
            last = events == events[-1]
            yield _sums(rows.filter(pa.array(~last)))
            rest = rows.filter(pa.array(last))
        yield _sums(rest)

    def _read_copies(self) -> None:
        wanted = dict.fromkeys(
            ("name_id", "dst_agent_id", "src_agent_id", "dst_address", "src_address", "size",
             "event_id"), _I64
        )  # fmt: skip
        for told in self._batches("memory_copy", wanted):
            sources, destinations = (
                self._device_column(told[f"{end}_agent_id"]).to_pylist() for end in ("src", "dst")
            )
            (names,) = self._texts.of(told["name_id"], "string")
            ends = list(zip(sources, destinations, strict=True))
            kinds = [
                name if None in (source, destination) else copy_kind(source or 0, destination or 0)
                for (source, destination), name in zip(ends, names.to_pylist(), strict=True)
            ]
            devices = [
                None if source is None or destination is None else copy_device(source, destination)
                for source, destination in ends
            ]
            (correlations,) = self._events.of(told["event_id"], "stack_id")
            self._rows.copies(
                {
                    **{name: told[name] for name in ("start", "end")},
                    "device": pa.array(devices, pa.int32()),
                    "correlation": _id(correlations),
                    "stream": pc.coalesce(told["stream_id"], told["queue_id"]),
                    "kind": pa.array(kinds, _TEXT),
                    "source_address": told["src_address"].view(_U64),
                    "destination_address": told["dst_address"].view(_U64),
                    "bytes": told["size"],
                }
            )

    def _read_allocations(self) -> None:
        wanted = {"type": _TEXT, "level": _TEXT, "address": _I64, "size": _I64}
        for told in self._batches("memory_allocate", wanted):
            scratch = [level == "SCRATCH" for level in told["level"].to_pylist()]
            events = [
                None if skipped else _ALLOCATIONS.get(kind or "")
                for kind, skipped in zip(told["type"].to_pylist(), scratch, strict=True)
            ]
            kept = np.array([event is not None for event in events], dtype=bool)
            self._losses.skip(_NO_ALLOCATION, int((~kept).sum()))
            devices = self._device_column(told["agent_id"])
            spaces = ["pinned" if device == _HOST else "device" for device in devices.to_pylist()]
            columns = {
                **{name: told[name] for name in ("start", "end", "tid")},
                "event": pa.array(events, _TEXT),
                "device": devices,
                "space": pa.array(spaces, _TEXT),
                "address": told["address"].view(_U64),
                "bytes": told["size"],
            }
            self._rows.allocations(chosen(columns, kept))

    def _ordinals(self) -> dict[int, int]:
        """Return the ordinal of each agent among the GPUs, in order of their nodes; -1: a host."""
        agents = sorted(self._agents.rows.to_pylist(), key=lambda row: row["absolute_index"] or 0)
        gpus = [row["id"] for row in agents if row["type"] == "GPU"]
        return {row["id"]: gpus.index(row["id"]) if row["id"] in gpus else _HOST for row in agents}

    def _device_column(self, agents: pa.Array[Any]) -> pa.Array[Any]:
        encoded = agents.dictionary_encode()
        devices = [self._devices.get(agent or 0) for agent in encoded.dictionary.to_pylist()]
        return pa.array(devices, pa.int32()).take(encoded.indices)

    def _process(self) -> pa.Table:
        nodes = self._lookup("info_node", hostname=_TEXT)
        rows = self._processes.rows.slice(0, 1)
        columns = {name: rows[name].combine_chunks() for name in rows.column_names}
        (hosts,) = nodes.of(columns["nid"], "hostname")
        started = _time(pc.coalesce(columns["init"], columns["start"]))
        ended = _time(pc.coalesce(columns["fini"], columns["end"]))
        return pa.table(
            {
                "pid": columns["pid"].fill_null(0),
                "parent_pid": columns["ppid"],
                "host": hosts,
                "command": columns["command"],
                "started": started,
                "ended": sound_ends(started, ended, self._losses),
            }
        )

    def _device_rows(self) -> pa.Table:
        gpus = [row for row in self._agents.rows.to_pylist() if self._devices[row["id"]] >= 0]
        gpus.sort(key=lambda row: self._devices[row["id"]])
        return pa.table(
            {
                "pid": pa.array([self._rows.pid] * len(gpus), _I64),
                "device": pa.array([self._devices[row["id"]] for row in gpus], pa.int32()),
                "vendor": pa.array(["amd"] * len(gpus), _TEXT),
                "name": pa.array([row["product_name"] or row["name"] for row in gpus], _TEXT),
                "compute_capability": pa.array([row["name"] for row in gpus], _TEXT),
            }
        )


def _sums(rows: pa.Table) -> tuple[NDArray[np.int64], pa.Array[Any], pa.Array[Any]]:
    """Return event, counter and sum for each pair of the first two, in order."""
    sums = pa.TableGroupBy(rows, ["event_id", "pmc_id"], use_threads=False).aggregate(
        [("value", "sum")]
    )
    columns = (sums[name].combine_chunks() for name in ("event_id", "pmc_id", "value_sum"))
    events, counters, values = columns
    return _known_ids(events), counters, values


def _known_ids(ids: pa.Array[Any]) -> NDArray[np.int64]:
    known: NDArray[np.int64] = ids.fill_null(0).to_numpy(zero_copy_only=False)
    return known


def _kernel_names(
    shown: pa.Array[Any], mangled: pa.Array[Any], ids: pa.Array[Any]
) -> pa.Array[Any]:
    names = [
        display or (symbol and demangled(symbol.removesuffix(".kd"))) or f"kernel {number}"
        for display, symbol, number in zip(
            shown.to_pylist(), mangled.to_pylist(), ids.to_pylist(), strict=True
        )
    ]
    return pa.array(names, _TEXT)


def _id(values: pa.Array[Any]) -> pa.Array[Any]:
    """Return ids as u64; those that are unknown or negative are 0."""
    known: Any = values.fill_null(0)
    ids: pa.Array[Any] = pc.if_else(pc.greater(known, pa.scalar(0)), known, pa.scalar(0)).cast(_U64)
    return ids


def _time(values: pa.Array[Any]) -> pa.Array[Any]:
    """Return times, null where one is none."""
    inside = pc.and_(pc.greater(values, pa.scalar(0)), pc.less(values, pa.scalar(1 << 61)))
    times: pa.Array[Any] = pc.if_else(inside, values, pa.scalar(None, values.type))
    return times


def _message(extra: str | None) -> str | None:
    try:
        told = json.loads(extra or "{}")
    except (ValueError, RecursionError):
        return None
    message = told.get("message") if isinstance(told, dict) else None
    return message if isinstance(message, str) and message else None
