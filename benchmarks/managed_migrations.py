"""Compare what `uvm_simulate` predicts with what moves on a GPU, where all managed memory fits.

    python benchmarks/managed_migrations.py [--megabytes 256]

A program (`managed_pages.cu`, compiled with nvcc) lets kernels use pages of managed memory in known patterns. It runs
once under `cuda.memory:counts` with granules of 64 KiB, from which `uvm_simulate` predicts, and once under `cuda:kernels`, whose
migrations are what happened. Printed is a row for each kernel, and one for what moved before the first, if anything did. The driver moves up to 2 MiB where much of it is asked
for, so that what moved lies between the prediction and the blocks of 2 MiB that hold it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl

import pasta
from pasta.trace import Trace

SOURCE = Path(__file__).with_name("managed_pages.cu")
BEFORE = "(before any kernel)"
LEVELS = {
    "touched": ["cuda.memory:counts", "--granularity", "64KiB", "--block", "64KiB"],
    "moved": ["cuda:kernels"],
}


def main() -> None:
    """Run the program under both collectors and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=256, help="of each of six buffers")
    size = parser.parse_args().megabytes << 20
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "managed_pages")
        compile_it = ["nvcc", "-std=c++17", "-arch=native", "-o", str(program), str(SOURCE)]
        subprocess.run(compile_it, check=True)
        traces = {name: record(name, [str(program), str(size)], folder) for name in LEVELS}
        found = predicted(traces["touched"], Path(folder)).join(
            moved(traces["moved"]), on="kernel", how="full", coalesce=True, maintain_order="left"
        )
    columns = found.columns
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")
    for row in found.rows():
        print(f"| {' | '.join(map(str, row))} |")


def record(name: str, program: list[str], folder: str) -> Trace:
    """Run the program under a level and return the trace."""
    out = f"{folder}/{name}"
    command = [sys.executable, "-m", "pasta", "collect", "--with", *LEVELS[name], "-o", out, "--"]
    subprocess.run([*command, *program], check=True, stdout=subprocess.DEVNULL)
    trace: Trace = pasta.open(out)
    return trace


def predicted(trace: Trace, folder: Path) -> pl.DataFrame:
    """Return for each kernel the pages that fault and the bytes that move, as the tool says."""
    command = [sys.executable, "-m", "pasta", "run", "uvm_simulate", "--trace", str(trace.path)]
    options = ["--set", "memory=100GB", "--out", str(folder / "results")]
    subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL)
    steps = pl.read_parquet(folder / "results" / "steps.parquet")
    names = trace.scan("kernel").select("launch_id", kernel=short_name()).collect()
    return (
        steps.filter(pl.col("policy") == "no advice")
        .join(names, on="launch_id")
        .sort("launch_id")
        .select(
            "kernel",
            predicted_faults="faults",
            predicted_bytes="fault_bytes",
            new_bytes="new_bytes",
        )
    )


def moved(trace: Trace) -> pl.DataFrame:
    """Return for each kernel what moved to the device from its start until the next kernel's, and what did before any."""
    for table in ("copy", "metric"):
        if not trace.has(table):
            losses = trace.scan("loss").collect() if trace.has("loss") else "nothing lost"
            sys.exit(f"no migrations or faults were recorded: {losses}")
    kernels = trace.scan("kernel").sort("ts").select("ts", kernel=short_name()).collect()
    kernels = pl.concat([pl.DataFrame({"ts": [0], "kernel": [BEFORE]}, kernels.schema), kernels])
    copies = trace.scan("copy").filter(kind="migration", destination="device").collect()
    faults = trace.scan("metric").filter(name="gpu_page_faults").collect()
    return (
        kernels.join(_by_kernel(copies, kernels, "bytes", "moved_bytes"), on="kernel", how="left")
        .join(_by_kernel(faults, kernels, "value", "fault_groups"), on="kernel", how="left")
        .select("kernel", pl.col("moved_bytes", "fault_groups").fill_null(0))
        .filter((pl.col("kernel") != BEFORE) | (pl.col("moved_bytes") + pl.col("fault_groups") > 0))
    )


def short_name() -> pl.Expr:
    """Return a kernel's name without its parameters."""
    return pl.col("name").str.split("(").list.first()


def _by_kernel(rows: pl.DataFrame, kernels: pl.DataFrame, column: str, named: str) -> pl.DataFrame:
    return (
        rows.sort("ts")
        .join_asof(kernels, on="ts")
        .group_by("kernel")
        .agg(pl.col(column).sum().alias(named))
    )


if __name__ == "__main__":
    main()
