"""Changes of pickles: of operations, their arguments and references, with classes put in."""

from __future__ import annotations

import contextlib
import io
import pickle
import pickletools
from random import Random
from typing import Any

from .oddities import odd_integer, odd_scalar
from .raw import LONGEST, mutate_bytes

_MODULE = __name__.rpartition(".mutators")[0] + ".canary"
_CALL = f"c{_MODULE}\nsing\n(Vx\ntR".encode()
_HOSTILE = [
    _CALL,
    _CALL + b"0",
    f"(i{_MODULE}\nBird\n".encode(),
    f"(c{_MODULE}\nBird\no".encode(),
    f"c{_MODULE}\nBird\n)\x81}}b".encode(),
    f"c{_MODULE}\nBird\n)}}\x92".encode(),
    f"V{_MODULE}\nVsing\n\x93(Vx\ntR".encode(),
    b"cos\nsystem\n(Vtouch canary\ntR",
    b"cbuiltins\nexec\n(Vopen('canary', 'w')\ntR",
    b"\x82\x01",
    b"\x84\xff\xff\xff\x7f",
    b"Vx\nQ",
    b"Px\n",
    b"\x97\x98",
]
_PIECES = [
    *(b"(", b")", b"]", b"}", b"0", b"1", b"2", b"N", b".", b"a", b"e", b"s", b"u", b"t", b"d", b"l"),
    *(b"\x85", b"\x86", b"\x87", b"\x88", b"\x94", b"\x8f", b"\x90(", b"\x91", b"h\x00", b"q\x00"),
    *(b"j\xff\xff\xff\xff", b"r\xff\xff\xff\x7f", b"g-1\n", b"p99999999999\n", b"g\xff\n"),
    *(b"X\xff\xff\xff\xff", b"X\xff\xff\xff\x7f", b"\x8d" + b"\xff" * 8, b"\x8e" + b"\0" * 7 + b"\x7f"),
    *(b"\x8b\xff\xff\xff\x7f", b"\x8b\xff\xff\xff\xff", b"\x8a\x05\xff\xff\xff\xff\x7f", b"\x8a\x00"),
    *(b"I99999999999999999999\n", b"I\n", b"L1x\n", b"L" + b"9" * 5000 + b"L\n", b"Fnan\n", b"F1e999\n"),
    *(b"G\x7f\xf8" + b"\0" * 6, b"Sabc\n", b"S'abc'\n", b"V\\ud800\n", b"X\x03\0\0\0\xed\xa0\x80"),
    *(b"\x95" + b"\xff" * 8, b"\x95" + b"\0" * 8, b"\x80\x05", b"\x80\xff", b"]" * 2000, b"(" * 2000),
    *(b"(" + b"2" * 30 + b"t", b"\x85" * 3000, b"]2a", b"}2Vx\n2s", b"N" * 500, b"(]" + b"2" * 500 + b"e"),
]  # fmt: skip


def mutate_pickle(data: bytes, random: Random) -> bytes:
    """Return the pickle with its operations, its values or its bytes changed."""
    kind = random.random()
    if kind < 0.2:
        return mutate_bytes(data, random)
    if kind < 0.5:
        return _changed_values(data, random)
    operations = _operations(data)
    if not operations:
        return mutate_bytes(data, random)
    for _ in range(random.choice([1, 1, 2, 4])):
        _change(operations, random)
    return b"".join(operations)[:LONGEST]


def _operations(data: bytes) -> list[bytes]:
    """Return the bytes of each operation; those behind the first that is none in one piece."""
    starts = [0]
    with contextlib.suppress(ValueError, IndexError, UnicodeDecodeError):
        starts += [at for _, _, at in pickletools.genops(data) if at]
    return [data[low:high] for low, high in zip(starts, [*starts[1:], len(data)], strict=True)]


def _change(operations: list[bytes], random: Random) -> None:
    at = random.randrange(len(operations))
    kind = random.randrange(8)
    if kind == 0 and len(operations) > 1:
        del operations[at]
    elif kind == 1:
        operations.insert(at, operations[random.randrange(len(operations))])
    elif kind == 2:
        other = random.randrange(len(operations))
        operations[at], operations[other] = operations[other], operations[at]
    elif kind == 3:
        operations.insert(at, random.choice(_HOSTILE))
    elif kind == 4:
        operations.insert(at, random.choice(_PIECES))
    elif kind == 5:
        operations[at] = random.choice(_PIECES)
    elif kind == 6:
        operations[at] = operations[at][:1] + mutate_bytes(operations[at][1:], random)
    else:
        operations[at:] = (
            operations[at : at + random.choice([1, 5, 50])] * random.choice([2, 20])
            + operations[at:]
        )


class _PlainData(pickle.Unpickler):
    """Reads seeds, which are of plain data, and of changed ones no class either."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name}")


def _changed_values(data: bytes, random: Random) -> bytes:
    """Change the value that was pickled, and pickle it again, as any protocol does."""
    try:
        value = _PlainData(io.BytesIO(data)).load()
    except Exception:  # noqa: BLE001 - the machine of pickles raises whatever it likes
        return mutate_bytes(data, random)
    for _ in range(random.choice([1, 1, 2, 4])):
        _change_value(value, random)
    try:
        changed = pickle.dumps(value, protocol=random.randrange(6))
    except (RecursionError, UnicodeError, ValueError):
        return mutate_bytes(data, random)
    return (
        pickletools.optimize(changed) if random.random() < 0.1 and len(changed) < 4000 else changed
    )


def _change_value(value: Any, random: Random) -> None:
    containers = _containers(value)
    container = random.choice(containers) if containers else []
    keys = list(container) if isinstance(container, dict) else list(range(len(container)))
    if not keys:
        return
    key = random.choice(keys)
    kind = random.randrange(7)
    if kind < 3:
        container[key] = (
            odd_scalar(random) if random.random() < 0.7 else random.choice([[], {}, (), b"x"])
        )
    elif kind == 3:
        del container[key]
    elif kind == 4:
        container[key] = (
            random.choice(containers) if random.random() < 0.5 else [container[key]] * 3
        )
    elif kind == 5 and isinstance(container, list):
        container.extend([container[key]] * random.choice([1, 30]))
    elif isinstance(container[key], int):
        container[key] = random.choice(
            [-container[key], odd_integer(random), float(container[key] % 10**15)]
        )
    elif isinstance(container, dict):
        container[random.choice([key, 7, None, "", "size", "addr", "frames"])] = container.pop(key)


def _containers(value: Any) -> list[Any]:
    found: dict[int, Any] = {}
    waiting = [value]
    while waiting and len(found) < 1000:
        node = waiting.pop()
        if isinstance(node, dict | list) and id(node) not in found:
            found[id(node)] = node
            waiting.extend(node.values() if isinstance(node, dict) else node)
        elif isinstance(node, tuple):
            waiting.extend(node[:50])
    return list(found.values())
