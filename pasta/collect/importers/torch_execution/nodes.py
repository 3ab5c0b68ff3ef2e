"""The nodes of an execution trace, in the layout of 2023 and in the one since (`attrs`)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from pasta.collect.target.torch.views import View

NODE_KEYS = rb'id|name"\s*:\s*"(?:[^"\\]|\\.)*"\s*,\s*"id'
"""What nodes begin with, in either layout, and their attributes do not."""

_TENSOR = re.compile(r"Tensor\(([^()]*)\)")
_SCALARS = frozenset({"Int", "Double", "Bool"})
_NESTED_MAX = 4
_TENSOR_FIELDS = 6
_LARGEST = 1 << 50
_ID_MAX = 1 << 62


class Node(Struct, gc=False):
    """A node as it stands in the file; what the other layout has stays `None`."""

    id: Any = None
    name: Any = None
    parent: Any = None
    ctrl_deps: Any = None
    rf_id: Any = None
    seq_id: Any = None
    tid: Any = None
    op_schema: Any = None
    inputs: Any = None
    input_shapes: Any = None
    input_types: Any = None
    outputs: Any = None
    output_shapes: Any = None
    output_types: Any = None
    attrs: Any = None


decode_nodes: Callable[[bytes], list[Node]] = msgspec.json.Decoder(list[Node]).decode
"""Decodes an array of nodes."""


class Tensor(NamedTuple):
    """A tensor given to an operator or returned by it.

    Attributes:
        position: of the argument or result that it is, or is in.
        storage: the number of its storage.
        device: ordinal; -1 is the host.
        view: its place in the storage.
        exact: whether its strides are known; else it is taken as contiguous.
    """

    position: int
    storage: int
    device: int
    view: View
    exact: bool


class Operation(NamedTuple):
    """A node in one layout.

    Attributes:
        id: the node, counted up in order of begin, as are storages and tensors.
        parent: the node that it ran in.
        sequence: autograd's sequence number; -1: none.
        tid: the thread, as PyTorch numbers threads.
        name: the operator or range.
        schema: the operator's schema; empty where the node is none.
        inputs: the tensors given to it.
        outputs: the tensors that it returned.
        shapes: the shape of each input, as `4x32`; empty text: no tensor.
        types: the element type of each input.
        broken: tensors that are described in no way that can be.
    """

    id: int
    parent: int
    sequence: int
    tid: int
    name: str
    schema: str
    inputs: list[Tensor]
    outputs: list[Tensor]
    shapes: list[str]
    types: list[str]
    broken: int


class _Values(NamedTuple):
    """What a node says of its inputs or outputs, one item each."""

    values: list[Any]
    shapes: list[Any]
    types: list[Any]
    strides: list[Any]


def operation(node: Node) -> Operation | None:
    """Return what a node says; `None`: it has no number."""
    attributes = _attributes(node)
    number = _whole(node.id)
    if number is None:
        return None
    inputs = _values(node.inputs, node.input_shapes, node.input_types)
    outputs = _values(node.outputs, node.output_shapes, node.output_types)
    given, broken_inputs = _tensors(inputs)
    returned, broken_outputs = _tensors(outputs)
    sequence = _whole(attributes.get("seq_id", node.seq_id))
    return Operation(
        number,
        _whole(node.ctrl_deps if node.parent is None else node.parent) or 0,
        -1 if sequence is None else sequence,
        _whole(attributes.get("tid", node.tid)) or 0,
        str(node.name),
        _text(attributes.get("op_schema", node.op_schema)),
        given,
        returned,
        [_shape_text(shape, kind) for shape, kind in zip(inputs.shapes, inputs.types, strict=True)],
        [_type_text(kind) for kind in inputs.types],
        broken_inputs + broken_outputs,
    )


def arguments(node: Node) -> tuple[list[Any], list[Any]]:
    """Return the values given to a node and their types, as many, as they stand in the file."""
    given = _values(node.inputs, node.input_shapes, node.input_types)
    return given.values, given.types


def _attributes(node: Node) -> dict[str, Any]:
    listed = node.attrs if isinstance(node.attrs, list) else []
    return {
        item["name"]: item.get("value")
        for item in listed
        if isinstance(item, dict) and isinstance(item.get("name"), str)
    }


def _values(values: Any, shapes: Any, types: Any) -> _Values:
    """Return values with what describes them, as many of each."""
    strides: Any = None
    if isinstance(values, dict):
        shapes, types, strides = values.get("shapes"), values.get("types"), values.get("strides")
        values = values.get("values")
    listed = values if isinstance(values, list) else []

    def beside(described: Any) -> list[Any]:
        known = described if isinstance(described, list) else []
        return [known[at] if at < len(known) else None for at in range(len(listed))]

    return _Values(listed, beside(shapes), beside(types), beside(strides))


def _tensors(described: _Values) -> tuple[list[Tensor], int]:
    """Return the tensors, those in lists too, and how many are broken."""
    found: list[Tensor] = []
    broken = 0
    for position, (value, shape, kind, strides) in enumerate(zip(*described, strict=True)):
        if "Tensor" not in _text(kind):
            continue
        for item in _flat(value, shape, strides, 0):
            tensor = _tensor(position, *item)
            if tensor is None:
                broken += 1
            elif tensor.storage:
                found.append(tensor)
    return found, broken


def _flat(value: Any, shape: Any, strides: Any, depth: int) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the tensors in a value, each with its shape and strides."""
    if not isinstance(value, list) or depth > _NESTED_MAX:
        return
    if len(value) == _TENSOR_FIELDS and isinstance(value[-1], str):
        yield value, shape, strides
        return
    for at, item in enumerate(value):
        yield from _flat(item, _item(shape, at), _item(strides, at), depth + 1)


