"""Receiving what recorded processes write: batches of the channel become the tables of a trace."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from pasta.collect.access_files import TABLE as ACCESS
from pasta.collect.access_files import AccessFiles
from pasta.collect.channel import Channel
from pasta.collect.channel_ring import Batch, Producer
from pasta.collect.file_imports import FileImports
from pasta.collect.live_tables import METRIC, complete_tables
from pasta.collect.losses import Losses
from pasta.collect.wire import FILE, TEXT, TEXTS, WARPS, Decoder
from pasta.schema import TABLES, arrow_schema
from pasta.trace import RANK_FOLDER
from pasta.trace_writer import PartWriter

FILE_SECONDS = 1.0
"""How long rows wait before they are in a file that a reader sees."""
_SENSELESS = "records of accesses that make no sense: left out"
_UNKNOWN_TEXT = "cells whose text did not arrive: null"

Listener = Callable[[str, pa.Table], None]


class Receiver:
    """Turns batches into the tables of a trace, in a folder for each rank.

    Args:
        channel: where batches come from.
        folder: the trace.
        clock: the trace's clock, in ns.
        match: regular expression that names of operators and kernels must contain.

    Attributes:
        rows: rows by table so far.
        listeners: called with each table's new rows, but not those of `access` from devices, which
            are too many; for analysis while the program runs.
        processes: (rank, pid) -> when it was last heard of, in ns.
        failure: why rows could not be written; empty: all were.
        spent_ns: what receiving and writing took.
    """

    def __init__(
        self,
        channel: Channel,
        folder: Path,
        clock: Callable[[], int],
        match: str | None = None,
    ) -> None:
        self._match = match
        self.rows: dict[str, int] = {}
        self.listeners: list[Listener] = []
        self.processes: dict[tuple[int, int], int] = {}
        self.failure = ""
        self.spent_ns = 0
        self._began = clock()
        self._channel = channel
        self._folder = folder
        self._clock = clock
        self._losses = Losses("channel")
        self._decoders: dict[str, Decoder] = {}
        self._parts: dict[int, PartWriter] = {}
        self._accesses = AccessFiles(lambda rank: self._part(rank).folder, FILE_SECONDS)
        self._lock = threading.Lock()
        self._imports = FileImports((channel.folder, folder), self.append)
        self._rolled = time.monotonic()

    def receive(self, seconds: float) -> bool:
        """Take what comes within `seconds`; tell whether anything did, or waits to be written."""
        batch = self._channel.wait(seconds)
        received = batch is not None
        until = time.monotonic() + FILE_SECONDS
        while batch is not None:
            began = time.monotonic_ns()
            if batch.table == WARPS:
                self._take_accesses(batch)
            else:
                with batch:
                    self._take(batch)
            self.spent_ns += time.monotonic_ns() - began
            batch = self._channel.poll() if time.monotonic() < until else None
        self._write_accesses(self._accesses.check)
        if time.monotonic() - self._rolled >= FILE_SECONDS:
            self._rolled = time.monotonic()
            self._write(self._roll)
        return received or self._accesses.busy

    def _write(self, action: Callable[[], None]) -> None:
        """Do what writes files; a failure is kept, to be told at the end, and ends all writing."""
        if not self.failure:
            with self.failures_kept(), self._lock:
                action()

    @contextlib.contextmanager
    def failures_kept(self) -> Iterator[None]:
        """Keep why the block could not write, to be told at the end: the program must not fail of it."""
        try:
            yield
        except (OSError, pa.ArrowException, pl.exceptions.PolarsError) as error:
            why = " ".join(str(error).split())
            incomplete = f"{self._folder}: incomplete, as it could not be written on ({why})"
            self.failure = self.failure or incomplete

    def append(self, rank: int, table: str, rows: pa.Table) -> None:
        """Append rows to a table of a rank's part, and tell the listeners of them.

        Where the disk takes no more, rows are taken and dropped, so that nobody waits for them.
        """
        rows = self._matching(rank, table, rows)
        self._write(lambda: self._part(rank).append(table, rows))
        self.rows[table] = self.rows.get(table, 0) + rows.num_rows
        for listener in self.listeners:
            listener(table, rows)

    def _matching(self, rank: int, table: str, rows: pa.Table) -> pa.Table:
        """Return the rows whose names are wanted; other operators and kernels are counted."""
        if self._match is None or table not in ("kernel", "span") or rows.num_rows == 0:
            return rows
        frame = pl.from_arrow(rows)
        assert isinstance(frame, pl.DataFrame)  # noqa: S101
        kept = pl.col("name").str.contains(self._match).fill_null(value=False)
        if table == "span":
            kept |= pl.col("level") != "operator"
        elif {"graph_id", "graph_node_id"} <= set(frame.columns):
            whole_graph = (pl.col("graph_id") > 0) & (pl.col("graph_node_id") == 0)
            kept |= whole_graph.fill_null(value=False)  # one row stands for all its kernels
        matching = frame.filter(kept)
        if left_out := frame.height - matching.height:
            nobody = Producer(rank, frame["pid"][0], 0)
            reason = f"rows of {table} whose name does not match --match: left out"
            self._append_loss(nobody, reason, left_out, frame["ts"][0])
        return matching.to_arrow(compat_level=pl.CompatLevel.oldest())

    @property
    def importing(self) -> bool:
        """Whether files wait to be imported."""
        return self._imports.busy

    @property
    def bytes(self) -> int:
        """Size of the trace's files so far."""
        return self._accesses.bytes + sum(part.bytes for part in self._parts.values())

    def finish(self, exit_codes: Mapping[int, int]) -> list[int]:
        """Sort and complete the tables; return the ranks.

        Args:
            exit_codes: pid -> exit code, negative for a signal, of the processes it is known of.
        """
        self._imports.close()
        began = time.monotonic_ns()
        self._write_accesses(self._accesses.finish)
        self._count_losses()
        self._write(lambda: self._complete(exit_codes))
        completing = time.monotonic_ns() - began
        self._write(lambda: self._tell_cost(completing))
        self.spent_ns += completing
        return sorted(self._parts)

    def _roll(self) -> None:
        for part in self._parts.values():
            part.roll()

    def _complete(self, exit_codes: Mapping[int, int]) -> None:
        for rank, part in self._parts.items():
            ended = {pid: at for (of, pid), at in self.processes.items() if of == rank}
            complete_tables(part, rank, ended, exit_codes)

    def _tell_cost(self, completing: int) -> None:
        """Record what receiving and completing took, and count the rows of all."""
        costs = {"pasta.receive": self.spent_ns, "pasta.complete": completing}
        common = {"pid": os.getpid(), "device": -1, "launch_id": 0, "unit": "s"}
        common |= {"ts": self._began, "dur": self._clock() - self._began}
        for rank in sorted(self._parts)[:1]:
            rows = [
                {**common, "rank": rank, "name": name, "value": spent / 1e9}
                for name, spent in costs.items()
            ]
            self._parts[rank].append(METRIC, pa.Table.from_pylist(rows))
        for part in self._parts.values():
            part.finish(only=[METRIC])
        self.rows = {
            table: sum(part.rows.get(table, 0) for part in self._parts.values()) for table in TABLES
        }
        self.rows[ACCESS] += sum(self._accesses.rows.values())

    def end(self) -> None:
        """Write no accesses any more, where the recording ends by an error; after `finish` there are none."""
        self._accesses.abandon()

    def _take(self, batch: Batch) -> None:
        producer = batch.producer
        self.processes[producer.rank, producer.pid] = self._clock()
        decoder = self._decoders.get(batch.ring)
        if decoder is None:
            decoder = self._decoders[batch.ring] = Decoder(producer)
        if batch.table in (TEXT, TEXTS):
            decoder.learn(batch.table, batch.rows)
        elif batch.table == FILE:
            self._import(producer, batch.rows.to_pylist())
        else:
            self.append(producer.rank, batch.table, decoder.rows(batch.table, batch.rows))

    def _take_accesses(self, batch: Batch) -> None:
        """Hand over a batch, which is released when it is copied."""
        self.processes[batch.producer.rank, batch.producer.pid] = self._clock()
        if batch.producer.rank not in self._parts:
            with self._lock:
                self._part(batch.producer.rank)
        if not self._write_accesses(lambda: self._accesses.take(batch)):
            batch.release()

    def _write_accesses(self, action: Callable[[], None]) -> bool:
        """Do what writes accesses, and tell whether it was done; where nothing is written any more, nobody waits for it."""
        done = False
        if not self.failure:
            with self.failures_kept():
                action()
                done = True
        if arrived := self._accesses.arrived():
            self.rows[ACCESS] = self.rows.get(ACCESS, 0) + arrived
        if self.failure:
            self._accesses.abandon()
        return done

    def _import(self, producer: Producer, files: list[dict[str, Any]]) -> None:
        for file in files:
            self._imports.put(producer, Path(file["path"]), file["shift"])

    def _part(self, rank: int) -> PartWriter:
        if rank not in self._parts:
            folder = self._folder / RANK_FOLDER.format(rank)
            self._parts[rank] = PartWriter(folder, file_seconds=FILE_SECONDS)
        return self._parts[rank]

    def _count_losses(self) -> None:
        for loss in self._channel.losses():
            self._append_loss(loss.producer, loss.reason, loss.rows or loss.batches, loss.first_ts)
        for producer, records in self._accesses.senseless.items():
            self._append_loss(producer, _SENSELESS, records, None)
        for decoder in self._decoders.values():
            if decoder.unknown:
                self._append_loss(decoder.producer, _UNKNOWN_TEXT, decoder.unknown, None)

    def _append_loss(
        self, producer: Producer, reason: str, count: int, first_ts: int | None
    ) -> None:
        # A ring that cannot be read tells of no rank: another's folder may be another launcher's.
        rank = producer.rank if producer.pid else min(self._parts, default=producer.rank)
        row = {
            "rank": rank,
            "pid": producer.pid,
            "collector": "channel",
            "reason": reason,
            "count": count,
            "first_ts": first_ts,
        }
        self.append(rank, "loss", pa.Table.from_pylist([row], schema=arrow_schema("loss")))
