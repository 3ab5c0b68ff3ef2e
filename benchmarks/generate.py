"""Write traces of any size with the statistics of a real one.

    python benchmarks/generate.py FOLDER [--like TRACE] [--ranks N] [--kernels N] [--accesses N]
        [--tables kernel,copy] [--file-rows N] [--seed N] [--on cpu|gpu]

The real trace is one cycle. A generated trace repeats it on each of many ranks: later in time, with ids
of its own, and with the durations of device work drawn from those that work of the same name has in the
real trace. What the cycle allocates and does not release is released at its end. So names, call paths,
links between tables and overlaps of streams are those of the real trace, and every tool has work.

Raw accesses are made, not repeated: 4 bytes each at addresses of which few are hot, as many for each
launch, in 512-byte sectors of 8 GiB.

A row depends on the seed, the rank, the table and its position alone. So files of any size hold the same
rows, and each is made by itself: memory is bounded by a file. `--on gpu` makes them with cupy and cuDF.
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

import pasta
from pasta.schema import arrow_schema
from pasta.tools.shipped import SHIPPED_TRACE
from pasta.trace import MANIFEST, RANK_FOLDER, Trace
from pasta.trace_merge import ROW_GROUP_ROWS, conform
from pasta.trace_parts import parquet_writer
from pasta.trace_writer import new_manifest

FILE_ROWS = 1 << 20
ONCE = ("process", "thread", "device", "frame")
LEFT_OUT = ("loss", "access", "sample")
DEVICE_WORK = ("kernel", "copy")
IDS = {
    "launch_id": "launch",
    "correlation": "correlation",
    "waited_correlation": "correlation",
    "external_id": "external",
    "span_id": "span",
    "parent_id": "span",
    "object_id": "object",
    "event_id": "event",
    "sequence": "sequence",
}
"""Column -> whose ids it holds; 0 is no id, but a place in a sequence."""

HEAP = 0x7F00_0000_0000
HEAP_SECTORS = 1 << 24
SECTOR_BYTES = 512
ACCESS_BYTES = 4
LANES = 32


@dataclass(frozen=True)
class Size:
    """How large a generated trace is.

    Attributes:
        ranks: ranks, each with a folder of its own.
        kernels: kernels over all ranks, at least; all other tables grow with them.
        accesses: raw accesses over all ranks, at most one for each rank fewer.
        file_rows: rows of a file.
    """

    ranks: int = 1
    kernels: int = 0
    accesses: int = 0
    file_rows: int = FILE_ROWS


class Template:
    """One cycle of a real trace: the rows of its first rank, in order of time.

    Attributes:
        tables: the rows that every cycle repeats.
        once: the rows that a rank has once.
        begin: when the first cycle begins.
        period: how long a cycle lasts.
        strides: whose ids -> by how much they differ from those of the next cycle.
    """

    def __init__(self, trace: Trace) -> None:
        found = {name: _first_rank(trace, name) for name in trace.tables()}
        self.once = {name: rows for name, rows in found.items() if name in ONCE}
        rows = {name: rows for name, rows in found.items() if name not in (*ONCE, *LEFT_OUT)}
        timed = [table for table in rows.values() if "ts" in table.columns]
        self.begin = min(int(table["ts"].min()) for table in timed)  # type: ignore[arg-type]
        self.period = max(_end(table) for table in timed) - self.begin + 1_000
        if "memory" in rows:
            rows["memory"] = _closed(rows["memory"], self.begin + self.period - 1)
        self.tables = rows
        self.strides = {
            owner: 1 + max(_largest(table, owner) for table in rows.values())
            for owner in IDS.values()
        }

    def cycles(self, size: Size) -> int:
        """Return how many cycles each rank has.

        Raises:
            ValueError: the trace has no kernels to repeat, or the ids would leave 63 bits.
        """
        kernels = self.tables["kernel"].height if "kernel" in self.tables else 0
        if not kernels:
            raise ValueError("the real trace has no kernels; take another one: --like")
        cycles = max(1, -(-size.kernels // (size.ranks * kernels)))
        if cycles * max(*self.strides.values(), self.period) >= 1 << 62:
            raise ValueError(f"{cycles:,} cycles of these ids do not fit into 63 bits; add ranks")
        return cycles

    @cached_property
    def launches(self) -> pl.DataFrame:
        """The launches of a cycle in order of their ids."""
        known = self.tables["kernel"].filter(pl.col("launch_id") > 0)
        return known.select("pid", "device", "launch_id").sort("launch_id")


def _first_rank(trace: Trace, table: str) -> pl.DataFrame:
    rows = trace.scan(table).filter(pl.col("rank") == pl.col("rank").min()).collect()
    if "ts" in rows.columns:
        rows = rows.drop_nulls("ts").sort("ts", maintain_order=True)
    return rows


def _end(rows: pl.DataFrame) -> int:
    last = pl.col("ts") + (pl.col("dur").fill_null(0) if "dur" in rows.columns else 0)
    return int(rows.select(last.max()).item() or 0)


def _largest(rows: pl.DataFrame, owner: str) -> int:
    columns = [column for column in rows.columns if IDS.get(column) == owner]
    return max((int(rows[column].max() or 0) for column in columns), default=0)  # type: ignore[arg-type]


def _closed(memory: pl.DataFrame, end: int) -> pl.DataFrame:
    """Return the events with a release at `end` of everything that lives then."""
    place = ["pid", "device", "space", "address"]
    last = memory.filter(pl.col("address").is_not_null()).unique(
        place, keep="last", maintain_order=True
    )
    released = last.filter(event="allocate").with_columns(
        pl.lit("release").alias("event"),
        pl.lit(end, pl.Int64).alias("ts"),
        total_allocated=pl.lit(None, pl.Int64),
        total_reserved=pl.lit(None, pl.Int64),
    )
    return pl.concat([memory, released.select(memory.columns)])


class Durations:
    """Durations drawn from those of work of the same name, cut where the stream goes on.

    Args:
        rows: kernels or copies of a cycle.
        xp: numpy or cupy.
    """

    def __init__(self, rows: pl.DataFrame, xp: Any) -> None:
        label = "name" if "name" in rows.columns else "kind"
        kinds = rows[label].fill_null("").rank("dense").to_numpy().astype(np.int64) - 1
        known = rows["dur"].is_not_null().to_numpy()
        durations = rows["dur"].fill_null(0).to_numpy()
        order = np.flatnonzero(known)[np.argsort(kinds[known], kind="stable")]
        counts = np.bincount(kinds[known], minlength=kinds.max(initial=-1) + 1)
        following = pl.col("ts").shift(-1).over("pid", "device", "stream") - pl.col("ts")
        room = rows.select(following.fill_null(pl.col("dur")).fill_null(0)).to_series().to_numpy()
        self._xp = xp
        self._drawn = xp.asarray(durations[order])
        self._first = xp.asarray((np.cumsum(counts) - counts)[kinds])
        self._count = xp.asarray(np.maximum(counts[kinds], 1))
        self._most = xp.asarray(np.maximum(room, durations))

    def draw(self, row: Any, noise: Any) -> Any:
        """Return a duration for each of `row`, chosen by 64 random bits."""
        if not len(self._drawn):
            return self._xp.zeros(len(row), self._xp.int64)
        chosen = (noise % self._count[row].astype(self._xp.uint64)).astype(self._xp.int64)
        place = self._xp.minimum(self._first[row] + chosen, len(self._drawn) - 1)
        return self._xp.minimum(self._drawn[place], self._most[row])


def random_bits(xp: Any, index: Any, *key: int | str) -> Any:
    """Return 64 random bits for each index, by SplitMix64 (Steele et al., OOPSLA 2014).

    Args:
        xp: numpy or cupy.
        index: positions of rows.
        key: what tells apart the sequences of a trace.
    """
    start = zlib.crc32(repr(key).encode()) * 0x9E37_79B9_7F4A_7C15 % (1 << 64)
    bits = index.astype(xp.uint64) * xp.uint64(0x9E37_79B9_7F4A_7C15) + xp.uint64(start)
    for shift, factor in ((30, 0xBF58_476D_1CE4_E5B9), (27, 0x94D0_49BB_1331_11EB)):
        bits = (bits ^ (bits >> xp.uint64(shift))) * xp.uint64(factor)
    return bits ^ (bits >> xp.uint64(31))


class OnCpu:
    """Rows in Polars, written by pyarrow, one file at a time: Polars takes all processors."""

    writers = 1
    xp: Any = np

    def hold(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows where they are worked on."""
        return rows

    def taken(self, rows: pl.DataFrame, places: Any, changed: dict[str, Any]) -> pl.DataFrame:
        """Return the rows at `places` with other values; nulls of the real rows stay."""
        frame: pl.DataFrame = rows[places]
        return frame.with_columns(
            pl.when(pl.col(name).is_not_null()).then(pl.Series(name, values)).alias(name)
            for name, values in changed.items()
        )

    def made(self, columns: dict[str, Any]) -> pl.DataFrame:
        """Return rows of the given columns."""
        return pl.DataFrame(columns)

    def write(self, rows: pl.DataFrame, path: Path, table: str, compression: str) -> None:
        """Write a file of `table`."""
        with parquet_writer(path, table, compression=compression) as writer:
            for part in rows.iter_slices(ROW_GROUP_ROWS):
                arrow = part.to_arrow(compat_level=pl.CompatLevel.oldest())
                writer.write_table(conform(table, arrow))


