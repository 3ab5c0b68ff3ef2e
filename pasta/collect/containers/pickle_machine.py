"""The stack machine that a pickle is a program for, reduced to plain data."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from pasta.collect.containers.pickle_memo import Memo
from pasta.collect.containers.pickle_opcodes import (
    CLASS_NAMES,
    PREFIXED,
    REFUSED,
    STACK_GLOBAL,
)
from pasta.collect.containers.pickle_records import Records
from pasta.collect.containers.pickle_tokens import REFERENCE
from pasta.collect.containers.pickle_window import Window

_NESTED_MAX = 64
_RUNS_MAX = 1 << 14
_HELD_MAX = 256 << 20
_HELD_PER_BYTE, _HELD_PER_CONTAINER = 8, 64
_DIGITS_MAX = 4000
_PICKLERS_BATCH = 1000
_TUPLE_MAX = 3
_NAME_MAX = 100

_COMPLETING = b"eu"
_KEYS = frozenset({str, bytes, int, float, bool, type(None)})

_LIST_OF_REFERENCES = re.compile(rb"(" + REFERENCE + rb"++)e", re.DOTALL)
_INT32 = struct.Struct("<i")
_FLOAT = struct.Struct(">d")

Operation: TypeAlias = "Callable[[Machine], None]"


class Refused(Exception):  # noqa: N818 - who reads the pickle makes an error of it
    """The pickle is not to be read on; the text says why."""


class Elements(NamedTuple):
    """Some elements of a chosen list, in their order.

    Attributes:
        key: the key of the outermost dict.
        place: which of the lists in that key's list; 0 where its own elements were asked for.
        items: the elements.
    """

    key: str
    place: int
    items: list[Any]


class Machine:
    """Executes the operations of a pickle of plain data.

    Each operation may find what is nested too deep or holds itself, and is `Refused`; of what else it meets and
    cannot use, `run` makes that.

    Args:
        window: the operations.
        memo: what they refer back to.
        lists: as of `PickleStream`.
        batch: hand out so many elements at once.

    Attributes:
        ready: elements to be taken by the caller.
        value: the outermost value, once `ended`.
        ended: whether the pickle says that it ends.
    """

    def __init__(self, window: Window, memo: Memo, lists: Mapping[str, int], batch: int) -> None:
        self.ready: list[Elements] = []
        self.value: Any = None
        self.ended = False
        self.window = window
        self.memo = memo
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        self.containers = 0
        self._targets: list[tuple[str, int] | None] = []
        self._lists = lists
        self._batch = batch
        self._runs: dict[bytes, list[Any]] = {}
        self._watched: dict[int, Any] = {}
        self._records = Records(memo, self._values_of)
        self._held_from = 0

    def run(self) -> None:
        """Execute operations until elements are ready or the pickle ends.

        Raises:
            Refused: an operation makes anything but plain data, or makes no sense.
            Ended: the bytes end before.
            TooLong: an argument is longer than is believed.
        """
        window, operations = self.window, OPERATIONS
        while not (self.ready or self.ended):
            if window.at > window.safe:
                window.move()
                self._check_held()
            operation = window.data[window.at]
            window.at += 1
            try:
                operations[operation](self)
            except (IndexError, KeyError, ValueError, TypeError, AttributeError) as error:
                raise Refused(
                    f"operation {operation:#04x} before byte {window.position} has not what it"
                    " needs: this is no pickle, or a damaged one"
                ) from error

    def flush(self) -> None:
        """Make ready what is complete of the lists that the bytes ended in."""
        for level, target in enumerate(self._targets):
            is_open = level + 1 < len(self.below)
            items = self.below[level + 1] if is_open else self.stack
            if items and (is_open or not self._is_complete(items[-1])):
                items = items[:-1]
            if target is not None:
                self._hand_out(target, items)

    def _is_complete(self, last: Any) -> bool:
        """Tell whether nothing more belongs to what was made last."""
        if type(last) not in (list, dict):
            return True
        return bool(last) and self.window.data[self.window.at - 1] in _COMPLETING

    def _check_held(self) -> None:
        """Refuse what fills memory: much that belongs to no chosen list, or one large element."""
        read = self.window.position - self._held_from
        held = read * _HELD_PER_BYTE + self.containers * _HELD_PER_CONTAINER
        kept = self.memo.text_bytes + len(self.memo) * _HELD_PER_CONTAINER
        if held > _HELD_MAX or kept > _HELD_MAX:
            raise Refused(
                f"holds too much at once before byte {self.window.position}, outside the lists"
                " that are read element by element"
            )

    def _hand_out(self, target: tuple[str, int], items: list[Any]) -> None:
        if items:
            self.ready.append(Elements(*target, items))
        self._held_from = self.window.position
        self.containers = 0

    def _target(self) -> tuple[str, int] | None:
        """Return key and place of the list on top of the stack, if it is a chosen one."""
        stack, below = self.stack, self.below
        bottom = below[0] if below else stack
        if len(below) > 2 or not bottom or type(bottom[0]) is not dict:
            return None
        if len(below) < 2 and len(stack) > 1:
            key = stack[-2]
            if type(key) is str and self._lists.get(key) == 1:
                return key, 0
            if type(key) is list and len(stack) > 2 and self._is_outer(stack[-3]):
                return stack[-3], len(key)
        if below and len(below[-1]) > 1 and type(below[-1][-1]) is list:
            key = below[-1][-2]
            if self._is_outer(key) and all(type(item) is list for item in stack):
                return key, len(below[-1][-1]) + len(stack) - 1
        return None

    def _is_outer(self, key: Any) -> bool:
        return type(key) is str and self._lists.get(key) == 2

    def mark(self) -> None:
        """Begin the items of a container; those of a list of references are added at once.

        Raises:
            Refused: containers are nested too deep.
        """
        found = _LIST_OF_REFERENCES.match(self.window.data, self.window.at)
        stack = self.stack
        if found and stack and type(stack[-1]) is list and self._target() is None:
            self._open(list).extend(self._values_of(found[1]))
            self.window.at = found.end()
            self._held_from += len(found[0])
            return
        if len(self.below) >= _NESTED_MAX:
            raise Refused(f"is nested more than {_NESTED_MAX} deep")
        self._targets.append(self._target() if stack and type(stack[-1]) is list else None)
        self.below.append(stack)
        self.stack = []

    def _values_of(self, run: bytes) -> list[Any]:
        values = self._runs.get(run)
        if values is None:
            values = self.memo.fetch_list(run)
            for value in values:
                self._watch(value)
            if len(self._runs) >= _RUNS_MAX:
                self._runs.clear()
            self._runs[run] = values
        return values

    def take_items(self) -> tuple[list[Any], tuple[str, int] | None]:
        """Return the items since the last mark, and which chosen list they are for."""
        items = self.stack
        self.stack = self.below.pop()
        return items, self._targets.pop()

    def fetch(self, number: int, *, as_text: bool = False) -> None:
        """Push a value that came before; picklers of protocol 0 add to lists one by one."""
        value = self.memo.fetch(number)
        self._watch(value, any_size=as_text)
        self.stack.append(value)

    def _watch(self, value: Any, *, any_size: bool = False) -> None:
        """Remember a fetched container that may not be complete yet; picklers add by batches."""
        if type(value) in (list, dict) and (any_size or len(value) % _PICKLERS_BATCH == 0):
            self._watched[id(value)] = value

    def _open(self, kind: type) -> Any:
        """Return the container on the stack, to be added to: one fetched before holds itself."""
        container = self.stack[-1]
        if type(container) is not kind:
            raise TypeError
        if id(container) in self._watched:
            raise Refused("a value contains itself")
        return container

    def append(self) -> None:
        """Add one item to a list, and hand the list's items out where they are many."""
        value = self.stack.pop()
        container = self._open(list)
        _refuse_chain(value)
        container.append(value)
        if len(container) >= self._batch and (target := self._target()):
            self._hand_out(target, container.copy())
            container.clear()

    def append_all(self) -> None:
        """Add the items since the mark to a list, or hand them out."""
        items, target = self.take_items()
        container = self._open(list)
        if target is None:
            container.extend(items)
            return
        self._hand_out(target, container + items)
        container.clear()

    def set_item(self) -> None:
        """Add one key and its value to a dict."""
        value, key = self.stack.pop(), self.stack.pop()
        _refuse_chain(value)
        _fill(self._open(dict), [key], [value])

    def set_all(self) -> None:
        """Add the keys and values since the mark to a dict."""
        items, _ = self.take_items()
        _fill(self._open(dict), items[::2], items[1::2])
        self._hand_out_records()

    def _hand_out_records(self) -> None:
        """Hand out the dicts that lie ready for a chosen list, but those that may be in a tuple."""
        count = len(self.stack) - _TUPLE_MAX
        if count < self._batch or count % self._batch or not self._targets:
            return
        target = self._targets[-1]
        if target is not None and all(type(item) is dict and item for item in self.stack):
            self._hand_out(target, self.stack[:count])
            del self.stack[:count]

    def empty_dict(self) -> None:
        """Begin a dict; in a chosen list, read it and those like it that follow at once."""
        target = self._targets[-1] if self._targets else None
        above = self.stack[-1:] or [{None: None}]
        if target is not None and not self.ready and above[0] and type(above[0]) is dict:
            window, limit = self.window, self._batch
            begin = window.at - 1
            records, window.at = self._records.read(window.data, begin, len(window.data), limit)
            if records:
                self._hand_out(target, self.stack + records)
                self.stack.clear()
                return
            window.at = begin + 1
        self.push({})

    def push(self, container: Any) -> None:
        """Push a container that costs memory."""
        self.containers += 1
        self.stack.append(container)

    def tuple_of(self, count: int) -> None:
        """Make a tuple of the last items.

        Raises:
            IndexError: there are fewer.
        """
        items = self.stack[-count:]
        if len(items) < count:
            raise IndexError
        _refuse_chain(items[0])
        del self.stack[-count:]
        self.push(tuple(items))

    def marked_dict(self) -> None:
        """Make a dict of the keys and values since the mark."""
        items, _ = self.take_items()
        made: dict[Any, Any] = {}
        _fill(made, items[::2], items[1::2])
        self.push(made)

    def text(self, size: int) -> None:
        """Push a text."""
        self.stack.append(self._argument(size).decode("utf-8", "surrogatepass"))

    def binary(self, size: int) -> None:
        """Push bytes."""
        self.stack.append(self._argument(size))

    def number(self, size: int) -> None:
        """Push an int of any size."""
        self.stack.append(int.from_bytes(self._argument(size), "little", signed=True))

    def _argument(self, size: int) -> bytes:
        argument = self.window.take(int.from_bytes(self.window.take(size), "little"))
        self._held_from += len(argument) * (_HELD_PER_BYTE - 1) // _HELD_PER_BYTE
        return argument

    def line_number(self) -> None:
        """Push an int, or a bool, written as text.

        Raises:
            ValueError: it is no number, or has more digits than is believed.
        """
        line = self.window.line()
        if line in (b"00", b"01"):
            self.stack.append(line == b"01")
        elif len(line) > _DIGITS_MAX:
            raise ValueError
        else:
            self.stack.append(int(line.rstrip(b"L")))

    def stop(self) -> None:
        """End with the value on the stack, of which chosen lists are handed out.

        Raises:
            ValueError: more than that value is left.
        """
        self.value = self.stack.pop()
        if self.stack or self.below:
            raise ValueError
        self.ended = True
        if type(self.value) is dict:
            for key, depth in self._lists.items():
                self._hand_out_rest(key, depth)

    def _hand_out_rest(self, key: str, depth: int) -> None:
        """Hand out what was added to a list in other ways than after a mark."""
        outer = self.value.get(key)
        if type(outer) is not list:
            return
        lists = [outer] if depth == 1 else outer
        for place, items in enumerate(lists):
            if type(items) is list and items:
                self._hand_out((key, place), items.copy())
                items.clear()

    def refuse_class(self) -> None:
        """Refuse a class or function by its name.

        Raises:
            Refused: always.
        """
        operation = self.window.data[self.window.at - 1]
        names = (
            self.stack[-2:]
            if operation == STACK_GLOBAL
            else [self.window.line().decode(errors="replace") for _ in range(2)]
        )
        name = ".".join(map(str, names))[:_NAME_MAX]
        raise Refused(
            f"holds the class or function '{name}', of which nothing was run;"
            " only pickles of plain data are read"
        )

    def refuse(self) -> None:
        """Refuse what is no plain data.

        Raises:
            ValueError: no pickle has such an operation.
            Refused: the operation makes what is no plain data.
        """
        what = REFUSED.get(self.window.data[self.window.at - 1])
        if what is None:
            raise ValueError
        raise Refused(
            f"holds {what}, of which nothing was run; only pickles of plain data are read"
        )


