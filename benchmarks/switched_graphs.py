"""Whether CUDA graphs live with `--switch-patches`, and what a replay takes; in one line, on a GPU with PyTorch.

    python benchmarks/switched_graphs.py

A graph of ten additions is made, then replayed before, while and after launches are watched, in one process for each
way: without a collector, with patches that stay, and with `--switch-patches`. So is one addition by itself, in a process
without a graph. Printed is which replays were watched, and the median ms of five, the device waited for.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl

import pasta

REPLAYS = 5
PROGRAM = f"""
import statistics, sys, time
import pasta, torch
a = torch.zeros(1 << 24, device="cuda")
a.add_(1)
work = lambda: a.add_(1)
if sys.argv[1] == "graph":
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(10):
            a.add_(1)
    work = graph.replay
for part in range(3):
    if part == 1 and sys.argv[2] != "bare":
        pasta.start()
    times = []
    for _ in range({REPLAYS}):
        torch.cuda.synchronize()
        began = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(1000 * (time.perf_counter() - began))
    if part == 1 and sys.argv[2] != "bare":
        pasta.stop()
    print(f"{{statistics.median(times):.2f}}", end=" ")
assert a.eq(1 + 3 * {REPLAYS} * (10 if sys.argv[1] == "graph" else 1)).all().item()
"""
WAYS = {"bare": None, "stay": [], "switched": ["--switch-patches"]}


def main() -> None:
    """Print the line."""
    told = [f"{work}, {way}: {run(work, way)}" for work in ("graph", "addition") for way in WAYS]
    print("; ".join(told))


def run(work: str, way: str) -> str:
    """Return the ms before, while and after, and what was watched; or how the program ended."""
    with tempfile.TemporaryDirectory() as folder:
        program, trace = Path(folder, "program.py"), Path(folder, "trace")
        program.write_text(PROGRAM, encoding="utf-8")
        command = [sys.executable, str(program), work, way]
        options = WAYS[way]
        if options is not None:
            collect = [sys.executable, "-m", "pasta", "collect", "--with", "cuda.memory:touch"]
            command = [*collect, "--idle", *options, "-o", str(trace), "--", *command]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode:
            return f"FAILED ({done.returncode}): {done.stderr.strip().splitlines()[-1:]}"
        return f"{done.stdout.strip()} ms{'' if options is None else watched(trace)}"


def watched(folder: Path) -> str:
    """Return how many launches were watched, and how many different counts they have."""
    trace = pasta.open(folder)
    rows = trace.scan("touch").filter(pl.col("object_id") == 0, pl.col("space") == "global")
    counts = rows.select("reads", "writes").collect()
    return f", {counts.height} watched with {counts.unique().height} different counts"


if __name__ == "__main__":
    main()
