"""Raw accesses as the lines that NVBit's example `mem_trace` prints, for simulators that read those."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pasta.errors import InputError
from pasta.exports.exporter import Exported, exporter
from pasta.trace import Trace, empty_table

LANES = 32
_MOST_ROWS = 1 << 21
_WIDTHS = {1: ".U8", 2: ".U16", 4: "", 8: ".64", 16: ".128", 32: ".256"}
_GLOBAL, _SHARED, _LOCAL, _GENERIC, _REMOTE_SHARED, _TEXTURE = range(6)
_READ, _WRITE, _ATOMIC, _PREFETCH = range(4)
_LETTERS = {_GLOBAL: "G", _SHARED: "S", _LOCAL: "L", _GENERIC: ""}
_NAMES = {_READ: "LD", _WRITE: "ST", _ATOMIC: "ATOM"}
_OTHERS = {
    (_READ, _TEXTURE): "SULD",
    (_WRITE, _TEXTURE): "SUST",
    (_ATOMIC, _TEXTURE): "SUATOM",
    (_WRITE, _REMOTE_SHARED): "STAS",
}
_WARP = ["launch_id", "request", "pc", "op", "space", "bytes", "warp", "block"]
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)


def opcode(op: int, space: int, size: int) -> str | None:
    """Return an instruction that does what an access does; `None`: there is none.

    Args:
        op: code of the operation, as in the table `access`.
        space: code of the space.
        size: bytes of one lane's access.
    """
    if op == _PREFETCH:
        return "CCTL" + _WIDTHS[size] if size in _WIDTHS else None
    name = _OTHERS.get((op, space))
    if name is None and op in _NAMES and space in _LETTERS:
        name = _NAMES[op] + _LETTERS[space]
    return None if name is None or size not in _WIDTHS else name + _WIDTHS[size]


def write_nvbit(
    trace: Trace, out: Path, *, rank: int | None = None, pid: int | None = None
) -> Counter[str]:
    """Write the accesses of one process as lines of NVBit's `mem_trace`.

    Launches are numbered from 0 in the order of their ids. The accesses of some launches at a time
    are held in memory, at least those of one.

    Args:
        trace: a trace with the table `access`.
        out: the file to write; it is replaced.
        rank: rank of the process; may be left out where only one made accesses.
        pid: its id.

    Returns:
        How many accesses were written, under `written`, and how many were left out, by the reason.

    Raises:
        InputError: no process, or more than one, is meant.
    """
    accesses, counts = _of_process(trace, rank, pid), Counter[str]()
    kernels = _kernels(trace, accesses)
    with out.open("wb") as file:
        for launches in _portions(accesses):
            chosen = accesses.filter(pl.col("launch_id").is_in(launches["launch_id"].implode()))
            rows = _kept(chosen.sort("launch_id", "request", "lane").collect(), counts)
            for number, launch in launches.rows():
                kernel = kernels.get(launch, _UNTOLD)
                file.write(_launch_line(number, kernel))
                file.writelines(_lines(rows.filter(launch_id=launch), number, kernel))
    return counts


@exporter("nvbit")
def export_nvbit(trace: Trace, out: str) -> Exported:
    """Write the raw accesses of a trace of one process as lines of NVBit's `mem_trace`."""
    counts = write_nvbit(trace, Path(out))
    exported = Exported(Counter(access=counts.pop("written")))
    exported.losses.update({f"accesses left out: {reason}": n for reason, n in counts.items()})
    return exported


_UNTOLD: dict[str, Any] = {"name": "unknown"}


def _of_process(trace: Trace, rank: int | None, pid: int | None) -> pl.LazyFrame:
    if "access" not in trace.tables():
        raise InputError(f"{trace.path}: has no raw accesses; record with cuda.memory:access")
    rows = trace.scan("access")
    wanted = [pl.col(name) == value for name, value in (("rank", rank), ("pid", pid)) if value is not None]  # fmt: skip
    rows = rows.filter(wanted) if wanted else rows
    processes = (
        rows.select("rank", "pid").unique().sort("rank", "pid").collect(engine="streaming").rows()
    )
    if len(processes) != 1:
        found = ", ".join(f"rank {r} pid {p}" for r, p in processes[:5]) or "none"
        raise InputError(
            f"{trace.path}: one process has to be chosen by rank and pid; found: {found}"
        )
    return rows.filter(rank=processes[0][0], pid=processes[0][1])