def _tensor(position: int, fields: list[Any], shape: Any, strides: Any) -> Tensor | None:
    """Read `[tensor, storage, offset, elements, bytes of one, device]`."""
    _, storage, offset, elements, itemsize = (_whole(field) for field in fields[:-1])
    if storage is None or offset is None or elements is None or itemsize is None:
        return None
    placed = _placed(shape, strides, elements)
    sizes, steps = placed or ((elements,), (1,))
    view = View(offset, sizes, steps, itemsize)
    if extent(view) > _LARGEST:
        return None
    return Tensor(position, storage, _device(fields[-1]), view, placed is not None)


def extent(view: View) -> int:
    """Return how many bytes a storage has at least to hold `view`."""
    if 0 in view.shape:
        return 0
    steps = zip(view.shape, view.strides, strict=True)
    return (view.offset + sum((size - 1) * step for size, step in steps) + 1) * view.itemsize


def _placed(
    shape: Any, strides: Any, elements: int
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return shape and strides where both are given and fit the number of elements."""
    if not isinstance(shape, list) or not isinstance(strides, list) or len(shape) != len(strides):
        return None
    sizes = [_whole(size) for size in shape]
    steps = [_whole(step) for step in strides]
    known = tuple(size for size in sizes if size is not None)
    known_steps = tuple(step for step in steps if step is not None)
    if len(known) < len(sizes) or len(known_steps) < len(steps) or math.prod(known) != elements:
        return None
    return known, known_steps


def _device(name: str) -> int:
    """Return the ordinal in `cuda:0`; the host has none."""
    kind, _, ordinal = name.partition(":")
    if kind == "cpu":
        return -1
    return int(ordinal) if ordinal.isdecimal() and len(ordinal) < _TENSOR_FIELDS else 0


def _shape_text(shape: Any, kind: Any) -> str:
    if not isinstance(shape, list) or "Tensor" not in _text(kind):
        return ""
    if any(isinstance(size, list) for size in shape):
        return ";".join(_shape_text(item, kind) for item in shape)
    return "x".join(str(size) for size in shape)


def _type_text(kind: Any) -> str:
    text = _text(kind)
    return ";".join(_TENSOR.findall(text)) or ("Scalar" if text in _SCALARS else "")


def _item(values: Any, at: int) -> Any:
    return values[at] if isinstance(values, list) and at < len(values) else None


def _whole(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < _ID_MAX else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
