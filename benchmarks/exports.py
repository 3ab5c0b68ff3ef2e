"""How fast exports are written, in processor time of one core, and how much memory they take.

    python benchmarks/exports.py TRACE [--to perfetto,chrome] [--rounds N] [--before CHECKOUT]

Each export is a new process with one thread for Polars and one for Arrow; libraries are loaded before time is
taken. How fast `json.loads` is meanwhile tells what the machine gives. With `--before` another checkout of pasta writes the same in turn. The medians of all rounds are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

FORMATS = "perfetto,chrome,otlp,speedscope,folded,csv,arrow"
ROOT = Path(__file__).parent.parent
ONE_THREAD = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "ARROW_IO_THREADS": "1"}
EXPORT = """
import json, re, sys, time
from pathlib import Path

import pyarrow

from pasta import api
from pasta.exports.exporter import EXPORTERS

pyarrow.set_cpu_count(1)
trace, form, out = sys.argv[1:]
EXPORTERS.get(form)
begin = time.process_time()
exported = api.export(trace, form, out)
seconds = time.process_time() - begin
peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) << 10
print(json.dumps({"seconds": seconds, "peak": peak, "rows": exported.rows.total()}))
"""


def measured(checkout: Path, trace: Path, form: str, folder: Path) -> dict[str, float]:
    """Export once; return processor seconds, peak resident bytes, rows and bytes written."""
    out = folder / "out"
    command = [sys.executable, "-c", EXPORT, str(trace.resolve()), form, str(out)]
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": str(checkout.resolve())}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    files = [path for path in out.rglob("*") if path.is_file()] if out.is_dir() else [out]
    found: dict[str, float] = json.loads(done.stdout)
    found["bytes"] = sum(path.stat().st_size for path in files)
    shutil.rmtree(out) if out.is_dir() else out.unlink()
    return found


def yardstick() -> float:
    """Return the MB/s at which the standard library reads JSON now, in processor time."""
    events = [
        {"name": f"k{row % 50}", "ts": row * 1.5, "args": {"a": row}} for row in range(200_000)
    ]
    text = json.dumps(events)
    began = time.process_time()
    json.loads(text)
    return len(text) / (time.process_time() - began) / 1e6


def main() -> None:
    """Print a row for each format and checkout."""
    parser = argparse.ArgumentParser(description="Measure exports.")
    parser.add_argument("trace", type=Path)
    parser.add_argument("--to", default=FORMATS.split(","), type=lambda text: text.split(","))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--before", type=Path)
    given = parser.parse_args()
    checkouts = {"now": ROOT} | ({"before": given.before} if given.before else {})
    print("| format | checkout | rows | MB | seconds of a core | MB/s | rows/s | peak |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    reads: list[float] = []
    with TemporaryDirectory() as folder:
        for form in given.to:
            runs: dict[str, list[dict[str, float]]] = {name: [] for name in checkouts}
            for _round in range(given.rounds):
                reads.append(yardstick())
                for name, checkout in checkouts.items():
                    runs[name].append(measured(checkout, given.trace, form, Path(folder)))
            for name, found in runs.items():
                seconds, peak = (median(run[key] for run in found) for key in ("seconds", "peak"))
                rows, size = found[0]["rows"], found[0]["bytes"]
                print(
                    f"| {form} | {name} | {rows:,} | {size / 1e6:,.1f} | {seconds:.2f} |"
                    f" {size / seconds / 1e6:.1f} | {rows / seconds:,.0f} | {peak / 1e6:,.0f} MB |"
                )
    print(
        f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, Python {sys.version.split()[0]};"
        f" json.loads at {median(reads):.0f} MB/s"
    )


if __name__ == "__main__":
    main()
