"""The native parts of collectors: built with pasta, else compiled at first use and kept."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pasta.collect.nvml.library import Library, NvmlError
from pasta.collect.target.compiled import NATIVE, compiled, compiler, kept, made_once
from pasta.collect.toolkits import find_headers, find_nvcc
from pasta.errors import CollectError

BUILT = Path(NATIVE, "built")
"""Where the build of pasta leaves what it has compiled (`CMakeLists.txt`)."""
ARCHITECTURES = ("80", "86", "89", "90", "100", "120")
"""Compute capabilities whose code the patches hold where no card tells its own."""
PORTABLE = "90"
"""The one that they also hold as PTX, for cards to come."""
_LISTING_SECONDS = 60


@dataclass(frozen=True)
class Part:
    """A native part.

    Attributes:
        source: file in the folder of native sources.
        suffix: of the product's name.
        what: what it is, for people.
        option: what needs it.
        headers: header that it includes -> package that has it.
    """

    source: str
    suffix: str
    what: str
    option: str
    headers: Mapping[str, str] = field(hash=False)

    @property
    def built(self) -> Path:
        """Where the build of pasta leaves it."""
        return BUILT / Path(self.source).with_suffix(self.suffix).name


# CUDA's folder stands first, as Compute Sanitizer brings copies of headers that fit its own version.
_OF_CUDA = {"cuda.h": "nvidia-cuda-runtime", "crt/host_defines.h": "nvidia-cuda-crt"}
ACTIVITY = Part(
    "cuda_activity.cpp",
    ".so",
    "the CUDA collector",
    "--with cuda",
    {**_OF_CUDA, "cupti.h": "nvidia-cuda-cupti"},
)
MEMORY = Part(
    "cuda_memory.cpp",
    ".so",
    "the memory collector",
    "--with cuda.memory",
    {**_OF_CUDA, "sanitizer.h": "nvidia-cuda-sanitizer-api"},
)
PATCHES = Part(
    "memory_patches.cu",
    ".fatbin",
    "the memory collector's device code",
    "--with cuda.memory",
    {"sanitizer_patching.h": "nvidia-cuda-sanitizer-api"},
)
SAMPLES = Part(
    "python_samples.cpp", ".so", "the sampler of Python's stacks", "--with cpu:python", {}
)
PARTS = (ACTIVITY, MEMORY, PATCHES, SAMPLES)


def activity_library() -> str:
    """Return the library that CUDA loads into programs under `--with cuda`.

    Raises:
        CollectError: it was not built with pasta and cannot be compiled; says what is missing.
    """
    return _found(ACTIVITY) or _compiled_library(ACTIVITY)


def memory_library() -> str:
    """Return the library that CUDA loads into programs under `--with cuda.memory`.

    Raises:
        CollectError: it was not built with pasta and cannot be compiled; says what is missing.
    """
    return _found(MEMORY) or _compiled_library(MEMORY)


def samples_library() -> str:
    """Return the library that Python processes load under `--with cpu:python`.

    Raises:
        CollectError: it was not built with pasta and cannot be compiled; says what is missing.
    """
    return _found(SAMPLES) or _compiled_library(SAMPLES)


def memory_patches() -> str:
    """Return the fatbin of what `cuda.memory` runs at each access.

    What the build of pasta made has code for `ARCHITECTURES`; what is compiled at first use has
    it for the cards of this machine, which takes a quarter of the time.

    Raises:
        CollectError: it was not built with pasta and cannot be compiled; says what is missing.
    """
    found = _found(PATCHES)
    if found is not None:
        return found
    command = _patch_command()
    path, reason = made_once(PATCHES.source, PATCHES.suffix, lambda: command, command, PATCHES.what)
    return _told(PATCHES, path, reason)


def state(part: Part) -> tuple[str, str]:
    """Return how a part stands, without compiling it.

    Returns:
        `built` with pasta, `compiled` before, `failed` to compile, or `possible` to compile at
        first use; and the path or, for `failed`, the reason.

    Raises:
        CollectError: it cannot be compiled here; says what is missing.
    """
    if part.built.is_file():
        return "built", str(part.built)
    about = _patch_command() if part is PATCHES else _library_arguments(part)
    product, failure = map(Path, kept(part.source, part.suffix, about))
    if product.exists():
        return "compiled", str(product)
    if failure.exists():
        return "failed", f"{failure.read_text(encoding='utf-8').strip()} (remove {failure})"
    if not compiler():
        raise CollectError(_NO_COMPILER.format(part.option))
    return "possible", str(product)


def nvcc_arguments(architectures: Sequence[str], portable: Sequence[str] = ()) -> list[str]:
    """Return what nvcc is told for the patches, beside folders, source and product.

    Args:
        architectures: compute capabilities without their dot, for which there shall be code.
        portable: those for which there shall be PTX.
    """
    return [
        *("--fatbin", "--compile-as-tools-patch", "-std=c++20", "--threads=0"),
        "--allow-unsupported-compiler",
        *(f"--generate-code=arch=compute_{name},code=sm_{name}" for name in architectures),
        *(f"--generate-code=arch=compute_{name},code=compute_{name}" for name in portable),
    ]


_NO_COMPILER = "{}: there is no C++ compiler: install g++ or clang++, or set CXX"


def _found(part: Part) -> str | None:
    return str(part.built) if part.built.is_file() else None


def _compiled_library(part: Part) -> str:
    path, reason = compiled(part.source, _library_arguments(part), (), part.what)
    return _told(part, path, reason)


def _told(part: Part, path: str | None, reason: str) -> str:
    if path is None:
        raise CollectError(f"{part.option}: {reason}")
    return path


def _library_arguments(part: Part) -> list[str]:
    return [*_include(part), "-ldl", "-lrt", "-pthread"]


def _include(part: Part) -> list[str]:
    """Return the folders of the part's headers as a compiler's arguments."""
    folders = {}
    for header, package in part.headers.items():
        folder = find_headers(header)
        if folder is None:
            raise CollectError(
                f"{part.option}: {header} was not found, to compile {part.what}; install the CUDA"
                f" toolkit or {package}"
            )
        folders[f"-I{folder}"] = header
    return list(folders)


def _patch_command() -> list[str]:
    """Return the command that compiles the patches, less the product's name."""
    include = _include(PATCHES)
    nvcc = find_nvcc()
    if nvcc is None:
        raise CollectError(
            f"{PATCHES.option}: nvcc was not found, to compile {PATCHES.what}; install the CUDA"
            " toolkit or nvidia-cuda-nvcc"
        )
    if not compiler():
        raise CollectError(_NO_COMPILER.format(PATCHES.option))
    cards = _architectures_of_cards()
    arguments = nvcc_arguments(cards) if cards else _for_all_cards(nvcc)
    return [str(nvcc), *arguments, *include, str(Path(NATIVE, PATCHES.source))]


def _architectures_of_cards() -> list[str]:
    """Return the compute capabilities of this machine's cards; empty: there are none."""
    try:
        cards = Library().cards()
    except (OSError, NvmlError):
        return []
    told = {str(card.about().get("compute_capability", "")).replace(".", "") for card in cards}
    return sorted(told - {""}, key=int)


def _for_all_cards(nvcc: Path) -> list[str]:
    """Return nvcc's arguments for all of `ARCHITECTURES` that it knows: older ones know fewer."""
    listed = subprocess.run(  # noqa: S603 - the user's compiler
        [str(nvcc), "--list-gpu-code"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_LISTING_SECONDS,
    )
    known = [name for name in ARCHITECTURES if f"sm_{name}" in listed.stdout.split()]
    return nvcc_arguments(known, [PORTABLE] if PORTABLE in known else [])
