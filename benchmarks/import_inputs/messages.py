"""Large inputs: formats of protocol buffers."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path

from pasta.exports.wire import bytes_field, number_field, text_field, varint

from .writing import NAMES, START_NS, write_until


def _message(*pairs: tuple[int, int | str | bytes | float]) -> bytes:
    found = []
    for number, value in pairs:
        if isinstance(value, int):
            found.append(number_field(number, value))
        elif isinstance(value, float):
            found.append(varint(number << 3 | 1) + struct.pack("<d", value))
        elif isinstance(value, str):
            found.append(text_field(number, value))
        else:
            found.append(bytes_field(number, value))
    return b"".join(found)


def make_perfetto(path: Path, size: int, seed: int) -> None:
    """Make a Perfetto trace: nested slices of 16 threads and a counter."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets

    def packets() -> Iterator[bytes]:
        def packet(*pairs: tuple[int, int | str | bytes]) -> bytes:
            return _message((1, _message(*pairs, (10, 1))))

        yield packet((60, _message((1, 1), (3, _message((1, 70), (2, "prog"))))))
        for thread in range(16):
            yield packet(
                (
                    60,
                    _message(
                        (1, 2 + thread), (4, _message((1, 70), (2, 71 + thread), (5, f"t{thread}")))
                    ),
                )
            )
        yield packet((60, _message((1, 99), (2, "queue"), (5, 1), (8, _message((3, 2))))))
        ts = 1_000_000
        while True:
            track = 2 + chance.randrange(16)
            for _ in range(4):
                ts += 100
                name = f"slice_{chance.randrange(NAMES)}"
                note = _message((10, "size"), (4, chance.randrange(1 << 20)))
                yield packet(
                    (8, ts), (11, _message((9, 1), (11, track), (23, name), (22, "app"), (4, note)))
                )
            for _ in range(4):
                ts += 100
                yield packet((8, ts), (11, _message((9, 2), (11, track))))
            yield packet((8, ts), (11, _message((9, 4), (11, 99), (30, chance.randrange(100)))))

    write_until(path, size, packets())


def make_xplane(path: Path, size: int, seed: int) -> None:
    """Make an XLA profile: a device's stream and a host's thread, half of `size` each."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    shape = "regs:32 static_shared:0 dynamic_shared:0 grid:8,1,1 block:64,1,1 occ_pct:100"
    with path.open("wb", buffering=1 << 22) as file:
        for plane, line in (("/device:GPU:0", "Stream #13(Compute)"), ("/host:CPU", "main")):
            stats = ((1, "correlation_id"), (2, "kernel_details"))
            metadata = [(4, _entry(at, f"kernel_{at}")) for at in range(1, NAMES + 1)]
            metadata += [(5, _entry(at, name)) for at, name in stats]
            events, held, at = [], 0, 0
            while held < size // 2:
                at += 1
                told = [(4, _message((1, 1), (3, at))), (4, _message((1, 2), (5, shape)))]
                name = 1 + chance.randrange(NAMES)
                event = _message((1, name), (2, at * 3_000_000), (3, 1_500_000), *told)
                events.append(_message((4, event)))
                held += len(events[-1])
            content = _message((1, 13), (2, line), (3, START_NS)) + b"".join(events)
            head = _message((2, plane)) + varint(3 << 3 | 2) + varint(len(content))
            rest = _message(*metadata)
            file.write(varint(1 << 3 | 2) + varint(len(head) + len(content) + len(rest)))
            file.writelines((head, content, rest))
        file.write(_message((4, "here")))


def _entry(number: int, name: str) -> bytes:
    return _message((1, number), (2, _message((1, number), (2, name))))
