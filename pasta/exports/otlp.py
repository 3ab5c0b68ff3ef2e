"""OpenTelemetry spans: OTLP/JSON, one request a line of a file, or sent to a collector.

Source: https://opentelemetry.io/docs/specs/otlp/.
"""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from pasta.errors import InputError
from pasta.exports.columns import numbered
from pasta.exports.exporter import Exported, exporter
from pasta.exports.json_text import quoted, text
from pasta.exports.names import Process
from pasta.exports.timeline import DEVICE_TABLES, FOREVER, HOST_TABLES, Slice, timeline
from pasta.trace import Trace

TABLES = ("span", "call", "kernel", "copy", "sync")
_SPANS_OF_REQUEST = 2000
_SECONDS_TO_ANSWER = 30
_INTERNAL = 1
_ATTRIBUTES = (
    *("level", "external_id", "correlation", "tid", "device", "context", "stream", "bytes"),
    *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
)
_OWN_IDS = {"span": "span_id", "call": "correlation"}
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)

Ids = NDArray[np.uint64]


@exporter("otlp")
def export_otlp(trace: Trace, out: str) -> Exported:
    """Write spans, calls and device work as OTLP/JSON to a file, or send them to `http(s)://...`.

    Raises:
        InputError: the address cannot be reached, or does not take them.
    """
    exported = Exported()
    if out.startswith(("http://", "https://")):
        _write_all(trace, exported, lambda body: _send(out, body))
    else:
        with Path(out).open("wb") as file:
            _write_all(trace, exported, lambda body: file.writelines([body, b"\n"]))
    return exported


def _write_all(trace: Trace, exported: Exported, write: Callable[[bytes], None]) -> None:
    spans = _Spans(trace)
    for found in timeline(trace, TABLES, exported):
        for (process,), rows in spans.texts(found).group_by("process", maintain_order=True):
            for piece in rows["text"].to_frame().iter_slices(_SPANS_OF_REQUEST):
                write(spans.request(process, ",".join(piece["text"])))


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


