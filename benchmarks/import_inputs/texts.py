"""Large inputs: formats that are lines of text."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from .writing import NAMES, json_text, write_until


def make_nvbit(path: Path, size: int, seed: int) -> None:
    """Make NVBit's text: launches of 1,000 lines of 32 addresses."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    context = "MEMTRACE: CTX 0x000055d5c7f51d60 - "
    bases = [0x7F0000000000 + 128 * chance.randrange(1 << 20) for _ in range(1 << 12)]
    texts = [" ".join(f"0x{base + 4 * lane:016x}" for lane in range(32)) for base in bases]

    def lines() -> Iterator[bytes]:
        launch = 0
        while True:
            yield (
                f"{context}LAUNCH - Kernel pc 0x00007f0000000000 - Kernel name kernel_{launch % NAMES}(float*)"
                f" - grid launch id {launch} - grid size 4,2,1 - block size 128,1,1 - nregs 10 - shmem 0"
                " - cuda stream id 7\n"
            ).encode()
            for at in range(1_000):
                where = f"CTA {at % 4},{at % 2},0 - warp {at % 4} - LDG.E"
                addresses = texts[chance.randrange(1 << 12)]
                yield f"{context}grid_launch_id {launch} - {where} - {addresses} \n".encode()
            launch += 1

    write_until(path, size, lines())


def make_perf_script(path: Path, size: int, seed: int) -> None:
    """Make what `perf script` prints: samples of 16 threads with stacks of 20 frames."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets

    def samples() -> Iterator[bytes]:
        ts = 40_781_000_000_000
        while True:
            ts += 10_000
            tid = 1_271 + chance.randrange(16)
            lines = [
                f"prog  1271/{tid}  [001]  {ts // 10**9}.{ts % 10**9:09d}:   10101010 cycles:u: "
            ]
            for depth in range(20):
                at = depth * 50 + chance.randrange(3)
                lines.append(f"\t          {at:06x} function_{at}+0x1f (/usr/lib/libprog.so)")
            yield ("\n".join(lines) + "\n\n").encode()

    write_until(path, size, samples())


def make_collapsed(path: Path, size: int, seed: int) -> None:
    """Make collapsed stacks, each of them another one, as tools write each stack once."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets

    def lines() -> Iterator[bytes]:
        while True:
            frames = [
                f"function_{depth * 50 + chance.randrange(5)} (model.py:{depth})"
                for depth in range(12)
            ]
            yield f"{';'.join(frames)} {chance.randrange(1, 100)}\n".encode()

    write_until(path, size, lines())


def make_triton_log(path: Path, size: int, seed: int) -> None:
    """Make tritonparse's log: a compilation of 200 kB in every thousand launches."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    source = "x" * 200_000

    def lines() -> Iterator[bytes]:
        at = 0
        while True:
            at += 1
            stamp = f"2025-07-07T{at // 3_600_000_000 % 24:02d}:{at // 60_000_000 % 60:02d}:{at // 10**6 % 60:02d}.{at % 10**6:06d}Z"
            stack = [
                {
                    "line": chance.randrange(30),
                    "name": f"f{depth}",
                    "filename": "/m/t.py",
                    "loc": "",
                }
                for depth in range(8)
            ]
            told = {"event_type": "launch", "pid": 7, "stack": stack, "timestamp": stamp}
            name = f"kernel_{chance.randrange(NAMES)}"
            if at % 1_000 == 1:
                payload = {"metadata": {"name": name, "num_warps": 4}, "times": {"ir_initialization": 500},
                           "file_content": {"k.ttir": source}}  # fmt: skip
                yield json_text({**told, "event_type": "compilation", "payload": payload}) + b"\n"
            metadata = {"name": name, "num_warps": 4, "warp_size": 32, "shared": 0}
            yield json_text({**told, "name": name, "grid": [64, 1, 1], "stream": 0, "compilation_metadata": metadata}) + b"\n"  # fmt: skip

    write_until(path, size, lines())