def _fill(container: dict[Any, Any], keys: list[Any], values: list[Any]) -> None:
    for key in keys:
        if type(key) is not str and not _is_key(key):
            raise TypeError
    container.update(zip(keys, values, strict=True))


def _is_key(key: Any) -> bool:
    """Tell whether a value may be a key: hashing what is nested deeply would end the process."""
    return all(type(part) in _KEYS for part in (key if type(key) is tuple else (key,)))


def _refuse_chain(value: Any) -> None:
    """Refuse containers of one item each within one another, where they are many."""
    for _ in range(_NESTED_MAX):
        if type(value) not in (list, tuple, dict) or len(value) != 1:
            return
        value = next(iter(value.values() if type(value) is dict else value))
    raise Refused(f"is nested more than {_NESTED_MAX} deep")


def _push_int32(machine: Machine) -> None:
    machine.stack.append(_INT32.unpack(machine.window.take(4))[0])


def _pushed(*, value: Any) -> Operation:
    return lambda machine: machine.stack.append(value)


def _pushed_unsigned(size: int) -> Operation:
    return lambda machine: machine.stack.append(int.from_bytes(machine.window.take(size), "little"))


def _sized(kind: Callable[[Machine, int], None], operation: int) -> Operation:
    size = PREFIXED[operation]
    return lambda machine: kind(machine, size)


