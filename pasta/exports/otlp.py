"""OpenTelemetry spans: OTLP/JSON, one request a line of a file, or sent to a collector.

Source: https://opentelemetry.io/docs/specs/otlp/.
"""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from pasta.errors import InputError
from pasta.exports.exporter import Exported, exporter
from pasta.exports.timeline import DEVICE_TABLES, Event, timeline
from pasta.trace import Trace

TABLES = ("span", "call", "kernel", "copy", "sync")
_SPANS_OF_REQUEST = 2000
_SECONDS_TO_ANSWER = 30
_INTERNAL = 1
_ATTRIBUTES = (
    *("level", "external_id", "correlation", "tid", "device", "context", "stream", "bytes"),
    *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
)

Process = tuple[int, int]


@exporter("otlp")
def export_otlp(trace: Trace, out: str) -> Exported:
    """Write spans, calls and device work as OTLP/JSON to a file, or send them to `http(s)://...`."""
    exported = Exported()
    if out.startswith(("http://", "https://")):
        _write_all(trace, exported, lambda body: _send(out, body))
    else:
        with Path(out).open("wb") as file:
            _write_all(trace, exported, lambda body: file.writelines([body, b"\n"]))
    return exported


def _write_all(trace: Trace, exported: Exported, write: Callable[[bytes], None]) -> None:
    resources = _Resources(trace)
    pending: list[tuple[Process, dict[str, Any]]] = []
    for pair in _spans(trace, resources, exported):
        pending.append(pair)
        if len(pending) == _SPANS_OF_REQUEST:
            write(_request(pending, resources))
            pending.clear()
    if pending:
        write(_request(pending, resources))


def _send(address: str, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(address, body, headers)  # noqa: S310 (http, see its caller)
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS_TO_ANSWER) as answer:  # noqa: S310
            answer.read()
    except urllib.error.HTTPError as error:
        error.close()
        raise InputError(
            f"{address}: the collector answered {error.code} {error.reason}"
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise InputError(
            f"{address}: cannot be reached ({reason}); is a collector there?"
        ) from error


class _Resources:
    """What is told of each process, and the id of its trace."""

    def __init__(self, trace: Trace) -> None:
        rows = trace.scan("process").collect().to_dicts() if trace.has("process") else []
        self._rows = {(row["rank"] or 0, row["pid"] or 0): row for row in rows}

    def trace_id(self, process: Process) -> str:
        row = self._rows.get(process, {})
        return _digest(16, "trace", *process, row.get("host"), row.get("started"))

    def attributes(self, process: Process) -> list[dict[str, Any]]:
        row = self._rows.get(process, {})
        found = {
            "service.name": row.get("command") or "pasta",
            "service.instance.id": f"rank {process[0]}",
            "rank": process[0],
            "process.pid": process[1],
            "host.name": row.get("host"),
        }
        return _attributes(found)


def _request(spans: list[tuple[Process, dict[str, Any]]], resources: _Resources) -> bytes:
    ordered = sorted(spans, key=lambda pair: pair[0])
    groups = [
        {
            "resource": {"attributes": resources.attributes(process)},
            "scopeSpans": [{"scope": {"name": "pasta"}, "spans": [span for _, span in group]}],
        }
        for process, group in groupby(ordered, key=lambda pair: pair[0])
    ]
    return msgspec.json.encode({"resourceSpans": groups})


def _spans(
    trace: Trace, resources: _Resources, exported: Exported
) -> Iterator[tuple[Process, dict[str, Any]]]:
    """Give each span with its process; parents by ids, of calls by what encloses them."""
    open_spans: dict[tuple[Process, int], list[tuple[int, str]]] = {}
    trace_ids: dict[Process, str] = {}
    for event in timeline(trace, TABLES, exported):
        row = event.row
        process = (row["rank"] or 0, row["pid"] or 0)
        if process not in trace_ids:
            trace_ids[process] = resources.trace_id(process)
        own, parent = _own_id(trace_ids[process], event), ""
        if event.table in DEVICE_TABLES:
            if row["correlation"] and trace.has("call"):
                parent = _digest(8, trace_ids[process], "call", row["correlation"])
        else:
            stack = open_spans.setdefault((process, row["tid"] or 0), [])
            while stack and stack[-1][0] <= event.ts:
                stack.pop()
            parent = stack[-1][1] if stack else ""
            if event.table == "span":
                if row["parent_id"]:
                    parent = _digest(8, trace_ids[process], "span", row["parent_id"])
                stack.append((event.ts if event.end is None else event.end, own))
        yield process, _span(event, trace_ids[process], own, parent)


def _own_id(trace_id: str, event: Event) -> str:
    row = event.row
    known = row.get("span_id") if event.table == "span" else row["correlation"]
    if event.table in ("span", "call") and known:
        return _digest(8, trace_id, event.table, known)
    return _digest(8, trace_id, event.table, "row", event.number)


def _span(event: Event, trace_id: str, own: str, parent: str) -> dict[str, Any]:
    row = event.row
    found = {"pasta.table": event.table, **{n: row[n] for n in _ATTRIBUTES if row.get(n)}}
    if event.end is None:
        found["pasta.unfinished"] = 1
    return {
        "traceId": trace_id,
        "spanId": own,
        **({"parentSpanId": parent} if parent else {}),
        "name": row.get("name") or row.get("kind") or event.table,
        "kind": _INTERNAL,
        "startTimeUnixNano": str(event.ts),
        "endTimeUnixNano": str(event.ts if event.end is None else event.end),
        "attributes": _attributes(found),
    }


def _attributes(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "key": key,
            "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value},
        }
        for key, value in found.items()
        if value is not None
    ]


def _digest(size: int, *parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=size).hexdigest()
