"""Measure how fast, and in how much memory, files of other tools are imported.

    python benchmarks/importers.py enlarge nsys|rocprofv3 SMALL LARGE [--megabytes N] [--seed N]
    python benchmarks/importers.py make FORMAT PATH [--megabytes N] [--seed N]
    python benchmarks/importers.py time PATH... [--rounds N]

`enlarge` repeats a real file of a format until it has the wanted size: each copy follows the one before
in time after a random gap, and its ids are new. `make` makes a file of a format, or a folder of files that
belong together, out of nothing. `time` imports each file, or all files of a folder at once, several times,
each time in a new process, from start to finished Parquet, in turn; medians are printed. Memory is the
largest sum of resident sizes over the process and its children. Needs Linux.

A format is added by a function in `ENLARGE`, or in `MAKE` of `import_inputs`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import sqlite3
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from import_inputs import MAKE
from import_kineto import measure

_IMPORT = """
import json, os, sys, time
from pathlib import Path
started = time.perf_counter()
from pasta.arrow_memory import take_from_c_library
take_from_c_library()  # as the command does
from pasta.collect.importing import import_trace
path = Path(sys.argv[1])
files = sorted(path.iterdir()) if path.is_dir() else [path]
report = import_trace(files, Path(sys.argv[2]))
seconds = time.perf_counter() - started
times = os.times()
print(json.dumps({
    "seconds": seconds,
    "processor": times.user + times.system + times.children_user + times.children_system,
    "rows": sum(report.rows.values()),
}))
"""

_NSYS_IDS = ("correlationId", "rangeId", "gridId")
_NSYS_TIMES = ("start", "end", "timestamp")
_GAP_NS = 1_000_000
_NUMBER = re.compile(r"\d+$")


def enlarge_nsys(small: Path, large: Path, size: int, seed: int) -> None:
    """Repeat the events of an SQLite export of Nsight Systems."""
    shutil.copyfile(small, large)
    large.chmod(0o644)
    with contextlib.closing(sqlite3.connect(large)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.create_function("renumbered", 2, _renumbered, deterministic=True)
        tables = {
            name: [row[1] for row in connection.execute(f'PRAGMA table_info("{name}")')]
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'table'"
            ).fetchall()
        }
        tables = {name: columns for name, columns in tables.items() if "start" in columns}
        (first, last, ids) = _extent(connection, tables)
        chance = random.Random(seed)  # noqa: S311 - not for secrets
        rows = {
            name: connection.execute(f'SELECT max(rowid) FROM "{name}"').fetchone()[0] or 0  # noqa: S608
            for name in tables
        }
        shift = copy = 0
        while _size(connection) < size:
            copy += 1
            shift += last - first + chance.randrange(_GAP_NS)
            for name, columns in tables.items():
                values = ", ".join(_moved(column, shift, copy * ids) for column in columns)
                connection.execute(
                    f'INSERT INTO "{name}" SELECT {values} FROM "{name}"'  # noqa: S608
                    f" WHERE rowid <= {rows[name]}"
                )
        connection.commit()


def _extent(connection: sqlite3.Connection, tables: dict[str, list[str]]) -> tuple[int, int, int]:
    """Return the first and last time in some tables and the largest id."""
    firsts, lasts, ids = [], [0], [0]
    for name, columns in tables.items():
        found = connection.execute(f'SELECT min(start), max(start) FROM "{name}"').fetchone()  # noqa: S608
        if found[0] is not None:
            firsts.append(found[0])
            lasts.append(found[1])
        for column in _NSYS_IDS:
            if column in columns:
                found = connection.execute(f'SELECT max("{column}") FROM "{name}"').fetchone()  # noqa: S608
                ids.append(found[0] or 0)
    return min(firsts, default=0), max(lasts), max(ids)


def _size(connection: sqlite3.Connection) -> int:
    """Return the size of the file that a database becomes."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    return int(pages * page_size)