class OnGpu:
    """Rows in cuDF, written by cuDF: while one file goes to the host, others are made."""

    writers = 4

    def __init__(self) -> None:
        import cudf
        import cupy

        self.xp: Any = cupy
        self._cudf = cudf

    def hold(self, rows: pl.DataFrame) -> Any:
        """Return the rows where they are worked on; cuDF takes no large lists."""
        arrow = rows.to_arrow(compat_level=pl.CompatLevel.oldest())
        lists = pa.list_(pa.string())
        fields = [f.with_type(lists) if pa.types.is_large_list(f.type) else f for f in arrow.schema]
        return self._cudf.DataFrame.from_arrow(arrow.cast(pa.schema(fields)))

    def taken(self, rows: Any, places: Any, changed: dict[str, Any]) -> Any:
        """Return the rows at `places` with other values; nulls of the real rows stay."""
        frame = rows.take(places).reset_index(drop=True)
        for name, values in changed.items():
            frame[name] = self._cudf.Series(values).where(frame[name].notna())
        return frame

    def made(self, columns: dict[str, Any]) -> Any:
        """Return rows of the given columns."""
        return self._cudf.DataFrame(columns)

    def write(self, rows: Any, path: Path, table: str, compression: str) -> None:
        """Write a file of `table`, with the columns that its schema has."""
        for field in arrow_schema(table):
            if field.name not in rows.columns:
                rows[field.name] = self._cudf.Series(
                    self._cudf.NA, index=rows.index, dtype=str(field.type)
                )
        columns = [field.name for field in arrow_schema(table)]
        rows[columns].to_parquet(path, compression=compression, row_group_size_rows=FILE_ROWS)


