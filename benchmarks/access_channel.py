"""Measure raw accesses on their way from a ring of records into Parquet.

    python benchmarks/access_channel.py [MILLIONS_OF_ROWS] [FOLDER]

A program fills the ring of records as kernels would, all lanes of each warp at work; the collector's
own reader sends them through the channel, and the receiver writes the table `access` into FOLDER
(default: the directory for temporary files). Prints a line of JSON with the rate at which records
are only counted, and one for each of three runs with all rows in Parquet; with the processor time of
both processes for a million rows, that of the thread that receives, which looks for more while it
waits, and the bytes that one row takes.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pasta.collect.channel import Channel
from pasta.collect.receive import Receiver
from pasta.collect.recording import ACCESS_RING
from pasta.collect.wire import WIRE_TABLES

_SOURCE = Path(__file__).parent.parent / "tests/collect/native/memory_records.cpp"
_LANES = 32


def processor_seconds() -> float:
    """Return what this process and those that it waited for have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def counted(program: Path, rows: int) -> dict[str, float]:
    """Return the rate at which the reader takes records that become no rows."""
    command: list[str | Path] = [program, "/nonexistent", str(rows // _LANES), "count", "full"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return {"counted, M accesses/s": round(int(told[0]) / int(told[2]) * 1e3, 1)}


def written(program: Path, rows: int, folder: Path) -> dict[str, float]:
    """Run once with every row in Parquet."""
    trace = folder / "trace"
    used, began = processor_seconds(), time.perf_counter()
    with Channel.create("run", **ACCESS_RING, tables=WIRE_TABLES) as channel:
        receiver = Receiver(channel, trace, time.time_ns)
        command: list[str | Path] = [
            program,
            str(channel.folder),
            str(rows // _LANES),
            "rows",
            "full",
        ]
        receiving = time.thread_time()
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            while process.poll() is None or channel.producers:
                receiver.receive(0.05)
        receiving = time.thread_time() - receiving
        receiver.finish({})
        lost = sum(loss.rows for loss in channel.losses())
    seconds = time.perf_counter() - began
    if receiver.failure:
        raise SystemExit(receiver.failure)
    shutil.rmtree(trace)
    arrived = receiver.rows["access"]
    return {
        "rows": arrived,
        "lost": lost,
        "M rows/s": round(arrived / seconds / 1e6, 1),
        "processor s/M rows": round((processor_seconds() - used) / arrived * 1e6, 4),
        "receiving thread s/M rows": round(receiving / arrived * 1e6, 4),
        "bytes/row": round(receiver.bytes / arrived, 2),
        "cores": len(os.sched_getaffinity(0)),
    }


def main() -> None:
    """Compile the program and print what was measured."""
    rows = round(float(sys.argv[1]) * 1e6) if len(sys.argv) > 1 else 100_000_000
    where = sys.argv[2] if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory(dir=where) as made:
        folder = Path(made)
        program = folder / "memory_records"
        subprocess.run(
            ["c++", "-std=c++20", "-O2", str(_SOURCE), "-o", str(program), "-pthread"], check=True
        )
        print(json.dumps(counted(program, rows)))
        for _ in range(3):
            print(json.dumps(written(program, rows, folder)))


if __name__ == "__main__":
    main()