def _operations() -> list[Operation]:
    """Return what each operation does, by its number."""
    known: dict[int, Operation] = {
        **dict.fromkeys(CLASS_NAMES, Machine.refuse_class),
        0x28: Machine.mark,
        0x2E: Machine.stop,
        0x4E: _pushed(value=None),
        0x88: _pushed(value=True),
        0x89: _pushed(value=False),
        0x4B: _pushed_unsigned(1),
        0x4D: _pushed_unsigned(2),
        0x4A: _push_int32,
        0x47: lambda machine: machine.stack.append(_FLOAT.unpack(machine.window.take(8))[0]),
        0x49: Machine.line_number,
        0x4C: Machine.line_number,
        0x46: lambda machine: machine.stack.append(float(machine.window.line())),
        0x56: lambda machine: machine.stack.append(
            machine.window.line().decode("raw-unicode-escape")
        ),
        0x5D: lambda machine: machine.push([]),
        0x7D: Machine.empty_dict,
        0x29: _pushed(value=()),
        0x6C: lambda machine: machine.push(machine.take_items()[0]),
        0x64: Machine.marked_dict,
        0x74: lambda machine: machine.push(tuple(machine.take_items()[0])),
        0x85: lambda machine: machine.tuple_of(1),
        0x86: lambda machine: machine.tuple_of(2),
        0x87: lambda machine: machine.tuple_of(3),
        0x61: Machine.append,
        0x65: Machine.append_all,
        0x73: Machine.set_item,
        0x75: Machine.set_all,
        0x94: lambda machine: machine.memo.add(machine.stack[-1]),
        0x70: lambda machine: machine.memo.put(int(machine.window.line()), machine.stack[-1]),
        0x71: lambda machine: machine.memo.put(machine.window.take(1)[0], machine.stack[-1]),
        0x72: lambda machine: machine.memo.put(
            int.from_bytes(machine.window.take(4), "little"), machine.stack[-1]
        ),
        0x67: lambda machine: machine.fetch(int(machine.window.line()), as_text=True),
        0x68: lambda machine: machine.fetch(machine.window.take(1)[0]),
        0x6A: lambda machine: machine.fetch(int.from_bytes(machine.window.take(4), "little")),
        0x80: lambda machine: machine.window.skip(1),
        0x95: lambda machine: machine.window.skip(8),
    }
    for kind, codes in (
        (Machine.text, (0x58, 0x8C, 0x8D)),
        (Machine.binary, (0x42, 0x43, 0x8E, 0x96)),
        (Machine.number, (0x8A, 0x8B)),
    ):
        known |= {code: _sized(kind, code) for code in codes}
    return [known.get(code, Machine.refuse) for code in range(256)]


OPERATIONS = _operations()
