"""NVML through ctypes: what a card tells of itself, without a package of Python bindings.

Numbers of functions, fields and errors are those of NVIDIA's NVML API reference.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass

NAME = "libnvidia-ml.so.1"
NOT_TO_BE_HAD = frozenset({3, 4, 13})
"""Errors that stay: not supported, not permitted, not in this driver's library."""
_NO_SUCH_FUNCTION = 13
_SM, _MEMORY = 1, 2
_OF_THE_CHIP = 0
_MEMORY_TEMPERATURE, _POWER_NOW, _NVLINK_SPEED = 82, 186, 90
_UNSIGNED_64, _DOUBLE = 3, 0
_TEXT_BYTES = 96
_LINKS = range(36)
_PEERS = {0: "gpu", 1: "cpu", 2: "switch"}
_NVLINK_VERSIONS = ("", "1.0", "2.0", "2.2", "3.0", "3.1", "4.0", "5.0", "6.0")

THROTTLE_REASONS = (
    "idle",
    "clocks_setting",
    "power_cap",
    "hardware",
    "sync_boost",
    "thermal",
    "thermal_hardware",
    "power_brake",
    "display",
)
"""What keeps clocks down, by bit of NVML's mask."""


class NvmlError(Exception):
    """A call that NVML refused; `code` is NVML's own."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class _Pci(ctypes.Structure):
    _fields_ = (
        ("legacy", ctypes.c_char * 16),
        ("numbers", ctypes.c_uint * 5),
        ("bus", ctypes.c_char * 32),
    )


class _Utilisation(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Value(ctypes.Union):
    _fields_ = (
        ("double", ctypes.c_double),
        ("unsigned", ctypes.c_uint),
        ("unsigned_long", ctypes.c_ulonglong),
    )


class _Field(ctypes.Structure):
    _fields_ = (
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong),
        ("kind", ctypes.c_int),
        ("code", ctypes.c_int),
        ("value", _Value),
    )


class Library:
    """The loaded and initialised library.

    Args:
        path: the library's name or path.

    Raises:
        OSError: it cannot be loaded.
        NvmlError: it finds no driver.
    """

    def __init__(self, path: str = NAME) -> None:
        self._library = ctypes.CDLL(path)
        self._library.nvmlErrorString.restype = ctypes.c_char_p
        self.call("nvmlInit_v2")

    def call(self, function: str, *arguments: object) -> None:
        """Call a function of NVML.

        Raises:
            NvmlError: NVML refuses, or has no such function.
        """
        called = getattr(self._library, function, None)
        code = _NO_SUCH_FUNCTION if called is None else called(*arguments)
        if code:
            raise NvmlError(code, self.error_text(code))

    def error_text(self, code: int) -> str:
        """Return what NVML calls an error."""
        text: bytes | None = self._library.nvmlErrorString(code)
        return (text or b"error %d" % code).decode(errors="replace").lower()

    def cards(self) -> list[Card]:
        """Return the cards that this process may see, in the order of the PCI bus."""
        count = ctypes.c_uint()
        self.call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        return [Card(self, index) for index in range(count.value)]


@dataclass(frozen=True)
class NvLink:
    """An NVLink of a card that is active.

    Attributes:
        peer: what is at its other end: `gpu`, `switch`, `cpu`; empty: NVML does not tell.
        bus: the peer's address on the PCI bus; empty: NVML does not tell.
        version: as `4.0`; empty: NVML does not tell, or it is newer than what is known here.
        bandwidth: bytes per second in one direction; `None`: NVML does not tell.
    """

    peer: str
    bus: str
    version: str
    bandwidth: int | None


class Card:
    """One card.

    Raises:
        NvmlError: it cannot be opened.
    """

    def __init__(self, library: Library, index: int) -> None:
        self._library = library
        self._handle = ctypes.c_void_p()
        library.call("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(self._handle))
        self.name = self._text("nvmlDeviceGetName")
        self.uuid = self._text("nvmlDeviceGetUUID")

    def about(self) -> dict[str, object]:
        """Return the card as columns of the `device` table, without its ordinal."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        known: dict[str, object] = {"vendor": "nvidia", "name": self.name, "uuid": self.uuid}
        try:
            known["memory_bytes"] = self._memory().total
            function = "nvmlDeviceGetCudaComputeCapability"
            self._call(function, ctypes.byref(major), ctypes.byref(minor))
            known["compute_capability"] = f"{major.value}.{minor.value}"
        except NvmlError:
            pass  # a card that tells less of itself is sampled all the same
        return known

    def memory_bytes(self) -> int | None:
        """Return all of its memory in bytes; `None`: NVML does not tell."""
        try:
            return int(self._memory().total)
        except NvmlError:
            return None

    @property
    def bus(self) -> str:
        """Its address on the PCI bus as Linux writes it, `0000:17:00.0`; empty: NVML does not tell."""
        return self._bus("nvmlDeviceGetPciInfo_v3")

    def nvlinks(self) -> list[NvLink]:
        """Return its NVLinks that are active; none where it has none."""
        try:
            speed = int(self._field(_NVLINK_SPEED)) * 10**6  # of each link, in MB/s
        except NvmlError:
            speed = 0
        return [self._nvlink(link, speed or None) for link in filter(self._is_active, _LINKS)]

    def _is_active(self, link: int) -> bool:
        return bool(self._number_or("nvmlDeviceGetNvLinkState", link, other=0))

    def _nvlink(self, link: int, bandwidth: int | None) -> NvLink:
        peer = self._number_or("nvmlDeviceGetNvLinkRemoteDeviceType", link, other=-1)
        version = self._number_or("nvmlDeviceGetNvLinkVersion", link, other=0)
        known = version < len(_NVLINK_VERSIONS)
        return NvLink(
            _PEERS.get(peer, ""),
            self._bus("nvmlDeviceGetNvLinkRemotePciInfo_v2", link),
            _NVLINK_VERSIONS[version] if known else "",
            bandwidth,
        )

    def sm_clock(self) -> int:
        """Return the clock of the multiprocessors in MHz."""
        return self._number("nvmlDeviceGetClockInfo", _SM)

    def memory_clock(self) -> int:
        """Return the clock of the memory in MHz."""
        return self._number("nvmlDeviceGetClockInfo", _MEMORY)

    def power(self) -> int:
        """Return the power in mW, which most cards average over a second."""
        return self._number("nvmlDeviceGetPowerUsage")

    def power_now(self) -> float:
        """Return the power of this instant in mW."""
        return self._field(_POWER_NOW)

    def energy(self) -> int:
        """Return the energy spent since the driver was loaded, in mJ."""
        spent = ctypes.c_ulonglong()
        self._call("nvmlDeviceGetTotalEnergyConsumption", ctypes.byref(spent))
        return spent.value

    def temperature(self) -> int:
        """Return the temperature of the chip in degrees Celsius."""
        return self._number("nvmlDeviceGetTemperature", _OF_THE_CHIP)

    def memory_temperature(self) -> float:
        """Return the temperature of the memory in degrees Celsius."""
        return self._field(_MEMORY_TEMPERATURE)

    def memory_used(self) -> int:
        """Return the device memory in use, by all processes and the driver, in bytes."""
        return int(self._memory().used)

    def utilisation(self) -> tuple[int, int]:
        """Return the share of time in which a kernel ran and in which memory moved, in percent."""
        busy = _Utilisation()
        self._call("nvmlDeviceGetUtilizationRates", ctypes.byref(busy))
        return busy.gpu, busy.memory

    def throttling(self) -> tuple[int, ...]:
        """Return 1 for each of `THROTTLE_REASONS` that holds, else 0."""
        mask = ctypes.c_ulonglong()
        self._call("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.byref(mask))
        return tuple(mask.value >> bit & 1 for bit in range(len(THROTTLE_REASONS)))

    def _call(self, function: str, *arguments: object) -> None:
        self._library.call(function, self._handle, *arguments)

    def _number(self, function: str, *arguments: object) -> int:
        number = ctypes.c_uint()
        self._call(function, *arguments, ctypes.byref(number))
        return number.value

    def _number_or(self, function: str, *arguments: object, other: int) -> int:
        """Return a number, or another where NVML does not tell it."""
        try:
            return self._number(function, *arguments)
        except NvmlError:
            return other

    def _bus(self, function: str, *arguments: object) -> str:
        pci = _Pci()
        try:
            self._call(function, *arguments, ctypes.byref(pci))
        except NvmlError:
            return ""
        address = bytes(pci.bus).decode(errors="replace").lower()
        return address[-len("0000:17:00.0") :]  # NVML writes eight digits of the domain

    def _text(self, function: str) -> str:
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        self._call(function, text, _TEXT_BYTES)
        return text.value.decode(errors="replace")

    def _memory(self) -> _Memory:
        memory = _Memory()
        self._call("nvmlDeviceGetMemoryInfo", ctypes.byref(memory))
        return memory

    def _field(self, number: int) -> float:
        field = _Field(field=number)
        self._call("nvmlDeviceGetFieldValues", 1, ctypes.byref(field))
        if field.code:
            raise NvmlError(field.code, self._library.error_text(field.code))
        if field.kind == _DOUBLE:
            return float(field.value.double)
        return int(
            field.value.unsigned_long if field.kind == _UNSIGNED_64 else field.value.unsigned
        )


@dataclass(frozen=True)
class Reading:
    """What one call reads: the metrics that it gives, in order, and their unit."""

    read: Callable[[Card], object]
    unit: str
    names: tuple[str, ...]


READINGS: Mapping[str, Reading] = {
    reading.names[0]: reading
    for reading in (
        Reading(Card.sm_clock, "MHz", ("sm_clock",)),
        Reading(Card.memory_clock, "MHz", ("memory_clock",)),
        Reading(Card.power, "mW", ("power",)),
        Reading(Card.power_now, "mW", ("power_now",)),
        Reading(Card.energy, "mJ", ("energy",)),
        Reading(Card.temperature, "C", ("temperature",)),
        Reading(Card.memory_temperature, "C", ("memory_temperature",)),
        Reading(Card.memory_used, "bytes", ("memory_used",)),
        Reading(Card.utilisation, "%", ("utilisation", "memory_utilisation")),
        Reading(Card.throttling, "flag", tuple(f"throttle_{name}" for name in THROTTLE_REASONS)),
    )
}
"""Everything that is sampled, by the name of its first metric."""
