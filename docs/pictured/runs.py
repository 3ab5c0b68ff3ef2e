"""Tables of small runs that pictures show, where those of the tests say too little."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import polars as pl

import pasta
from docs.pictured.accesses import WORD, small_kernels
from pasta.schema import arrow_schema
from pasta.testing import write_trace
from pasta.tools.shipped import SHIPPED_TRACE
from tests.tools.counters_run import ROOFS, counted, intel
from tests.tools.hung_ranks import MAIN, MS, collective, span
from tests.tools.memory_run import BASE, SPANS, allocate, counts, touch
from tests.tools.training_run import life, steps

Tables = dict[str, list[dict[str, Any]]]

BLOCK = 1 << 21
MIB = 1 << 20


def blocks_of_memory(launches: int = 48) -> Tables:
    """Return launches that all read the weights, pass activations on, and update two blocks of state now and then."""
    chance = random.Random(0)
    memory = [allocate(1, "device", 1 + place, BASE + place * BLOCK, BLOCK) for place in range(14)]
    kernels, touches = [], []
    for launch in range(1, launches + 1):
        name = "update" if launch % 12 == 0 else "layer"
        kernels.append(
            {"device": 0, "launch_id": launch, "ts": 10 * launch, "dur": 8, "name": name}
        )
        used = {place: (chance.randrange(8_000, 12_000), 0) for place in range(4)}
        at = 4 + launch % 8
        used |= {at: (chance.randrange(1_500, 2_500), 0), (at - 3) % 8 + 4: (0, 2_000)}
        if name == "update":
            used |= {12: (20_000, 20_000), 13: (20_000, 20_000)}
        for place, (reads, writes) in used.items():
            row = counts(reads, writes, size=4)
            touches.append(touch(launch, "device", 1 + place, **row))
            touches.append(touch(launch, "device", 1 + place, block=0, **row))
        whole = [sum(each) for each in zip(*used.values(), strict=True)]
        touches.append(touch(launch, "global", **counts(*whole, size=4)))
    return {"memory": memory, "kernel": kernels, "touch": touches, "span": SPANS[-1:]}


def training_memory(*, leaks: bool = False, count: int = 6, layers: int = 6) -> Tables:
    """Return the memory of steps of 10 ms: activations of layers come and go, and a leak keeps 24 MiB of each step."""
    slow = 100_000
    memory = life(1, None, 1, 96 * MIB)
    for step in range(count):
        begin, address = 100 * step, 100 * step + 100
        for layer in range(layers):
            memory += life(
                begin + 13 + 4 * layer, begin + 68 - 4 * layer, address + layer, 16 * MIB
            )
        memory += life(begin + 15, None if leaks else begin + 66, address + 50, 24 * MIB)
    memory.sort(key=lambda row: row["ts"])
    times = ("ts", "dur")
    return {
        name: [{**row, **{time: row[time] * slow for time in times if time in row}} for row in rows]
        for name, rows in (("memory", memory), ("span", steps(count)))
    }


def memory_of_stages() -> Tables:
    """Return the memory of a step of four stages of a pipeline: the earlier one is, the more activations it holds."""
    rows: Tables = {"memory": [], "span": []}
    for rank in range(4):
        for name, own in training_memory(count=1, layers=6 - rank).items():
            rows[name] += [{**row, "rank": rank} for row in own]
    return rows


def hung_ranks() -> Tables:
    """Return four ranks that wait in an allreduce for one, whose main thread waits for its loader."""
    rows: Tables = {"span": [], "collective": [], "sample": [], "frame": []}
    for rank in range(4):
        late = rank == 2
        rows["collective"] += [collective(rank, number) for number in range(5 if late else 7)]
        if not late:
            rows["collective"][-1]["dur"] = None
        inner = ("fetch batch", "annotation") if late else ("nccl:all_reduce", "operator")
        opened = (("train", 0, "run"), ("step 3", 4 * MS, "step"), (inner[0], 6 * MS, inner[1]))
        rows["span"] += [span(name, ts, rank=rank, level=level) for name, ts, level in opened]
        rows["sample"].append({"rank": rank, "pid": MAIN, "tid": MAIN, "ts": 60_000 * MS, "kind": "hang", "stack_id": 1})  # fmt: skip
        waits = ("get", "queue.py", 171) if late else ("all_reduce", "distributed.py", 88)
        for depth, (function, file, line) in enumerate((("main", "train.py", 40), ("step", "train.py", 21), waits)):  # fmt: skip
            rows["frame"].append({"rank": rank, "pid": MAIN, "stack_id": 1, "depth": depth, "function": function, "file": file, "line": line})  # fmt: skip
    return rows


def phases_of_a_cpu() -> Tables:
    """Return counters of seven intervals: a product of matrices, a stencil, and a walk through memory."""
    kinds = (("256b_packed_double", 5.5e9, 3e9), ("256b_packed_double", 7e8, 1.2e9), ("scalar_double", 9e7, 1.1e9))  # fmt: skip
    chance, metric = random.Random(0), [*ROOFS]
    for number in range(7):
        kind, operations, memory = kinds[number * len(kinds) // 7]
        noise = chance.lognormvariate(0, 0.15)
        events = {intel(kind): operations * noise / 10, "mem_inst_retired__any": memory / 10}
        metric += counted(number * 100 * MS, 100 * MS, **events)
    return {"metric": metric}


def without_calls(trace: str) -> Tables:
    """Return the spans and device work of a trace that is installed with pasta, as if no call had been recorded."""
    opened = pasta.open(SHIPPED_TRACE.parent / trace)
    kept = {name: opened.scan(name).collect() for name in ("span", "kernel", "copy", "process")}
    kept["kernel"] = kept["kernel"].with_columns(external_id=pl.lit(0, pl.UInt64))
    return {name: rows.to_dicts() for name, rows in kept.items()}


def miscounted() -> Tables:
    """Return accesses and what they add up to by object, of which one launch lost 32 reads of a tensor."""
    tables = small_kernels()
    with tempfile.TemporaryDirectory() as folder:
        trace = write_trace(Path(folder, "trace"), **tables)
        pasta.run("touch_from_access", trace=trace, out=Path(folder, "out"))
        rows = pl.read_parquet(Path(folder, "out", "touch.parquet"))
    names = [name for name in arrow_schema("touch").names if name in rows.columns]
    touches = rows.select(names).to_dicts()
    lost = next(row for row in touches if row["space"] == "tensor" and row["reads"])
    lost["reads"] -= 32
    lost["bytes_read"] -= 32 * WORD
    return {**tables, "touch": touches}
