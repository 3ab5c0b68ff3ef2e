"""Many dicts of one shape, as the entries of a log are, read out of a pickle without its machine.

The operations of such a dict differ from those of the one before it in the values only. So one
regular expression, made from the first, takes all that follow apart.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

from pasta.collect.containers.pickle_memo import Memo
from pasta.collect.containers.pickle_tokens import (
    PUT,
    RECORD,
    REFERENCE,
    SCALAR,
    SIMPLE,
    VALUE,
)

_RECORD = re.compile(RECORD, re.DOTALL)
_ITEM = re.compile(rb"(" + REFERENCE + rb")(" + VALUE + rb")", re.DOTALL)
_PAIR = re.compile(rb"(" + SCALAR + rb")(" + SCALAR + rb")\x86(" + PUT + rb")", re.DOTALL)
_KNOWN_MAX = 1 << 16
_PICKLERS_BATCH = 1000
_FLOAT = struct.Struct(">d")
_CONSTANTS = {b"N": None, b"\x88": True, b"\x89": False}
_MEMOIZE, _LONG = b"\x94", b"\x8a"
_PUT_SIZES = {_MEMOIZE: 1, b"q": 2, b"r": 5}
_SIZES = {b"h": 2, b"j": 5, b"K": 2, b"M": 3, b"J": 5, b"G": 9, b"N": 1, b"\x88": 1, b"\x89": 1}


class Records:
    """Takes dicts apart that follow one another.

    Args:
        memo: what they refer back to, and are added to.
        values_of: gives the values of a run of references.
    """

    def __init__(self, memo: Memo, values_of: Callable[[bytes], list[Any]]) -> None:
        self._memo = memo
        self._values_of = values_of
        self._shape: re.Pattern[bytes] | None = None
        self._keys: list[Any] = []
        self._known: dict[bytes, Any] = dict(_CONSTANTS)
        self._pairs: dict[bytes, tuple[Any, ...]] = {}

    def read(self, data: bytes, at: int, end: int, limit: int) -> tuple[list[Any], int]:
        """Return the dicts that begin at `at`, and where they end.

        Args:
            data: operations.
            at: where the first of the dicts begins.
            end: where the operations end.
            limit: read no more than so many.

        Raises:
            KeyError: a value that is referred to is not there.
        """
        records: list[Any] = []
        while len(records) < limit:
            match = self._shape.match(data, at, end) if self._shape else None
            if match is None:
                if not self._learn(data, at, end):
                    break
                continue
            records.append(self._record(match.groups()))
            at = match.end()
        return records, at

    def _learn(self, data: bytes, at: int, end: int) -> bool:
        """Make the shape of the dict at `at`; `False`: it is of none that can be."""
        first = _RECORD.match(data, at, end)
        if first is None:
            return False
        items = _ITEM.findall(first[1])
        keys = self._values_of(b"".join(key for key, _ in items))
        if len(items) >= _PICKLERS_BATCH or not all(type(key) is str for key in keys):
            return False
        inner = b"".join(
            re.escape(key) + rb"(" + (VALUE if _PAIR.fullmatch(value) else SIMPLE) + rb")"
            for key, value in items
        )
        self._shape = re.compile(rb"\}(" + PUT + rb")\(" + inner + rb"u", re.DOTALL)
        self._keys = keys
        return True

    def _record(self, parts: tuple[bytes, ...]) -> dict[Any, Any]:
        record: dict[Any, Any] = {}
        self._number(parts[0], record)
        known, value_of = self._known, self._value
        record.update(
            zip(
                self._keys,
                [known[part] if part in known else value_of(part) for part in parts[1:]],
                strict=True,
            )
        )
        return record

    def _known_value(self, part: bytes) -> Any:
        return self._known[part] if part in self._known else self._value(part)

    def _value(self, part: bytes) -> Any:
        kind = part[:1]
        if kind == b"]":
            return self._list(part)
        if len(part) != (part[1] + 2 if kind == _LONG else _SIZES[kind]):
            return self._pair(part)
        if kind == _LONG:
            return int.from_bytes(part[2:], "little", signed=True)
        if kind == b"G":
            return float(_FLOAT.unpack(part[1:])[0])
        number = int.from_bytes(part[1:], "little", signed=kind == b"J")
        if kind in (b"h", b"j"):
            value = self._memo.fetch(number)
            if type(value) is str and self._memo.is_kept(number):
                self._keep(part, value)
            return value
        self._keep(part, number)
        return number

    def _keep(self, part: bytes, value: Any) -> None:
        if len(self._known) < _KNOWN_MAX:
            self._known[part] = value

    def _list(self, part: bytes) -> list[Any]:
        """Return a list of references; lists of the same references are one and the same."""
        begin = 1 + _PUT_SIZES.get(part[1:2], 0)
        run = part[begin:-1].removeprefix(b"(")
        made = self._values_of(run) if run else []
        self._number(part[1:begin], made)
        return made

    def _pair(self, part: bytes) -> tuple[Any, ...]:
        made = self._pairs.get(part)
        if made is not None:
            self._memo.add(made)
            return made
        found = _PAIR.match(part)
        if found is None:
            return ()
        made = self._known_value(found[1]), self._known_value(found[2])
        self._number(found[3], made)
        if found[3] == _MEMOIZE and len(self._pairs) < _KNOWN_MAX:
            self._pairs[part] = made
        return made

    def _number(self, put: bytes, value: Any) -> None:
        if put == _MEMOIZE:
            self._memo.add(value)
        elif put:
            self._memo.put(int.from_bytes(put[1:], "little"), value)
