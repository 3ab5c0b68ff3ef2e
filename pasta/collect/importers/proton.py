"""Importer of Triton Proton's tree of frames (hatchet JSON): sums by call path, without times."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from pasta.collect.containers.json_documents import is_small, read_document
from pasta.collect.containers.json_tree import TreeNodes
from pasta.collect.importer import Imported, importer
from pasta.collect.losses import Losses
from pasta.collect.shaping.rows import Rows
from pasta.collect.shaping.stacks import Frame, Stacks
from pasta.collect.sources import Source
from pasta.errors import InputError
from pasta.trace_writer import PartWriter

_KEYS = (b'"children"', b'"frame"', b'"metrics"')
_DEEP = re.compile(rb'\[\s*\{\s*"children"\s*:\s*\[\s*\{\s*"(?:children|frame)"')
_KINDS = {"time (ns)": "device", "count": "launches"}
_DEVICE_KEYS = frozenset({"device_id", "device_type"})
_UNKNOWN = "[unknown]"
_VENDORS = {"CUDA": "nvidia", "HIP": "amd"}
_LARGEST = (1 << 31) - 1


class _Named(Struct, gc=False):
    name: Any = ""


class _Node(Struct):
    """A frame with its metrics, or, as the last of the file, the devices by type and number."""

    frame: _Named | None = None
    metrics: dict[str, Any] = field(default_factory=dict)
    children: list[_Node] = field(default_factory=list)
    cuda: dict[str, Any] = field(default_factory=dict, name="CUDA")
    hip: dict[str, Any] = field(default_factory=dict, name="HIP")


_decode = msgspec.json.Decoder(list[_Node]).decode
_decode_node = msgspec.json.Decoder(_Node).decode
_Path = list[Frame]
_BLOCK_NODES = 1 << 12


@importer("proton")
class Proton:
    """Reads each metric of each frame as one sample of that call path."""

    format = "Triton Proton (hatchet JSON)"
    version = 2
    general = False

    def recognises(self, source: Source) -> bool:
        """Tell whether an array of frames with metrics and children begins."""
        head = source.head.lstrip(b"\xef\xbb\xbf \t\r\n")
        keyed = head[:1] == b"[" and all(key in head for key in _KEYS) and b'"ph"' not in head
        return keyed or _DEEP.match(head) is not None

    def read(self, source: Source, part: PartWriter, losses: Losses) -> Imported:
        """Append the metrics to `sample`, the call paths to `frame`.

        Raises:
            InputError: there is no frame, or the file is damaged beyond use.
        """
        scratch = part.folder.with_name(f"{part.folder.name}-scratch")
        try:
            if is_small(source):
                nodes = _paths(read_document(source, _decode, losses))
            else:
                nodes = _LargeTree(scratch / "nodes", losses).paths(source)
            if not _append(nodes, part, losses):
                raise InputError(f"{source.name}: Proton's file without a frame; record it again")
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return Imported()


def _append(nodes: Iterator[tuple[_Path, _Node]], part: PartWriter, losses: Losses) -> bool:
    """Append the rows of nodes; tell whether there is any frame."""
    samples = Rows(part, "sample", "kind", "pid", "stack_id", "weight")
    stacks = Stacks(part)
    devices: list[_Node] = []
    found = False
    for path, node in nodes:
        found = found or bool(path)
        if node.cuda or node.hip:
            devices.append(node)
        stack = stacks.id_of(path)
        for name, value in node.metrics.items():
            if name in _DEVICE_KEYS or not value:
                continue
            weight = _weight(value)
            if weight is None:
                losses.skip("metric that is no number: left out")
            else:
                samples.add(_KINDS.get(name, name), 0, stack, weight)
    samples.flush()
    stacks.flush()
    _append_origin(devices, part)
    return found


def _weight(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _paths(roots: list[_Node]) -> Iterator[tuple[_Path, _Node]]:
    """Yield the frames from the root, which has no caller and no name, to each node, and the node."""
    waiting: list[tuple[_Path, _Node]] = [([], node) for node in reversed(roots)]
    while waiting:
        outer, node = waiting.pop()
        path = _path(outer, node)
        yield path, node
        waiting += [(path, child) for child in reversed(node.children)]


def _path(outer: _Path, node: _Node) -> _Path:
    name = "" if node.frame is None else str(node.frame.name or "")
    return [*outer, Frame(name or _UNKNOWN)] if outer or name not in ("", "ROOT") else outer


class _LargeTree:
    """A tree too large to be held, whose nodes stand in the file before those that called them.

    They are written in this order and read from the last to the first.

    Args:
        file: for the nodes; its folder is made if absent.
        losses: where damage is counted.
    """

    def __init__(self, file: Path, losses: Losses) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._file = file
        self._losses = losses
        self._sizes: list[int] = []

    def paths(self, source: Source) -> Iterator[tuple[_Path, _Node]]:
        """Yield what `_paths` does, the last node first."""
        self._write(source)
        paths: list[_Path] = [[]]
        for depth, text in self._backwards():
            try:
                node = _decode_node(text)
            except (msgspec.DecodeError, RecursionError):
                self._losses.fault("frame of another form than Proton's: without name and metrics")
                node = _Node()
            paths[depth + 1 :] = [_path(paths[depth], node)]
            yield paths[-1], node

    def _write(self, source: Source) -> None:
        nodes = TreeNodes(source.chunks, "children", self._losses, source.damage)
        block: list[tuple[int, bytes]] = []
        with self._file.open("wb") as file:
            for node in nodes:
                block.append(node)
                if len(block) >= _BLOCK_NODES:
                    self._sizes.append(file.write(msgspec.msgpack.encode(block)))
                    block = []
            self._sizes.append(file.write(msgspec.msgpack.encode(block)))

    def _backwards(self) -> Iterator[tuple[int, bytes]]:
        end = sum(self._sizes)
        with self._file.open("rb") as file:
            for size in reversed(self._sizes):
                end -= size
                file.seek(end)
                block = msgspec.msgpack.decode(file.read(size), type=list[tuple[int, bytes]])
                yield from reversed(block)


def _append_origin(nodes: list[_Node], part: PartWriter) -> None:
    process = Rows(part, "process", "pid", "stack_id")
    process.add(0, 0)
    process.flush()
    rows = Rows(part, "device", "pid", "device", "vendor", "multiprocessors", "compute_capability")
    for node in nodes:
        for kind, devices in (("CUDA", node.cuda), ("HIP", node.hip)):
            for number, described in devices.items():
                if isinstance(described, dict) and number.isdecimal() and len(number) < 9:
                    units = described.get("num_sms")
                    known = units if type(units) is int and 0 <= units <= _LARGEST else None
                    arch = _architecture(kind, described.get("arch"))
                    rows.add(0, int(number), _VENDORS[kind], known, arch)
    rows.flush()


def _architecture(kind: str, arch: Any) -> str | None:
    """Return `9.0` for CUDA's `90`, `gfx942` as it is."""
    if arch is None:
        return None
    text = str(arch)
    return f"{text[:-1]}.{text[-1]}" if kind == "CUDA" and text.isdecimal() else text
