"""Collectors that run the program under a vendor's tool, which leaves files to import."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pasta.collect import counters
from pasta.collect.collectors import COLLECTORS, Chosen
from pasta.collect.counters import Focus
from pasta.collect.losses import Losses
from pasta.errors import CollectError


def _nothing_to_export(_folder: Path, _focus: Focus, _losses: Losses) -> list[str]:
    return []


@dataclass(frozen=True)
class Wrapper:
    """A vendor's tool that runs a program and records it.

    Attributes:
        name: what `--with` calls it, also its folder in the trace.
        program: the tool's executable.
        product: what has to be installed.
        interface: what it records devices through, for itself alone.
        arguments: the tool's own arguments, from the folder for its files; the program follows.
        files: pattern of the files to import, anywhere below that folder.
        export: makes those files of what the tool left, counts what was lost, and returns a line
            for each thing that went wrong.
    """

    name: str
    program: str
    product: str
    interface: str
    arguments: Callable[[Path, Focus], list[str]]
    files: str
    export: Callable[[Path, Focus, Losses], list[str]] = _nothing_to_export

    def around(self, command: Sequence[str], folder: Path, focus: Focus) -> list[str]:
        """Return the command that runs `command` under the tool."""
        return [self.program, *self.arguments(folder, focus), *command]


def _nsys(folder: Path, _focus: Focus) -> list[str]:
    """Return what nsys is told: all that needs no privileges; CPU samples may need some."""
    report = str(folder / "report").replace("%", "%%")
    return [
        "profile",
        f"--output={report}",
        "--export=sqlite",
        "--trace=cuda,nvtx,osrt",
        "--sample=none",
        "--cpuctxsw=none",
        "--show-output=true",
        "--stats=false",
    ]


def _rocprofv3(folder: Path, _focus: Focus) -> list[str]:
    """Return what rocprofv3 is told; files it names itself are told apart by process."""
    output = ["--output-format", "json", "--output-directory", str(folder)]
    return ["--runtime-trace", *output, "--"]


WRAPPERS: dict[str, Wrapper] = {
    wrapper.name: wrapper
    for wrapper in (
        Wrapper("nsys", "nsys", "Nsight Systems", "CUPTI", _nsys, "*.sqlite"),
        Wrapper("rocprofv3", "rocprofv3", "ROCm", "ROCprofiler", _rocprofv3, "*.json"),
        Wrapper(
            "cuda.counters",
            counters.PROGRAM,
            "Nsight Compute",
            "CUPTI",
            counters.arguments,
            counters.EXPORTED,
            counters.export,
        ),
    )
}


def wrapper_of(chosen: Chosen) -> Wrapper | None:
    """Return the tool that the program is to run under; `None`: under none.

    Raises:
        CollectError: the tool is not installed, or another collector records devices as well.
    """
    wrapper = next((WRAPPERS[name] for name in chosen if name in WRAPPERS), None)
    if wrapper is None:
        return None
    for name, level in chosen.items():
        filled = COLLECTORS[name].levels[level]
        if name != wrapper.name and "kernel" in filled.tables | filled.maybe:
            raise CollectError(
                f"--with {wrapper.name}: {name}:{level} records devices too, and"
                f" {wrapper.interface} serves one of them at a time; leave out one"
            )
    if shutil.which(wrapper.program) is None:
        raise CollectError(
            f"{wrapper.program}: not found; install {wrapper.product} or put it on PATH,"
            f" or leave out --with {wrapper.name}"
        )
    return wrapper