class _Spans:
    """Makes spans of rows; parents by ids, of calls by what encloses them."""

    def __init__(self, trace: Trace) -> None:
        rows = trace.scan("process").collect().to_dicts() if trace.has("process") else []
        self._rows = {(row["rank"] or 0, row["pid"] or 0): row for row in rows}
        self._calls = trace.has("call")
        self._processes: dict[Process, int] = {}
        self._resources: list[str] = []
        self._trace_ids: list[str] = []
        self._counts = dict.fromkeys(TABLES, 0)
        self._open: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def request(self, process: int, spans: str) -> bytes:
        """Return a request with the spans of one process."""
        return (
            f'{{"resourceSpans":[{{"resource":{{"attributes":{self._resources[process]}}},'
            f'"scopeSpans":[{{"scope":{{"name":"pasta"}},"spans":[{spans}]}}]}}]}}'
        ).encode()

    def texts(self, found: Slice) -> pl.DataFrame:
        """Return `process` and `text` of each row, in order of time."""
        processes = {t: numbered(rows, ("rank", "pid"), self._process) for t, rows in found.items()}
        own = {table: self._own_ids(table, found[table], processes[table]) for table in found}
        host = {table: rows for table, rows in found.items() if table in HOST_TABLES}
        enclosing = self._enclosing(host, processes, own)
        texts = [
            rows.select(
                "ts",
                pl.Series("process", processes[table]),
                self._span(
                    table, rows, processes[table], own[table],
                    self._parents(table, rows, processes[table], enclosing.get(table)),
                ).alias("text"),
            )
            for table, rows in found.items()
        ]  # fmt: skip
        return pl.concat(texts).sort("ts", maintain_order=True) if texts else _NO_TEXTS

    def _process(self, process: Process) -> int:
        if process not in self._processes:
            row = self._rows.get(process, {})
            started = ("trace", *process, row.get("host"), row.get("started"))
            self._processes[process] = len(self._processes)
            self._trace_ids.append(_digest(16, *started).hex())
            resource = {
                "service.name": row.get("command") or "pasta",
                "service.instance.id": f"rank {process[0]}",
                "rank": process[0],
                "process.pid": process[1],
                "host.name": row.get("host"),
            }
            self._resources.append(msgspec.json.encode(_attributes(resource)).decode())
        return self._processes[process]

    def _own_ids(self, table: str, rows: pl.DataFrame, processes: NDArray[np.int64]) -> Ids:
        """Return the id of each row: of its own id, else of its place among all rows."""
        first = self._counts[table]
        self._counts[table] += rows.height
        places = np.arange(first, first + rows.height, dtype=np.uint64)
        found = self._ids(f"{table} row", places, processes)
        if table not in _OWN_IDS:
            return found
        known = rows[_OWN_IDS[table]].to_numpy()
        return np.where(known != 0, self._ids(table, known, processes), found)

    def _ids(self, kind: str, numbers: Ids, processes: NDArray[np.int64]) -> Ids:
        """Return 64-bit ids that differ for all numbers of one kind and process; none is 0."""
        salts = [
            int.from_bytes(_digest(8, trace_id, kind), "little") for trace_id in self._trace_ids
        ]
        found = _mixed(numbers + np.array(salts, np.uint64)[processes])
        return np.maximum(found, np.uint64(1))

    def _enclosing(
        self, host: Slice, processes: dict[str, NDArray[np.int64]], own: dict[str, Ids]
    ) -> dict[str, Ids]:
        """Return for each row of threads the span that is open around it; 0: none."""
        if not host:
            return {}
        columns = [
            np.concatenate([processes[table] for table in host]),
            *(
                np.concatenate([rows[name].to_numpy() for rows in host.values()])
                for name in ("tid", "ts", "end")
            ),
            np.concatenate([own[table] for table in host]),
            np.concatenate([np.full(rows.height, t == "span") for t, rows in host.items()]),
        ]
        order = np.lexsort((-columns[3], columns[2]))
        found = np.empty(len(order), np.uint64)
        found[order] = list(self._around(*(column[order].tolist() for column in columns)))
        ends = np.cumsum([rows.height for rows in host.values()])
        return dict(zip(host, np.split(found, ends[:-1]), strict=True))

    def _around(self, *columns: list[Any]) -> Any:
        for process, tid, ts, end, own, is_span in zip(*columns, strict=True):
            stack = self._open.setdefault((process, tid), [])
            while stack and stack[-1][0] <= ts:
                stack.pop()
            yield stack[-1][1] if stack else 0
            if is_span and end != FOREVER:
                stack.append((end, own))

    def _parents(
        self, table: str, rows: pl.DataFrame, processes: NDArray[np.int64], enclosing: Ids | None
    ) -> Ids:
        if table in DEVICE_TABLES or enclosing is None:
            known = rows["correlation"].to_numpy() if self._calls else np.zeros(rows.height, "u8")
            return np.where(known != 0, self._ids("call", known, processes), np.uint64(0))
        if table == "span":
            known = rows["parent_id"].to_numpy()
            return np.where(known != 0, self._ids("span", known, processes), enclosing)
        return enclosing

    def _span(
        self, table: str, rows: pl.DataFrame, processes: NDArray[np.int64], own: Ids, parents: Ids
    ) -> pl.Expr:
        name = "name" if "name" in rows.columns else "kind"
        trace_ids = pl.Series(self._trace_ids).gather(processes)
        parent = text(',"parentSpanId":"', _hexadecimal(parents), '"')
        end = pl.when(pl.col("end") == FOREVER).then("ts").otherwise("end")
        return text(
            *('{"traceId":"', trace_ids, '","spanId":"', _hexadecimal(own), '"'),
            pl.when(pl.lit(pl.Series(parents)) != 0).then(parent).otherwise(pl.lit("")),
            *(',"name":', quoted(rows[name], lambda text: text or table), f',"kind":{_INTERNAL}'),
            *(',"startTimeUnixNano":"', pl.col("ts"), '","endTimeUnixNano":"', end),
            *('","attributes":[', *_attributes_of(table, rows), "]}"),
        )


_NO_TEXTS = pl.DataFrame(schema={"ts": pl.Int64, "process": pl.Int64, "text": pl.String})


def _attributes_of(table: str, rows: pl.DataFrame) -> list[str | pl.Expr]:
    found: list[str | pl.Expr] = [_json(_attributes({"pasta.table": table}))[1:-1]]
    for name in _ATTRIBUTES:
        if name not in rows.columns:
            continue
        head = f',{{"key":"{name}","value":'
        if rows[name].dtype == pl.Categorical:
            value, some = text('{"stringValue":', quoted(rows[name]), "}}"), pl.col(name) != ""
        else:
            value, some = text('{"intValue":"', pl.col(name), '"}}'), pl.col(name) != 0
        found.append(pl.when(some).then(text(head, value)).otherwise(pl.lit("")))
    unfinished = "," + _json(_attributes({"pasta.unfinished": 1}))[1:-1]
    endless = pl.when(pl.col("end") == FOREVER).then(pl.lit(unfinished))
    return [*found, endless.otherwise(pl.lit(""))]


def _attributes(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "key": key,
            "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value},
        }
        for key, value in found.items()
        if value is not None
    ]


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _hexadecimal(numbers: Ids) -> pl.Series:
    """Return numbers of 64 bits as 16 digits each."""
    octets = np.ascontiguousarray(numbers, ">u8").view(np.uint8).reshape(-1, 8)
    digits = np.stack([_HEX[octets >> 4], _HEX[octets & 15]], axis=2).reshape(-1, 16)
    return pl.Series(digits.reshape(-1).view("S16"), dtype=pl.Binary).cast(pl.String)


def _mixed(numbers: Ids) -> Ids:
    """Scatter numbers over 64 bits, no two to one place: SplitMix64 (Steele et al., OOPSLA 2014)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    return numbers ^ (numbers >> np.uint64(31))


def _digest(size: int, *parts: object) -> bytes:
    return hashlib.blake2b(repr(parts).encode(), digest_size=size).digest()
