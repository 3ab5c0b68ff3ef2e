"""What one process of a rocprofv3 file tells beside its records: who it is, and what numbers mean."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

from pasta.collect.demangle import demangled
from pasta.collect.importers.rocm.rocprofv3_json.records import Agent, Counter, Symbol
from pasta.collect.losses import Losses
from pasta.collect.shaping.processes import sound_ends

GPU = 2
_OBJECT_SUFFIX = ".kd"
_KIB = 1024
_UNKNOWN_AGENT = "agent that the file does not describe: given a device of its own"
_UNKNOWN_COUNTER = "counter that the file does not describe: named by its number"
_UNKNOWN_KERNEL = "kernel without a symbol: named by its number"


class Described:
    """The descriptions of one process; they grow while the file is read.

    Attributes:
        metadata: the process.
        agents: processors by handle.
        symbols: kernels by id.
        counters: names of counters by handle.
        messages: texts of roctx ranges and marks by correlation.
    """

    def __init__(self) -> None:
        self.metadata: dict[str, Any] = {}
        self.agents: dict[int, Agent] = {}
        self.symbols: dict[int, Symbol] = {}
        self.counters: dict[int, str] = {}
        self.messages: dict[int, str] = {}
        self._operations: dict[str, list[tuple[str, list[str]]]] = {}
        self._devices: dict[int, int] = {}
        self._last_device = -1

    @property
    def pid(self) -> int:
        """The process; 0: unknown."""
        pid = self.metadata.get("pid")
        return pid if type(pid) is int and 0 <= pid < 1 << 63 else 0

    def take(self, path: Sequence[str], value: Any) -> None:
        """Take a description that stands at a path below the process."""
        match tuple(path):
            case ("metadata",) if isinstance(value, dict):
                self.metadata = value
            case ("agents",):
                self._take_agents(_list(value))
            case ("kernel_symbols",):
                self.symbols.update((symbol.kernel_id, symbol) for symbol in _list(value))
            case ("counters",):
                self._take_counters(_list(value))
            case ("strings", "buffer_records" | "callback_records" as group):
                self._operations[group] = [_operations(each) for each in _list(value)]
            case ("strings", "marker_api"):
                self.messages.update(_pairs(value))

    def _take_agents(self, agents: list[Agent]) -> None:
        for agent in agents:
            if agent.id.handle is not None:
                self.agents[agent.id.handle] = agent
        gpus = [agent for agent in self.agents.values() if agent.type == GPU]
        gpus.sort(key=lambda agent: agent.node_id)
        self._devices = dict.fromkeys(self.agents, -1)
        for ordinal, agent in enumerate(gpus):
            self._devices[agent.id.handle or 0] = ordinal
        self._last_device = len(gpus) - 1

    def _take_counters(self, counters: list[Counter]) -> None:
        for counter in counters:
            if counter.id.handle is not None:
                self.counters[counter.id.handle] = counter.name

    def devices(self, handles: Sequence[int | None], losses: Losses) -> list[int]:
        """Return the ordinals of agents among the GPUs, in order of their nodes; -1 is the host."""
        return [self.device(handle, losses) for handle in handles]

    def device_column(self, handles: pa.Array[Any], losses: Losses) -> pa.Array[Any]:
        """Return ordinals as `devices` does, of many rows."""
        encoded = handles.dictionary_encode(null_encoding="encode")
        ordinals = self.devices(encoded.dictionary.to_pylist(), losses)
        return pa.array(ordinals, pa.int32()).take(encoded.indices)

    def device(self, handle: int | None, losses: Losses) -> int:
        """Return the ordinal of one agent."""
        handle = handle or 0
        if handle not in self._devices:
            losses.fault(_UNKNOWN_AGENT)
            self._last_device += 1
            self._devices[handle] = self._last_device
        return self._devices[handle]

    def operation(self, group: str, kind: int, operation: int) -> tuple[str, str]:
        """Return what a kind of records and one of its operations are called; empty: unknown.

        Args:
            group: `buffer_records` or `callback_records`, which number kinds in their own ways.
            kind: the kind.
            operation: the operation.
        """
        kinds = self._operations.get(group, [])
        name, operations = kinds[kind] if 0 <= kind < len(kinds) else ("", [])
        return name, operations[operation] if 0 <= operation < len(operations) else ""

    def counter(self, handle: int, losses: Losses) -> str:
        """Return what a counter is called."""
        name = self.counters.get(handle, "")
        losses.fault(_UNKNOWN_COUNTER, 0 if name else 1)
        return name or f"counter {handle}"

    def kernel_columns(self, ids: pa.Array[Any], losses: Losses) -> dict[str, pa.Array[Any]]:
        """Return name, registers and static LDS of kernels, by the columns of `kernel`.

        Names, which are long and few, are a dictionary.
        """
        encoded = ids.dictionary_encode(null_encoding="encode")
        known = [self._symbol(kernel_id, losses) for kernel_id in encoded.dictionary.to_pylist()]
        columns: dict[str, pa.Array[Any]] = {
            "registers": pa.array([_registers(symbol) for symbol in known], pa.uint32()),
            "static_shared": pa.array(
                [_u32(symbol.group_segment_size) for symbol in known], pa.uint32()
            ),
        }
        taken = {name: column.take(encoded.indices) for name, column in columns.items()}
        names = pa.array([kernel_name(symbol) for symbol in known], pa.string())
        return taken | {"name": pa.DictionaryArray.from_arrays(encoded.indices, names)}

    def _symbol(self, kernel_id: int | None, losses: Losses) -> Symbol:
        symbol = self.symbols.get(-1 if kernel_id is None else kernel_id)
        if symbol is None:
            losses.fault(_UNKNOWN_KERNEL)
            return Symbol(0, formatted_kernel_name=f"kernel {kernel_id}")
        return symbol

    def process_row(self, losses: Losses) -> pa.Table:
        """Return the row of `process`; an end that cannot be is counted."""
        node, command = self.metadata.get("node"), self.metadata.get("command")
        host = node.get("hostname") if isinstance(node, dict) else None
        started, ended = (
            pa.array([_time(self.metadata.get(key))], pa.int64())
            for key in ("init_time", "fini_time")
        )
        return pa.table(
            {
                "pid": pa.array([self.pid], pa.int64()),
                "host": pa.array([host if isinstance(host, str) else None]),
                "command": pa.array([" ".join(map(str, _list(command))) or None], pa.string()),
                "started": started,
                "ended": sound_ends(started, ended, losses),
            }
        )

    def device_rows(self) -> pa.Table:
        """Return a row of `device` for each GPU."""
        gpus = [
            (ordinal, self.agents[handle])
            for handle, ordinal in sorted(self._devices.items(), key=itemgetter(1))
            if ordinal >= 0 and handle in self.agents
        ]
        rows = len(gpus)
        columns = {
            "pid": pa.array([self.pid] * rows, pa.int64()),
            "device": pa.array([ordinal for ordinal, _ in gpus], pa.int32()),
            "vendor": pa.array(["amd"] * rows, pa.string()),
            "name": pa.array([agent.product_name or agent.name for _, agent in gpus], pa.string()),
            "uuid": pa.array([_uuid(agent.uuid) for _, agent in gpus], pa.string()),
            "memory_bytes": pa.array([_memory_bytes(agent) for _, agent in gpus], pa.int64()),
            "multiprocessors": pa.array([_i32(agent.cu_count) for _, agent in gpus], pa.int32()),
            "compute_capability": pa.array([agent.name for _, agent in gpus], pa.string()),
            "cache_bytes": pa.array([_cache_bytes(agent) for _, agent in gpus], pa.int64()),
        }
        return pa.table(columns)


def kernel_name(symbol: Symbol) -> str:
    """Return the name that rocprofv3 would print, else the demangled one."""
    return symbol.formatted_kernel_name or demangled(
        symbol.kernel_name.removesuffix(_OBJECT_SUFFIX)
    )


def _registers(symbol: Symbol) -> int | None:
    if symbol.arch_vgpr_count is None:
        return None
    return _u32(symbol.arch_vgpr_count + (symbol.accum_vgpr_count or 0))


def _memory_bytes(agent: Agent) -> int | None:
    size = sum(bank.size_in_bytes for bank in agent.mem_banks)
    return size if 0 < size < 1 << 63 else None


def _cache_bytes(agent: Agent) -> int | None:
    last = max((cache.level for cache in agent.caches), default=0)
    size = sum(cache.size for cache in agent.caches if cache.level == last) * _KIB
    return size if 0 < size < 1 << 63 else None


def _uuid(value: Any) -> str | None:
    """Return the bytes of an id in hexadecimal; they are given one by one, in order."""
    numbers = value.get("bytes") if isinstance(value, dict) else None
    if not isinstance(numbers, dict):
        return None
    try:
        return bytes(numbers.values()).hex()
    except (ValueError, TypeError):
        return None


def _operations(value: Any) -> tuple[str, list[str]]:
    if not isinstance(value, dict):
        return "", []
    return str(value.get("kind", "")), [str(name) for name in _list(value.get("operations"))]


def _pairs(value: Any) -> list[tuple[int, str]]:
    """Return the entries of a map from numbers to texts, as written: key and value."""
    return [
        (entry["key"], entry["value"])
        for entry in _list(value)
        if isinstance(entry, dict)
        and type(entry.get("key")) is int
        and isinstance(entry.get("value"), str)
    ]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _time(value: Any) -> int | None:
    return value if type(value) is int and 0 < value < 1 << 61 else None


def _u32(value: int | None) -> int | None:
    return value if value is not None and 0 <= value < 1 << 32 else None


def _i32(value: int | None) -> int | None:
    return value if value is not None and 0 <= value < 1 << 31 else None
