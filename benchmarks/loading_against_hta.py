"""Compare loading a trace with HolisticTraceAnalysis, on the same files in the same run.

    python -m venv hta && hta/bin/pip install HolisticTraceAnalysis
    python benchmarks/loading_against_hta.py hta/bin/python TRACE.json.gz [TRACE.json ...]

Both sides load each file in a new process, three times; files of more than 200 MB once on HTA's
side. pasta's time ends with the trace on disk as Parquet, HTA's with its frames in memory. Imports
of the libraries are left out on both sides. Needs Linux.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from import_kineto import RUNS, measure, plain_bytes

_LARGE = 200_000_000
_PASTA = """
import json, sys, time
from pathlib import Path
from pasta.collect.importer import IMPORTERS
from pasta.collect.importing import import_trace
list(IMPORTERS)
started = time.perf_counter()
import_trace([Path(sys.argv[1])], Path(sys.argv[2]))
print(json.dumps({"seconds": time.perf_counter() - started}))
"""
_HTA = """
import json, logging, sys, time
from importlib.metadata import version
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
started = time.perf_counter()
TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="/")
seconds = time.perf_counter() - started
print(json.dumps({"seconds": seconds, "version": version("HolisticTraceAnalysis")}))
"""


def compare(hta_python: str, file: Path) -> None:
    """Print one line for each side."""
    size = plain_bytes(file)
    hta_runs = 1 if size > _LARGE else RUNS
    for name, python, code, runs in (
        ("pasta", sys.executable, _PASTA, RUNS),
        ("HTA", hta_python, _HTA, hta_runs),
    ):
        seconds, peaks, version = [], [], ""
        for _ in range(runs):
            with tempfile.TemporaryDirectory() as folder:
                result, peak = measure([python, "-c", code, str(file), f"{folder}/trace"])
            seconds.append(result["seconds"])
            peaks.append(peak)
            version = f" {result['version']}" if "version" in result else ""
        median = statistics.median(seconds)
        print(
            f"{file.name}: {name}{version}: {median:.2f} s, {size / 1e6 / median:.0f} MB/s of JSON,"
            f" peak {max(peaks) / 1e6:.0f} MB ({runs} runs)",
            flush=True,
        )


def main() -> None:
    """Compare on every file given."""
    for file in sys.argv[2:]:
        compare(sys.argv[1], Path(file).absolute())


if __name__ == "__main__":
    main()