class Generator:
    """The rows of a generated trace.

    Args:
        template: one cycle.
        size: how large it is.
        seed: what random bits depend on.
        side: `OnCpu` or `OnGpu`.
    """

    def __init__(self, template: Template, size: Size, seed: int = 0, side: Any = None) -> None:
        self._template = template
        self._size = size
        self._seed = seed
        self._side = side or OnCpu()
        self._cycles = template.cycles(size)
        self._held = {name: self._side.hold(rows) for name, rows in template.tables.items()}
        self._durations = {
            name: Durations(rows, self._side.xp)
            for name, rows in template.tables.items()
            if name in DEVICE_WORK
        }
        self._columns = {
            name: {
                column: self._side.xp.asarray(rows[column].fill_null(0).to_numpy())
                for column in rows.columns
                if column in IDS or column in ("ts", "pid", "tid")
            }
            for name, rows in template.tables.items()
        }

    def tables(self) -> list[str]:
        """Return the tables that it can make."""
        made = ["access"] if self._size.accesses else []
        return [*self._template.once, *self._template.tables, *made]

    def rows(self, table: str) -> int:
        """Return how many rows each rank has of `table`."""
        if table == "access":
            return self._size.accesses // self._size.ranks
        if table in self._template.once:
            return self._template.once[table].height
        return self._cycles * self._template.tables[table].height

    def part(self, table: str, rank: int, first: int, count: int) -> Any:
        """Return `count` rows of `table` on `rank` from position `first` on."""
        if table in self._template.once:
            return self._side.hold(self._once(table, rank).slice(first, count))
        index = first + self._side.xp.arange(count, dtype=self._side.xp.int64)
        made = self._accesses if table == "access" else self._repeated
        return made(table, rank, index)

    def _once(self, table: str, rank: int) -> pl.DataFrame:
        rows = self._template.once[table].with_columns(pl.lit(rank, pl.Int32).alias("rank"))
        moved = [pl.col(c) + rank for c in ("pid", "tid", "parent_pid") if c in rows.columns]
        rows = rows.with_columns(moved)
        if table == "process":
            last = self._template.begin + self._cycles * self._template.period
            rows = rows.with_columns(
                world_size=pl.lit(self._size.ranks, pl.Int32), ended=pl.lit(last, pl.Int64)
            )
        return rows

    def _repeated(self, table: str, rank: int, index: Any) -> Any:
        xp, template = self._side.xp, self._template
        height = template.tables[table].height
        cycle, row = index // height, index % height
        changed = {"rank": xp.full(len(index), rank, xp.int32)}
        for column, values in self._columns[table].items():
            value = values[row]
            if column == "ts":
                changed[column] = value + cycle * template.period
            elif column in ("pid", "tid"):
                changed[column] = value + rank
            else:
                moved = value + (cycle * template.strides[IDS[column]]).astype(value.dtype)
                kept = (value == 0) & (column != "sequence")
                changed[column] = xp.where(kept, value, moved)
        if table in self._durations:
            noise = random_bits(xp, index, self._seed, rank, table)
            changed["dur"] = self._durations[table].draw(row, noise)
        return self._side.taken(self._held[table], row, changed)

    def _accesses(self, table: str, rank: int, index: Any) -> Any:
        xp, launches = self._side.xp, self._template.launches
        count, of = self.rows(table), self._cycles * launches.height
        ordinal = index * of // count
        cycle, row = ordinal // launches.height, ordinal % launches.height
        within = index - -(-ordinal * count // of)
        request = within // LANES
        noise = random_bits(xp, index, self._seed, rank, table)
        share = (noise >> xp.uint64(40)).astype(xp.float64) / (1 << 24)
        squared = share * share
        sector = (squared * squared * squared * HEAP_SECTORS).astype(xp.uint64)
        words = noise % xp.uint64(SECTOR_BYTES // ACCESS_BYTES)
        address = sector * xp.uint64(SECTOR_BYTES) + words * xp.uint64(ACCESS_BYTES)
        known = {name: xp.asarray(launches[name].to_numpy())[row] for name in launches.columns}
        stride = self._template.strides["launch"]
        return self._side.made(
            {
                "rank": xp.full(len(index), rank, xp.int32),
                "pid": known["pid"] + rank,
                "device": known["device"],
                "launch_id": known["launch_id"] + (cycle * stride).astype(xp.uint64),
                "request": request.astype(xp.uint64),
                "lane": (within % LANES).astype(xp.uint8),
                "pc": (request % 16 * 16).astype(xp.uint32),
                "address": address + xp.uint64(HEAP),
                "bytes": xp.full(len(index), ACCESS_BYTES, xp.uint32),
                "op": (share < 0.3).astype(xp.uint8),
                "space": xp.zeros(len(index), xp.uint8),
                "warp": (request % 8).astype(xp.uint32),
                "block": (request // 8).astype(xp.uint64),
            }
        )

    def write(self, folder: Path, tables: Sequence[str] = (), compression: str = "zstd") -> None:
        """Write the trace, or some of its tables, to a new `folder`.

        Raises:
            FileExistsError: `folder` exists.
        """
        folder.mkdir(parents=True)

        def write_piece(path: Path, table: str, rank: int, first: int, count: int) -> None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._side.write(self.part(table, rank, first, count), path, table, compression)

        with ThreadPoolExecutor(self._side.writers) as writers:
            written = [
                writers.submit(
                    write_piece,
                    folder / RANK_FOLDER.format(rank) / table / f"{number:06d}.parquet",
                    *(table, rank, first, count),
                )
                for rank in range(self._size.ranks)
                for table in tables or self.tables()
                for number, (first, count) in enumerate(self._pieces(table))
            ]
        for each in written:
            each.result()
        manifest = new_manifest({"command": "benchmarks/generate.py", "seed": self._seed})
        (folder / MANIFEST).write_text(json.dumps({**manifest, "state": "complete"}, indent=2))

    def _pieces(self, table: str) -> Iterator[tuple[int, int]]:
        rows = self.rows(table)
        for first in range(0, rows, self._size.file_rows):
            yield first, min(self._size.file_rows, rows - first)


def main() -> None:
    """Write a trace as the command line says."""
    parser = argparse.ArgumentParser(description="Write a trace like a real one, of any size.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--like", default=str(SHIPPED_TRACE), help="trace, or file to import")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--kernels", type=lambda text: int(float(text)), default=0)
    parser.add_argument("--accesses", type=lambda text: int(float(text)), default=0)
    parser.add_argument("--tables", type=lambda text: text.split(","), default=[])
    parser.add_argument("--file-rows", type=lambda text: int(float(text)), default=FILE_ROWS)
    parser.add_argument("--compression", choices=["zstd", "snappy"], default="zstd")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--on", choices=["cpu", "gpu"], default="cpu")
    given = parser.parse_args()
    size = Size(given.ranks, given.kernels, given.accesses, given.file_rows)
    side = OnGpu() if given.on == "gpu" else OnCpu()
    generator = Generator(Template(pasta.open(given.like)), size, given.seed, side)
    generator.write(given.folder, given.tables, given.compression)
    for table in given.tables or generator.tables():
        print(f"{table}: {generator.rows(table) * given.ranks:,} rows")


if __name__ == "__main__":
    main()
