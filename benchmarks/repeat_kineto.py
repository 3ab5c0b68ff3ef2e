"""Repeat a Kineto trace with shifted times and ids, to make a large file of a small one.

    python benchmarks/repeat_kineto.py TRACE.json.gz LARGE.json 10

Each copy follows the one before in time, and its correlations, external ids and sequence numbers
are new. The input is held in memory; the output is streamed. A name that ends in `.gz` compresses.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_IDS = ("External id", "external id", "correlation", "Ev Idx", "Python id", "Python parent id")


def repeated(trace: dict[str, Any], times: int) -> Iterator[str]:
    """Yield the pieces of the large JSON text."""
    events = trace.pop("traceEvents")
    timed = [event for event in events if event["ph"] == "X" and event["ts"]]
    period = max(event["ts"] + event.get("dur", 0) for event in timed) - min(
        event["ts"] for event in timed
    )
    stride = 1 + max(
        event["args"].get(name) or 0 for event in timed for name in _IDS if event.get("args")
    )
    head = json.dumps(trace)[1:-1]
    yield "{\n  " + head + ',\n  "traceEvents": [\n'
    for copy in range(times):
        texts = (_text(event, copy * (round(period) + 1000), copy * stride) for event in events)
        yield (",\n" if copy else "") + ",\n".join(texts)
    yield "\n  ]\n}\n"


def _text(event: dict[str, Any], shift: int, offset: int) -> str:
    """Return one event laid out as Kineto does, moved by `shift` us and `offset` ids."""
    moved = dict(event)
    if moved.get("ts"):
        moved["ts"] = round(moved["ts"] + shift, 3)
    if "id" in moved and isinstance(moved["id"], int):
        moved["id"] += offset
    arguments = moved.pop("args", None)
    fields = json.dumps(moved)[1:-1].replace(', "ts"', ',\n    "ts"')
    if arguments is None:
        return "  {\n    " + fields + "\n  }"
    new = {
        name: value + offset if name in _IDS and isinstance(value, int) and value else value
        for name, value in arguments.items()
    }
    return (
        "  {\n    " + fields + ',\n    "args": {\n      ' + json.dumps(new)[1:-1] + "\n    }\n  }"
    )


def main() -> None:
    """Write the large file."""
    source, target, times = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    opened = gzip.open if source.suffix == ".gz" else open
    with opened(source, "rb") as stream:
        trace = json.load(stream)
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(target.open("wb"))
        if target.suffix == ".gz":
            output = stack.enter_context(gzip.GzipFile(fileobj=output, mode="wb", compresslevel=1))
        for piece in repeated(trace, times):
            output.write(piece.encode())
    print(f"{target}: {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
