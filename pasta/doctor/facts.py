"""What is asked of the machine once, for all checks: the driver, CUPTI, where CUDA's parts are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pasta.collect.toolkits import find_cupti, find_nvcc, find_sanitizer
from pasta.doctor.probe import probe

_VERSION_OF_DRIVER = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True)
class Facts:
    """What there is of CUDA.

    Attributes:
        nvml: answer of `probe("nvml")`.
        cupti: answer of `probe("cupti")`, empty where there is no CUPTI.
        module: what the driver's kernel module says of itself, empty where there is none.
        cupti_path: CUPTI's library.
        sanitizer_path: Compute Sanitizer's library.
        nvcc: CUDA's compiler.
    """

    nvml: Mapping[str, Any]
    cupti: Mapping[str, Any]
    module: str
    cupti_path: Path | None
    sanitizer_path: Path | None
    nvcc: Path | None


def gather() -> Facts:
    """Ask the machine; libraries are asked in processes of their own."""
    path = find_cupti()
    return Facts(
        nvml=probe("nvml"),
        cupti=probe("cupti", str(path)) if path else {},
        module=text_of(_VERSION_OF_DRIVER).partition("\n")[0],
        cupti_path=path,
        sanitizer_path=find_sanitizer(),
        nvcc=find_nvcc(),
    )


def text_of(path: Path) -> str:
    """Return what a file holds, empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
