"""Measure how fast, and in how much memory, Kineto traces are imported.

    python benchmarks/import_kineto.py TRACE.json [TRACE.json.gz ...]

Each file is imported three times in a new process, end to end into Parquet; the medians are
printed. Memory is the largest sum of resident sizes over the process and its children. Needs Linux.
"""

from __future__ import annotations

import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 3
_IMPORT = """
import json, sys, time
from pathlib import Path
started = time.perf_counter()
from pasta.arrow_memory import take_from_c_library
take_from_c_library()  # as the command does
from pasta.collect.importing import import_trace
report = import_trace([Path(sys.argv[1])], Path(sys.argv[2]))
rows = sum(n for table, n in report.rows.items() if table not in ("process", "thread", "device", "loss"))
print(json.dumps({"seconds": time.perf_counter() - started, "rows": rows}))
"""


def tree_memory(pid: int) -> int:
    """Return the resident bytes of a process and all its descendants."""
    total = 0
    waiting = [pid]
    while waiting:
        process = waiting.pop()
        try:
            status = Path(f"/proc/{process}/status").read_text()
            children = Path(f"/proc/{process}/task/{process}/children").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        waiting += map(int, children.split())
        for line in status.splitlines():
            if line.startswith("VmRSS:"):
                total += int(line.split()[1]) * 1024
    return total


def as_installed() -> dict[str, str]:
    """Return the environment, in which Python keeps byte code, as it has that of an installed wheel."""
    return {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def measure(command: list[str]) -> tuple[dict[str, float], int]:
    """Run `command`; return what it printed as JSON last, and its peak memory in bytes."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=as_installed()
    ) as process:
        peak = 0
        while process.poll() is None:
            peak = max(peak, tree_memory(process.pid))
            time.sleep(0.01)
        output, _ = process.communicate()
    if process.returncode:
        sys.exit(f"{command[0]} failed with {process.returncode}")
    return json.loads(output.splitlines()[-1]), peak


def plain_bytes(file: Path) -> int:
    """Return the size of the JSON in a file, decompressed."""
    if file.suffix != ".gz":
        return file.stat().st_size
    size = 0
    with gzip.open(file, "rb") as stream:
        while chunk := stream.read(1 << 22):
            size += len(chunk)
    return size


def main() -> None:
    """Print one line for each file given."""
    for file in map(Path, sys.argv[1:]):
        size = plain_bytes(file)
        seconds, peaks, rows = [], [], 0.0
        for _ in range(RUNS):
            with tempfile.TemporaryDirectory() as folder:
                result, peak = measure([sys.executable, "-c", _IMPORT, str(file), f"{folder}/t"])
            seconds.append(result["seconds"])
            peaks.append(peak)
            rows = result["rows"]
        median = statistics.median(seconds)
        print(
            f"{file.name}: {size / 1e6:.0f} MB of JSON in {median:.2f} s"
            f" ({min(seconds):.2f} to {max(seconds):.2f}): {size / 1e6 / median:.0f} MB/s,"
            f" {rows / median / 1e3:.0f} thousand rows/s, peak {max(peaks) / 1e6:.0f} MB"
        )


if __name__ == "__main__":
    main()
