"""Changes of JSON: of its values, keys and structure, of how it is written, and of the bytes."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

from .oddities import near, odd_integer, odd_number_text, odd_scalar, odd_text
from .raw import cut, mutate_bytes

_DEEP = 3000
_NUMBER = re.compile(rb"(?<=[:\[,\s])-?\d+(?:\.\d+)?(?=[,\]}\s])")
_KEYS_OF_OTHERS = ["ph", "ts", "dur", "cat", "name", "pid", "tid", "args", "id", "nodes", "traceEvents"]  # fmt: skip


def mutate_json(data: bytes, random: Random) -> bytes:
    """Return one JSON document changed; what is none is changed as bytes."""
    if random.random() < 0.15:
        return mutate_bytes(data, random)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return mutate_bytes(data, random)
    for _ in range(random.choice([1, 1, 2, 3, 6])):
        document = _change(document, random)
    try:
        text = _written(document, random)
    except (ValueError, RecursionError):  # a number of thousands of digits
        return mutate_bytes(data, random)
    if random.random() < 0.25:
        text = random.choice(_AFTERWARDS)(text, random)
    return text


def _change(document: Any, random: Random) -> Any:
    """Return the document with one node of it changed."""
    parents = [(container, key) for container in _containers(document) for key in _keys(container)]
    if not parents or random.random() < 0.03:
        return random.choice([[], {}, [document], [[document]], odd_scalar(random), None])
    container, key = random.choice(parents)
    random.choice(_EDITS)(container, key, random)
    return document


def _containers(document: Any) -> list[Any]:
    found, waiting = [], [document]
    while waiting and len(found) < 2000:
        node = waiting.pop()
        if isinstance(node, dict | list):
            found.append(node)
            waiting.extend(node.values() if isinstance(node, dict) else node)
    return found


def _keys(container: Any) -> list[Any]:
    return list(container) if isinstance(container, dict) else list(range(len(container)))


def _replace(container: Any, key: Any, random: Random) -> None:
    container[key] = odd_scalar(random)


def _nudge(container: Any, key: Any, random: Random) -> None:
    """Change a value into one of the same kind."""
    value = container[key]
    if isinstance(value, bool) or value is None:
        container[key] = not value
    elif isinstance(value, int):
        container[key] = near(value, random)
    elif isinstance(value, float):
        container[key] = random.choice(
            [-value, value * 1e3, value + 0.0004, value * 1e12, value % 1]
        )
    elif isinstance(value, str):
        container[key] = random.choice(
            [value + odd_text(random), value[1:], value.upper(), value * 2]
        )
    elif isinstance(value, list):
        random.shuffle(value)
    else:
        container[key] = [list(pair) for pair in value.items()]


def _retype(container: Any, key: Any, random: Random) -> None:
    value = container[key]
    container[key] = random.choice(
        [[value], {"": value}, str(value)[:500], [value] * 3, [[value], value]]
    )


def _delete(container: Any, key: Any, random: Random) -> None:
    del container[key]
    if random.random() < 0.1:
        container.clear()


def _rename(container: Any, key: Any, random: Random) -> None:
    value = container[key]
    if isinstance(container, dict):
        del container[key]
        container[random.choice([*_KEYS_OF_OTHERS, key.upper(), f" {key}", odd_text(random)])] = (
            value
        )
    else:
        container.insert(random.randrange(len(container) + 1), value)


def _add(container: Any, key: Any, random: Random) -> None:
    if isinstance(container, dict):
        container[random.choice([*_KEYS_OF_OTHERS, odd_text(random)])] = odd_scalar(random)
    else:
        copied = json.loads(json.dumps(container[key]))
        container.extend([copied] * random.choice([1, 2, 40]))


def _swap(container: Any, key: Any, random: Random) -> None:
    other = random.choice(_keys(container))
    container[key], container[other] = container[other], container[key]


def _bury(container: Any, key: Any, random: Random) -> None:
    for _ in range(random.choice([2, 30, 200])):
        container[key] = random.choice([[container[key]], {"args": container[key]}])


_EDITS = [
    _replace,
    _replace,
    _replace,
    _nudge,
    _nudge,
    _retype,
    _delete,
    _rename,
    _add,
    _swap,
    _bury,
]


def _written(document: Any, random: Random) -> bytes:
    plain = random.random() < 0.6
    text = json.dumps(
        document,
        ensure_ascii=plain or random.random() < 0.5,
        separators=None if plain else random.choice([(",", ":"), (" , ", " : "), (",\n", ":\t")]),
    )
    return text.encode("utf-8", random.choice(["replace", "surrogatepass"]))


def _odd_number(text: bytes, random: Random) -> bytes:
    """Replace a number as it is written by one that no value of Python writes."""
    found = list(_NUMBER.finditer(text))
    if not found:
        return text
    chosen = random.choice(found)
    number = odd_number_text(random).encode()
    return text[: chosen.start()] + number + text[chosen.end() :]


def _repeat_key(text: bytes, random: Random) -> bytes:
    key = json.dumps(random.choice(_KEYS_OF_OTHERS)).encode()
    pair = b"{" + key + b":" + str(odd_integer(random) % 10**20).encode() + b","
    return text.replace(b"{", pair, random.choice([1, 5]))


def _nest(text: bytes, random: Random) -> bytes:
    opening, closing = random.choice([(b"[", b"]"), (b'{"a":', b"}")])
    at = text.find(random.choice([b":", b"[", b","])) + 1
    closed = closing * random.choice([0, _DEEP])
    return text[:at] + opening * _DEEP + b"1" + closed + text[at:]


def _other_encoding(text: bytes, random: Random) -> bytes:
    encoding = random.choice(["utf-16", "utf-8-sig", "utf-16-le", "utf-32"])
    return text.decode(errors="replace").encode(encoding)


def _concatenate(text: bytes, random: Random) -> bytes:
    return text + random.choice([b"", b"\n", b",", b"\0"]) + text


_AFTERWARDS = [_odd_number, _odd_number, _odd_number, _repeat_key, _nest, cut, cut, mutate_bytes, _other_encoding, _concatenate]  # fmt: skip
