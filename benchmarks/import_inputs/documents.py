"""Large inputs: formats that are one JSON document."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from .writing import NAMES, json_text, write_until


def make_speedscope(path: Path, size: int, seed: int) -> None:
    """Make a speedscope file as py-spy writes it: profiles before the names of their frames."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    frames = [{"name": f"function_{at}", "file": "/m/model.py", "line": at} for at in range(5_000)]
    threads, sample_bytes = 8, 75
    count = size // threads // sample_bytes

    def pieces() -> Iterator[bytes]:
        yield b'{"$schema":"https://www.speedscope.app/file-format-schema.json","profiles":['
        for thread in range(threads):
            head = {"type": "sampled", "name": f'Process 7 Thread {70 + thread} "worker"', "unit": "seconds",
                    "startValue": 0.0, "endValue": count / 100}  # fmt: skip
            yield (b"," if thread else b"") + json_text(head)[:-1] + b',"samples":['
            for at in range(count):
                yield (b"," if at else b"") + json_text(_stack(chance))
            yield b'],"weights":['
            for at in range(count):
                yield (b"," if at else b"") + b"0.01"
            yield b"]}"

    end = (
        b'],"shared":{"frames":'
        + json_text(frames)
        + b'},"exporter":"py-spy@0.4.0","name":"py-spy"}'
    )
    write_until(path, size * 2, pieces(), end)


def make_speedscope_evented(path: Path, size: int, seed: int) -> None:
    """Make a speedscope file of one profile of frames that are opened and closed."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    frames = [{"name": f"function_{at}", "file": "/m/model.py", "line": at} for at in range(5_000)]

    def pieces() -> Iterator[bytes]:
        yield (
            b'{"$schema":"https://www.speedscope.app/file-format-schema.json","shared":{"frames":'
            + json_text(frames)
        )
        yield b'},"profiles":[{"type":"evented","name":"main","unit":"microseconds","startValue":0,"endValue":1,"events":['
        at, comma = 0, b""
        while True:
            opened = _stack(chance)
            kinds = [("O", frame) for frame in opened] + [
                ("C", frame) for frame in reversed(opened)
            ]
            events = []
            for kind, frame in kinds:
                at += 3
                events.append(json_text({"type": kind, "frame": frame, "at": at / 10}))
            yield comma + b",".join(events)
            comma = b","

    write_until(path, size, pieces(), b"]}]}")


def _stack(chance: random.Random) -> list[int]:
    """Return the frames of a stack, in 99 of 100 cases one of a thousand."""
    number = chance.randrange(1_000) if chance.random() < 0.99 else chance.randrange(1 << 28)
    return [depth * 250 + (number >> 2 * depth & 3) for depth in range(14)]


def make_proton(path: Path, size: int, seed: int) -> None:
    """Make Proton's tree: 60 calls below every call, three deep, until the size is reached."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    leaf_bytes = 140
    calls = max(size // leaf_bytes // 60, 1)

    def leaf() -> bytes:
        metrics = {"count": chance.randrange(1, 9), "device_id": "0", "device_type": "CUDA",
                   "time (ns)": chance.randrange(1, 10**6)}  # fmt: skip
        return json_text({"children": [], "frame": {"name": f"kernel_{chance.randrange(NAMES)}", "type": "function"}, "metrics": metrics})  # fmt: skip

    def pieces() -> Iterator[bytes]:
        yield b'[{"children":['
        for call in range(calls):
            yield (b"," if call else b"") + b'{"children":['
            for at in range(60):
                yield (b"," if at else b"") + leaf()
            named = {"name": f"call_{call}", "type": "function"}
            yield b'],"frame":' + json_text(named) + b',"metrics":{}}'

    devices = {"CUDA": {"0": {"arch": "90", "num_sms": 132}}}
    end = (
        b'],"frame":{"name":"ROOT","type":"function"},"metrics":{"count":0,"time (ns)":0}},'
        + json_text(devices)
        + b"]"
    )
    write_until(path, size * 2, pieces(), end)
