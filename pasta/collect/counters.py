"""The collector `cuda.counters`: Nsight Compute's command, and its report as a file to import."""

from __future__ import annotations

import csv
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pasta.collect.losses import Losses

PROGRAM = "ncu"
EXPORTED = "report.csv"
_REPORT, _LOG = "report.ncu-rep", "ncu.log"
_EXPORT_SECONDS = 600
_TIME = "gpu__time_duration.sum"

_PRECISIONS = ("d", "f", "h")
_OPERATIONS = ("add", "mul", "fma")
_TENSOR_TYPES = (
    *("bf16_dst_fp32", "fp16", "fp16_dst_fp16", "fp16_dst_fp32"),
    *("tf32_dst_fp32", "fp64", "fp8", "int8"),
)
_ROOFLINE = (
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "lts__t_bytes.sum",
    "l1tex__t_bytes.sum",
    *(
        f"smsp__sass_thread_inst_executed_op_{precision}{operation}_pred_on.sum"
        for precision in _PRECISIONS
        for operation in _OPERATIONS
    ),
    "sm__inst_executed_pipe_tensor.sum",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    *(f"sm__ops_path_tensor_src_{kind}.sum" for kind in _TENSOR_TYPES),
)


@dataclass(frozen=True)
class _Set:
    """A named set of counters: single ones, and sections of Nsight Compute."""

    counters: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    by_instruction: bool = False


SETS: Mapping[str, _Set] = {
    "roofline": _Set(_ROOFLINE),
    "occupancy": _Set(sections=("Occupancy", "LaunchStats")),
    "stalls": _Set(sections=("WarpStateStats", "SourceCounters"), by_instruction=True),
}
"""Level -> what it counts, beside the duration of each launch."""


@dataclass(frozen=True)
class Focus:
    """What a vendor's tool is to look at, as far as it can be told.

    Attributes:
        level: the collector's level.
        counters: names of counters to take in place of the level's.
        ranges: NVTX ranges, in Nsight Compute's notation; launches in any of them are counted.
        match: regular expression that names of kernels must contain.
    """

    level: str = ""
    counters: tuple[str, ...] = ()
    ranges: tuple[str, ...] = ()
    match: str | None = None


def arguments(folder: Path, focus: Focus) -> list[str]:
    """Return what ncu is told; it leaves the clocks as they are, which others may share."""
    chosen = SETS[focus.level]
    counters = focus.counters or chosen.counters
    told = [
        f"--export={folder / _REPORT}",
        f"--log-file={folder / _LOG}",
        "--clock-control=none",
        "--target-processes=all",
        "--disable-extra-suffixes",
        f"--metrics={','.join(dict.fromkeys((_TIME, *counters)))}",
    ]
    if not focus.counters:
        told += [f"--section={section}" for section in chosen.sections]
        told += ["--import-source=yes"] if chosen.by_instruction else []
    if focus.ranges:
        told += ["--nvtx", *(f"--nvtx-include={name}" for name in focus.ranges)]
    if focus.match is not None:
        told += ["--kernel-name-base=demangled", f"--kernel-name=regex:{focus.match}"]
    return told


def export(folder: Path, focus: Focus, losses: Losses) -> list[str]:
    """Turn the report of a run into pages to import, one after the other in one file.

    Args:
        folder: where ncu left its report and its log.
        focus: what it was told.
        losses: where what is missing is counted.

    Returns:
        A line for each thing that went wrong.
    """
    log = folder / _LOG
    lines = list(_complaints(log.read_text("utf-8", "replace") if log.is_file() else ""))
    for line in lines:
        losses.fault(line)
    if not (folder / _REPORT).is_file():
        return [f"cuda.counters: {line}" for line in lines]
    by_instruction = SETS[focus.level].by_instruction and not focus.counters
    with (folder / EXPORTED).open("wb") as output:
        output.write(log.read_bytes() if log.is_file() else b"")
        output.flush()
        for page in _pages(by_instruction=by_instruction):
            if why := _print_page(folder / _REPORT, page, output.fileno()):
                losses.fault("pages of ncu's report that it did not print")
                lines.append(why)
    lines += _missing(folder / EXPORTED, focus, losses)
    return [f"cuda.counters: {line}" for line in lines]


def _pages(*, by_instruction: bool) -> Iterator[list[str]]:
    """Yield what ncu is told to print: the lines of instructions come first, if they are wanted."""
    raw = ["--page=raw", "--print-units=base", "--print-kernel-base=mangled"]
    if by_instruction:
        yield ["--page=source", "--print-source=cuda,sass"]
        raw.append("--print-metric-instances=details")
    yield raw


def _print_page(report: Path, page: list[str], output: int) -> str:
    """Have ncu print a page of its report; return why it did not, empty if it did."""
    try:
        done = subprocess.run(  # noqa: S603 - the tool that was found on PATH before the run
            [PROGRAM, f"--import={report}", "--csv", *page],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},  # numbers without separators
            timeout=_EXPORT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"ncu could not print its report ({error}); it is kept: {report}"
    return f"ncu could not print its report ({page[0]}); it is kept: {report}" * (
        done.returncode != 0
    )


def _complaints(log: str) -> Iterator[str]:
    """Yield what ncu's log tells of counters that were not taken."""
    told: set[str] = set()
    for line in log.splitlines():
        text = _complaint(line)
        if text and text not in told:
            told.add(text)
            yield text


def _complaint(line: str) -> str:
    if "ERR_NVGPUCTRPERM" in line:
        return (
            "this user may not read the GPU's counters (ERR_NVGPUCTRPERM); run as root, or have"
            " the driver loaded with NVreg_RestrictProfilingToAdminUsers=0"
        )
    if line.startswith("==WARNING== No kernels were profiled"):
        return "no kernel was counted: none was launched, or none that is selected"
    if line.startswith("==ERROR==") and "application returned an error code" not in line:
        return f"ncu: {line.removeprefix('==ERROR==').strip()}"
    return ""


def _missing(exported: Path, focus: Focus, losses: Losses) -> list[str]:
    """Count the counters that were asked for and are not there; name those that the user named."""
    with exported.open(encoding="utf-8", errors="replace", newline="") as pages:
        there = next((next(csv.reader([line])) for line in pages if line.startswith('"ID"')), [])
    wanted = focus.counters or SETS[focus.level].counters
    named = [name for name in wanted if ":" not in name]  # others are patterns and groups
    absent = [name for name in named if not any(column.startswith(name) for column in there)]
    losses.skip("counters of the set that this GPU or this ncu does not have", len(absent))
    if not (focus.counters and absent):
        return []
    return [f"there is no counter {', '.join(absent)} on this GPU; ncu --query-metrics lists them"]
