"""What an operator does to storages, as far as its schema and its operands' views tell."""

# ruff: noqa: SLF001 - PyTorch has no public names for what is needed here

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..rows import Losses, Rows, Texts
from .memory import Storages, Stored
from .views import View, coverage

TOUCH_COLUMNS = (
    "device",
    "span_id",
    "object_id",
    "unique_read",
    "unique_written",
    "unique_bytes",
    "reads",
    "writes",
    "bytes_read",
    "bytes_written",
)
BOUNDED = "operators whose overlapping views were too many to enumerate: unique bytes are bounds"

# What schemas do not say: who overwrites its operand without a look at it,
# who takes only the shape of its operand, and who leaves its result as the allocator gave it.
OVERWRITES = frozenset(
    [
        *("copy_", "fill_", "zero_", "_foreach_copy_", "_foreach_zero_"),
        *("bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_"),
        *("random_", "uniform_"),
    ]
)
SHAPE_ONLY = ("new_", "is_same_size", "sym_")
UNINITIALISED = frozenset(
    [
        *("empty", "empty_like", "empty_permuted", "empty_quantized", "empty_strided"),
        *("new_empty", "new_empty_strided"),
    ]
)


class Argument(NamedTuple):
    """A tensor argument of an operator, or a list of tensors."""

    position: int
    name: str
    is_list: bool
    read: bool
    written: bool


class Signature(NamedTuple):
    """What an operator's schema says.

    Attributes:
        name: as `aten::addmm`, the overload left out, as the profiler has it.
        arguments: how many arguments there are, given or not.
        tensors: those that are tensors.
        writes_results: whether results get a value.
        metadata_only: whether it changes shapes and storages but no element.
    """

    name: str
    arguments: int
    tensors: tuple[Argument, ...]
    writes_results: bool
    metadata_only: bool

    @property
    def mutates(self) -> bool:
        """Whether it writes to an operand."""
        return any(argument.written for argument in self.tensors)


class Operand(NamedTuple):
    """One tensor given to an operator, as it was before the operator ran."""

    position: int
    tensor: Any
    stored: Stored | None
    view: View
    read: bool
    written: bool


@functools.cache
def signature(operator: Any) -> Signature:
    """Read the schema of `operator`, a `torch._ops.OpOverload`."""
    import torch

    schema = operator._schema
    base = schema.name.partition("::")[2]
    shape_only = base.startswith(SHAPE_ONLY) or base.endswith("_like")
    tensors = []
    for position, argument in enumerate(schema.arguments):
        if "Tensor" not in str(argument.type):
            continue
        written = argument.alias_info is not None and argument.alias_info.is_write
        overwritten = written and (argument.is_out or base in OVERWRITES)
        read = not (shape_only or overwritten)
        is_list = "List" in str(argument.type)
        tensors.append(Argument(position, argument.name, is_list, read, written))
    return Signature(
        schema.name,
        len(schema.arguments),
        tuple(tensors),
        base not in UNINITIALISED,
        torch.Tag.inplace_view in operator.tags,
    )


def operands(
    called: Signature, args: tuple[Any, ...], kwargs: dict[str, Any], storages: Storages
) -> list[Operand]:
    """Return every tensor that the call gives to the operator, lists taken apart.

    Numbers may stand where the schema has tensors; they have no storage.
    """
    import torch

    found = []
    for argument in called.tensors:
        if argument.position < len(args):
            value = args[argument.position]
        else:
            value = kwargs.get(argument.name)
        if isinstance(value, torch.Tensor):
            found.append(_operand(argument, value, storages))
        elif argument.is_list and value is not None:
            tensors = (item for item in value if isinstance(item, torch.Tensor))
            found.extend(_operand(argument, tensor, storages) for tensor in tensors)
    return found


