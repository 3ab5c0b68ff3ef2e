"""A pipeline whose bubbles are planted, for tests of `pipeline_bubbles`."""

from __future__ import annotations

import random
from typing import Any

KERNEL, PASS = 100_000, 4_000
NAME = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def pipeline_run(seed: int, *, bubbles: bool, stages: int = 4, microbatches: int = 6, steps: int = 3) -> dict[str, list[dict[str, Any]]]:  # fmt: skip
    """Return a GPipe-like forward pass; `bubbles`: each stage receives while it has nothing to compute.

    Without bubbles a stage receives on a second stream while it computes.
    """
    noise = random.Random(seed)
    tables: dict[str, list[dict[str, Any]]] = {"span": [], "kernel": [], "collective": []}
    length = (microbatches + stages - 1) * (KERNEL + PASS)
    for rank in range(stages):
        common, launch = {"rank": rank, "pid": 100 + rank}, 0
        for step in range(steps):
            begin = step * length
            tables["span"].append({**common, "tid": 1, "ts": begin, "dur": length, "span_id": step + 1, "level": "step", "name": f"step {step}"})  # fmt: skip
            rows = [("gemm", begin + noise.randrange(99), length - 99, 7)]
            if bubbles:
                busy = [begin + (rank + n) * (KERNEL + PASS) for n in range(microbatches)]
                rows = [("gemm", at, KERNEL, 7) for at in busy]
                rows += [(NAME, begin, busy[0] - begin, 20)] if rank else []
                rows += [(NAME, at + KERNEL, PASS, 20) for at in busy]
                end = busy[-1] + KERNEL + PASS
                rows += [(NAME, end, begin + length - end, 20)] if rank < stages - 1 else []
            else:
                rows.append((NAME, begin + 500, KERNEL, 20))
            for name, ts, dur, stream in rows:
                launch += 1
                row = {**common, "device": 0, "launch_id": launch, "ts": ts, "dur": dur, "stream": stream}  # fmt: skip
                tables["kernel"].append({**row, "name": name})
                if name == NAME:
                    tables["collective"].append({**row, "operation": "recv", "communicator": "pp", "sequence": launch, "sequence_source": "counted"})  # fmt: skip
    return tables
