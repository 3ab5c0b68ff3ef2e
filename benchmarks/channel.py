"""Measure the channel from end to end: one program writes columns, this one sums them.

    python benchmarks/channel.py [GIGABYTES]

The writer is a process of its own that writes rows of the table `access` from numpy arrays, with a
ring of 16 slots of 1 MiB, and waits for free slots; the reader sums every column of every batch
where it lies in shared memory. Three runs; bytes are those of the columns. Then the cost of an idle
reader, as processor time for each second.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa

from pasta.collect.channel import Channel

_ROWS = 19_000
_WRITER = """
import sys
import numpy as np
from pasta.collect.target.channel_writer import RingWriter
rows, batches = int(sys.argv[2]), int(sys.argv[3])
types = {"launch_id": "u8", "request": "u8", "lane": "u1", "pc": "u4", "address": "u8",
         "bytes": "u4", "op": "u1", "space": "u1", "warp": "u4", "block": "u8", "pid": "i8"}
columns = {name: np.arange(rows).astype(kind) for name, kind in types.items()}
writer = RingWriter(sys.argv[1])
for _ in range(batches):
    writer.write("access", columns)
writer.close()
"""


def total(rows: pa.RecordBatch) -> int:
    """Return the sum of all columns."""
    return sum(int(np.sum(column.to_numpy())) for column in rows.columns)


def measure(gigabytes: float) -> dict[str, float]:
    """Run once; return rates from the first batch to the last."""
    batches = round(gigabytes * 1e9 / (_ROWS * 55))
    received = size = checksum = 0
    started = 0.0
    with Channel.create("benchmark", block_seconds=10) as channel:
        command = [sys.executable, "-c", _WRITER, str(channel.folder), str(_ROWS), str(batches)]
        with subprocess.Popen(command):
            while received < batches and (batch := channel.wait(30)) is not None:
                with batch:
                    started = time.perf_counter() if received == 0 else started
                    received += 1
                    size += batch.rows.nbytes
                    checksum += total(batch.rows)
            seconds = time.perf_counter() - started
        dropped = sum(loss.batches for loss in channel.losses())
    return {
        "GB/s": round(size / seconds / 1e9, 2),
        "batches/s": round(received / seconds),
        "batches": received,
        "dropped": dropped,
    }


def idle_cost(seconds: float) -> float:
    """Return the processor time that waiting takes, for each second of it."""
    with Channel.create("benchmark") as channel:
        before = time.process_time()
        channel.wait(seconds)
        return (time.process_time() - before) / seconds


def main() -> None:
    """Print one line of JSON for each run, and one for the idle reader."""
    gigabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 4.0
    for _ in range(3):
        print(json.dumps(measure(gigabytes)))
    print(json.dumps({"idle reader, cores": round(idle_cost(3), 4)}))


if __name__ == "__main__":
    main()