def _operand(argument: Argument, tensor: Any, storages: Storages) -> Operand:
    storage = storages.storage(tensor)
    if storage is None:
        stored, view = None, View(0, tuple(tensor.shape), (), tensor.element_size())
    else:
        stored, view = storages.existing(storage), view_of(tensor)
    return Operand(argument.position, tensor, stored, view, argument.read, argument.written)


def view_of(tensor: Any) -> View:
    """Return the place of a strided `tensor` in its storage."""
    return View(
        tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.element_size()
    )


def tensors_in(result: Any) -> Iterator[Any]:
    """Yield the tensors of an operator's result: one, some, lists of them, or none."""
    import torch

    if isinstance(result, torch.Tensor):
        yield result
    elif isinstance(result, (list, tuple)):
        for item in result:
            yield from tensors_in(item)


def describe(called: Signature, given: list[Operand]) -> tuple[Texts, Texts]:
    """Return shapes and element types, one text an argument; tensors of a list split by `;`."""
    shapes, types = [""] * called.arguments, [""] * called.arguments
    for operand in given:
        at = operand.position
        shape, kind = _shape_text(operand.view.shape), _type_text(operand.tensor.dtype)
        shapes[at] = f"{shapes[at]};{shape}" if types[at] else shape
        types[at] = f"{types[at]};{kind}" if types[at] else kind
    return tuple(shapes), tuple(types)


@functools.lru_cache(maxsize=1 << 14)
def _shape_text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


@functools.cache
def _type_text(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


class Touch:
    """What one operator did to one storage."""

    __slots__ = ("read", "stored", "written")

    def __init__(self, stored: Stored) -> None:
        self.stored = stored
        self.read: list[View] = []
        self.written: list[View] = []


def touches(
    called: Signature, given: list[Operand], result: Any, storages: Storages, now: int
) -> list[Touch]:
    """Return what the call did to each storage, and take note of storages it made.

    A result in the storage of an operand is a view of it, or the operand itself: it adds nothing.
    An operator all of whose results are such, and that mutates nothing, touches nothing.

    Args:
        called: the operator.
        given: its operands, from before the call.
        result: what it returned.
        storages: the storages seen so far.
        now: a time inside the call, in ns, for the storages that it made.
    """
    known = {operand.stored.object_id for operand in given if operand.stored is not None}
    found: dict[int, Touch] = {}
    made = aliased = 0
    for tensor in tensors_in(result):
        storage = storages.storage(tensor)
        stored = None if storage is None else storages.result(storage, now)
        if stored is None:
            continue
        if stored.object_id in known:
            aliased += 1
            continue
        made += 1
        if called.writes_results:
            _touch(found, stored).written.append(view_of(tensor))
    if called.metadata_only or (aliased and not made and not called.mutates):
        return []
    for operand in given:
        if operand.stored is None:
            continue
        if operand.read:
            _touch(found, operand.stored).read.append(operand.view)
        if operand.written:
            _touch(found, operand.stored).written.append(operand.view)
    return [*found.values()]


def _touch(found: dict[int, Touch], stored: Stored) -> Touch:
    if stored.object_id not in found:
        found[stored.object_id] = Touch(stored)
    return found[stored.object_id]


def append(rows: Rows, losses: Losses, span_id: int, found: list[Touch], now: int) -> None:
    """Append one `touch` row for each storage in `found`."""
    for touch in found:
        columns, exact = _measure(tuple(touch.read), tuple(touch.written))
        if not exact:
            losses.count(BOUNDED, now)
        rows.append((touch.stored.device, span_id, touch.stored.object_id, *columns))


@functools.lru_cache(maxsize=1 << 14)
def _measure(read: tuple[View, ...], written: tuple[View, ...]) -> tuple[tuple[int, ...], bool]:
    """Return the columns from `unique_read` to `bytes_written`, and whether they are exact."""
    unique = [coverage(views) for views in (read, written, read + written)]
    columns = (
        *(part.bytes for part in unique),
        len(read),
        len(written),
        sum(view.bytes for view in read),
        sum(view.bytes for view in written),
    )
    return columns, all(part.exact for part in unique)