def _kernels(trace: Trace, accesses: pl.LazyFrame) -> dict[int, dict[str, Any]]:
    """Return what the table `kernel` says of each launch."""
    rows = trace.scan("kernel") if "kernel" in trace.tables() else empty_table("kernel").lazy()
    of_process = rows.join(accesses.select("rank", "pid").first(), on=["rank", "pid"], how="semi")
    found = of_process.unique("launch_id", keep="first", maintain_order=True).collect()
    return {row["launch_id"]: row for row in found.iter_rows(named=True)}


def _portions(accesses: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    """Give launches with their numbers, as many at a time as have `_MOST_ROWS` accesses."""
    by_launch = accesses.group_by("launch_id").agg(rows=pl.len()).sort("launch_id")
    counted = by_launch.collect(engine="streaming")
    portion = (counted["rows"].cum_sum() - 1) // _MOST_ROWS
    numbered = counted.with_row_index("number").with_columns(portion=portion)
    for _, launches in numbered.group_by("portion", maintain_order=True):
        yield launches.select("number", "launch_id")


def _kept(rows: pl.DataFrame, counts: Counter[str]) -> pl.DataFrame:
    """Leave out, and count, what no line can say."""
    codes = rows.select("op", "space", "bytes").unique().rows()
    known = pl.DataFrame(
        [code for code in codes if opcode(*code) is not None],
        schema=rows.select("op", "space", "bytes").schema,
        orient="row",
    )
    reasons = {
        "address 0, which stands for a lane that takes no part": pl.col("address") != 0,
        "lane above 31": pl.col("lane") < LANES,
    }
    told = rows.join(known, on=["op", "space", "bytes"], how="semi", maintain_order="left")
    counts["no instruction does this with so many bytes"] += rows.height - told.height
    for reason, keep in reasons.items():
        left = told.filter(keep)
        counts[reason] += told.height - left.height
        told = left
    counts["written"] += told.height
    return told


def _launch_line(number: int, kernel: dict[str, Any]) -> bytes:
    def size(axes: str) -> str:
        return ",".join(str(kernel.get(f"{axes}_{axis}") or 1) for axis in "xyz")

    shared = kernel.get("shared_bytes")
    if shared is None:
        shared = (kernel.get("static_shared") or 0) + (kernel.get("dynamic_shared") or 0)
    name = " ".join((kernel.get("name") or "unknown").split())
    return (
        f"MEMTRACE: {_context(kernel)} - LAUNCH - Kernel pc 0x{0:016x} - Kernel name {name}"
        f" - grid launch id {number} - grid size {size('grid')} - block size {size('block')}"
        f" - nregs {kernel.get('registers') or 0} - shmem {shared}"
        f" - cuda stream id {kernel.get('stream') or 0}\n"
    ).encode()


def _context(kernel: dict[str, Any]) -> str:
    return f"CTX 0x{(kernel.get('context') or 0) & ((1 << 64) - 1):016x}"


def _lines(rows: pl.DataFrame, number: int, kernel: dict[str, Any]) -> Iterator[bytes]:
    """Give the line of each warp's instruction."""
    if not rows.height:
        return
    warps = rows.select(_WARP).with_columns(pl.struct(_WARP).rle_id().alias("line"))
    first = warps.unique("line", keep="first", maintain_order=True)
    table: NDArray[np.uint64] = np.zeros((first.height, LANES), dtype=np.uint64)
    table[warps["line"].to_numpy(), rows["lane"].to_numpy()] = rows["address"].to_numpy()
    width, height = (kernel.get(f"grid_{axis}") or 1 for axis in "xy")
    start = f"MEMTRACE: {_context(kernel)} - grid_launch_id {number} - CTA"
    for row, text in zip(first.iter_rows(named=True), _addresses(table), strict=True):
        block = row["block"] or 0
        place = f"{block % width},{block // width % height},{block // (width * height)}"
        pc = "" if row["pc"] is None else f"pc 0x{row['pc']:x} - "
        name = opcode(row["op"], row["space"], row["bytes"])
        yield f"{start} {place} - warp {row['warp'] or 0} - {pc}{name} - ".encode() + text + b"\n"


def _addresses(table: NDArray[np.uint64]) -> Iterator[bytes]:
    """Give for each row of 32 addresses their text."""
    shifts = np.arange(60, -4, -4, dtype=np.uint64)
    digits = _DIGITS[(table[:, :, np.newaxis] >> shifts & np.uint64(15)).astype(np.uint8)]
    text = np.empty((*table.shape, 19), dtype=np.uint8)
    text[:, :, 0], text[:, :, 1], text[:, :, 18] = ord("0"), ord("x"), ord(" ")
    text[:, :, 2:18] = digits
    for row in text.reshape(len(table), -1):
        yield row.tobytes()
