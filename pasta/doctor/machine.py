"""What the machine has: shared memory, compilers, NVIDIA's driver and cards, CUDA's parts."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pasta.collect.channel import SHARED_MEMORY
from pasta.collect.target.compiled import compiler
from pasta.doctor import versions
from pasta.doctor.check import Check, Status
from pasta.doctor.facts import Facts

_ENOUGH_BYTES = 256 << 20
_OLDEST_CARD = (8, 0)
_SEES_TMA = (13, 4)


def checks(facts: Facts) -> Iterator[Check]:
    """Yield what there is."""
    yield shared_memory()
    yield _compiler()
    yield _driver(facts)
    for index, card in enumerate(facts.nvml.get("cards", ())):
        yield _card(index, card)
    yield _nvcc(facts)
    yield _cupti(facts)
    yield _sanitizer(facts)


def shared_memory(folder: Path = SHARED_MEMORY) -> Check:
    """Check that programs being recorded can hand their rows to pasta."""
    name = str(folder)
    try:
        state = os.statvfs(folder)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        advice = "recording passes through it: mount a tmpfs there, with the rights of /tmp"
        return Check(Status.MISSING, name, error.strerror or repr(error), advice)
    size, free = state.f_frsize * state.f_blocks, state.f_frsize * state.f_bavail
    found = f"{size >> 20} MiB, {free >> 20} MiB of them free"
    if free < _ENOUGH_BYTES:
        advice = "each recording thread takes some MiB of it: docker run --shm-size=1g"
        return Check(Status.LIMITED, name, found, advice)
    return Check(Status.OK, name, found)


def _compiler() -> Check:
    command = compiler()
    if not command:
        return Check(
            Status.MISSING,
            "C++ compiler",
            "no c++, g++ or clang++, and no CXX",
            "compiles native parts at first use: install g++",
        )
    return Check(
        Status.OK, "C++ compiler", f"{' '.join(command)} {versions.of_program(command[0])}".strip()
    )


def _driver(facts: Facts) -> Check:
    error = facts.nvml.get("error")
    if error is None:
        found = f"{facts.nvml['driver']}, for CUDA {facts.nvml['cuda']}"
        return Check(Status.OK, "NVIDIA driver", found)
    if facts.module:
        return Check(
            Status.LIMITED,
            "NVIDIA driver",
            f"{facts.module}, but NVML does not answer: {error}",
            "containers need NVIDIA_DRIVER_CAPABILITIES=compute,utility; else reboot or reinstall",
        )
    return Check(
        Status.MISSING,
        "NVIDIA driver",
        str(error),
        "collectors of CUDA need it and a GPU; all else works without",
    )


def _card(index: int, card: Mapping[str, Any]) -> Check:
    name = f"GPU {index}"
    capability = str(card.get("compute_capability", ""))
    found = str(card["name"])
    if capability:
        found += f", compute capability {capability}"
    if "memory_bytes" in card:
        found += f", {card['memory_bytes'] / (1 << 30):.0f} GiB"
    if () < versions.numbers(capability) < _OLDEST_CARD:
        advice = "cuda.memory is made for compute capability 8.0 and newer"
        return Check(Status.LIMITED, name, found, advice)
    return Check(Status.OK, name, found)


def _nvcc(facts: Facts) -> Check:
    if facts.nvcc is None:
        return Check(
            Status.MISSING,
            "CUDA compiler",
            "no nvcc on PATH, in a toolkit or in a package",
            "compiles cuda.memory's device code: pip install nvidia-cuda-nvcc, or the CUDA toolkit",
        )
    version = versions.of_program(str(facts.nvcc))
    return _unless_too_new(
        Check(Status.OK, "CUDA compiler", f"{facts.nvcc} {version}"), version, facts
    )


def _cupti(facts: Facts) -> Check:
    advice = "records CUDA's timeline: pip install nvidia-cuda-cupti, or the CUDA toolkit"
    if facts.cupti_path is None:
        return Check(Status.MISSING, "CUPTI", "no libcupti.so", advice)
    if "error" in facts.cupti:
        return Check(Status.MISSING, "CUPTI", str(facts.cupti["error"]), advice)
    number = facts.cupti.get("version")
    version = versions.of_cupti(number) if number else "(tells no version without a driver)"
    return _unless_too_new(
        Check(Status.OK, "CUPTI", f"{facts.cupti_path} {version}"), version, facts
    )


def _unless_too_new(check: Check, version: str, facts: Facts) -> Check:
    """Return the check of a part of CUDA, or that its version is not for this driver."""
    served = versions.numbers(facts.nvml.get("cuda", ""))[:1]
    if not served or versions.numbers(version)[:1] <= served:
        return check
    return Check(
        Status.LIMITED,
        check.name,
        f"{check.found}, but the driver is for CUDA {facts.nvml['cuda']}",
        f"update the driver, or install it for CUDA {served[0]}",
    )


def _sanitizer(facts: Facts) -> Check:
    name, package = "Compute Sanitizer", "nvidia-cuda-sanitizer-api"
    if facts.sanitizer_path is None:
        return Check(
            Status.MISSING,
            name,
            "no libsanitizer-public.so",
            f"records what kernels do to memory: pip install {package}",
        )
    version = versions.beside_sanitizer(facts.sanitizer_path)
    found = f"{facts.sanitizer_path} {version}".strip()
    if () < versions.numbers(version) < _SEES_TMA:
        return Check(
            Status.LIMITED, name, found, f"does not see TMA loads: pip install -U {package}"
        )
    return Check(Status.OK, name, found)