def _moved(column: str, shift: int, offset: int) -> str:
    """Return the SQL of one column of a copy."""
    quoted = f'"{column}"'
    if column in _NSYS_TIMES:
        return f"{quoted} + {shift}"
    if column in _NSYS_IDS:
        return f"CASE {quoted} WHEN 0 THEN 0 ELSE {quoted} + {offset} END"
    return f"renumbered({quoted}, {offset})" if column == "text" else quoted


def _renumbered(text: str | None, offset: int) -> str | None:
    """Return a text with the number at its end raised, as `aten::add, op_id = 17` has one."""
    return text and _NUMBER.sub(lambda number: str(int(number[0]) + offset), text)


def enlarge_rocprofv3(small: Path, large: Path, size: int, seed: int) -> None:
    """Repeat the kernels of a JSON file of rocprofv3."""
    content = json.loads(small.read_bytes())
    kernels = content["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"]
    period = kernels[-1]["end_timestamp"] - kernels[0]["start_timestamp"]
    ids = max(kernel["correlation_id"]["internal"] for kernel in kernels)
    mark = json.dumps(kernels, separators=(",", ":"))
    head, tail = json.dumps(content, separators=(",", ":")).split(mark)
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    with large.open("w", encoding="utf-8") as file:
        file.write(head + mark[:-1])
        while file.tell() + len(tail) < size:
            shift = period + chance.randrange(_GAP_NS)
            for kernel in kernels:
                kernel["start_timestamp"] += shift
                kernel["end_timestamp"] += shift
                kernel["correlation_id"]["internal"] += ids
                kernel["dispatch_info"]["dispatch_id"] += ids
            file.write("," + json.dumps(kernels, separators=(",", ":"))[1:-1])
        file.write("]" + tail)


ENLARGE: dict[str, Callable[[Path, Path, int, int], None]] = {
    "nsys": enlarge_nsys,
    "rocprofv3": enlarge_rocprofv3,
}


def time_imports(files: list[Path], rounds: int) -> None:
    """Import files in turn and print medians."""
    seconds: dict[Path, list[float]] = {file: [] for file in files}
    processor: dict[Path, list[float]] = {file: [] for file in files}
    peaks: dict[Path, list[int]] = {file: [] for file in files}
    rows: dict[Path, float] = {}
    for _ in range(rounds):
        for file in files:
            with tempfile.TemporaryDirectory() as folder:
                command = [sys.executable, "-c", _IMPORT, str(file), f"{folder}/t"]
                result, peak = measure(command)
            seconds[file].append(result["seconds"])
            processor[file].append(result["processor"])
            peaks[file].append(peak)
            rows[file] = result["rows"]
    for file in files:
        size = sum(each.stat().st_size for each in (file.iterdir() if file.is_dir() else [file]))
        median = statistics.median(seconds[file])
        print(
            f"{file.name}: {size / 1e6:.0f} MB in {median:.2f} s"
            f" ({min(seconds[file]):.2f} to {max(seconds[file]):.2f}): {size / 1e6 / median:.0f} MB/s,"
            f" {rows[file] / median / 1e3:.0f} thousand rows/s,"
            f" {statistics.median(processor[file]):.2f} s of processors,"
            f" peak {max(peaks[file]) / 1e6:.0f} MB"
        )


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    enlarge = commands.add_parser("enlarge")
    enlarge.add_argument("format", choices=ENLARGE)
    enlarge.add_argument("small", type=Path)
    enlarge.add_argument("large", type=Path)
    make = commands.add_parser("make")
    make.add_argument("format", choices=MAKE)
    make.add_argument("large", type=Path)
    for command in (enlarge, make):
        command.add_argument("--megabytes", type=int, default=500)
        command.add_argument("--seed", type=int, default=0)
    timing = commands.add_parser("time")
    timing.add_argument("files", type=Path, nargs="+")
    timing.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    if chosen.command == "time":
        print(json.dumps({"cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0]}))
        time_imports(chosen.files, chosen.rounds)
    elif chosen.command == "make":
        MAKE[chosen.format](chosen.large, chosen.megabytes * 10**6, chosen.seed)
    else:
        ENLARGE[chosen.format](chosen.small, chosen.large, chosen.megabytes * 10**6, chosen.seed)


if __name__ == "__main__":
    main()
