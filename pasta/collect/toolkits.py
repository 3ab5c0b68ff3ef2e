"""Where the parts of CUDA are on this machine: in toolkits, and in NVIDIA's Python packages.

It imports the standard library only, as the build of pasta asks it too, before anything is there.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

_VARIABLES = ("CUDA_HOME", "CUDA_PATH")
_PLACES = ("/usr/local/cuda", "/opt/cuda")
_SIDE_BY_SIDE = "/usr/local"
_TARGET = {"x86_64": "x86_64-linux", "aarch64": "sbsa-linux"}.get(platform.machine(), "")
_INCLUDE = ("include", f"targets/{_TARGET}/include", "extras/CUPTI/include")
_LIBRARIES = (
    *("extras/CUPTI/lib64", "lib64", "lib", f"targets/{_TARGET}/lib"),
    f"lib/{platform.machine()}-linux-gnu",
)
_SANITIZER = ("compute-sanitizer", "extras/compute-sanitizer", "lib/compute-sanitizer")
_OLDER_SANITIZER = "lib"
"""Where packages before 13.4 have the library; their headers are in `include`."""
_CUPTI_NAMES = ("libcupti.so.13", "libcupti.so.12", "libcupti.so")
_SANITIZER_NAME = "libsanitizer-public.so"


def find_nvcc() -> Path | None:
    """Return CUDA's compiler: that on `PATH`, else a toolkit's, else a package's."""
    named = shutil.which("nvcc")
    if named is not None:
        return Path(named)
    candidates = (root / "bin" / "nvcc" for root in [*toolkits(), *packages()])
    return next((path for path in candidates if os.access(path, os.X_OK)), None)


def find_cupti() -> Path | None:
    """Return the CUPTI library of an installed toolkit or package; `None`: there is none."""
    return _first_file([*toolkits(), *packages()], _LIBRARIES, _CUPTI_NAMES)


def find_sanitizer() -> Path | None:
    """Return the library of Compute Sanitizer; `None`: there is none.

    Packages come first: they are installed for pasta, and newer ones see more instructions (TMA
    loads from 13.3 on).
    """
    parts = [*_SANITIZER, _OLDER_SANITIZER]
    return _first_file([*packages(), *toolkits()], parts, [_SANITIZER_NAME])


def find_headers(name: str) -> Path | None:
    """Return the folder below which a header is included: of CUDA, CUPTI or Compute Sanitizer.

    Args:
        name: as in `#include`: `cuda.h`, `crt/host_defines.h`, `sanitizer.h`.
    """
    if name.startswith("sanitizer"):
        parts = [*(f"{part}/include" for part in _SANITIZER), "include"]
        found = _first_file([*packages(), *toolkits()], parts, [name])
    else:
        found = _first_file([*toolkits(), *packages()], _INCLUDE, [name])
    return found.resolve().parents[name.count("/")] if found else None


def toolkits() -> list[Path]:
    """Return the folders where CUDA toolkits are: named by variables, on `PATH`, well known."""
    roots = [Path(os.environ[name]) for name in _VARIABLES if os.environ.get(name)]
    named = shutil.which("nvcc")
    if named is not None:
        roots.append(Path(named).resolve().parent.parent)
    roots += map(Path, _PLACES)
    roots += sorted(Path(_SIDE_BY_SIDE).glob("cuda-*"), reverse=True)
    return [root for root in dict.fromkeys(roots) if root.is_dir()]


def packages() -> list[Path]:
    """Return the folders of NVIDIA's Python packages: `nvidia/cu13`, and the older one for each."""
    places = [Path(sysconfig.get_path("purelib"), "nvidia")]
    nvidia = importlib.util.find_spec("nvidia")
    if nvidia is not None:
        places += map(Path, nvidia.submodule_search_locations or ())
    return [
        folder
        for place in dict.fromkeys(places)
        if place.is_dir()
        for folder in sorted(place.iterdir(), key=_newest_first)
        if folder.is_dir()
    ]


def _newest_first(folder: Path) -> tuple[int, str]:
    """Order `cu13` before `cu12`, and both before the packages of a single part."""
    version = folder.name.removeprefix("cu")
    return (-int(version) if version.isdigit() else 0, folder.name)


def _first_file(roots: Iterable[Path], parts: Iterable[str], names: Iterable[str]) -> Path | None:
    return next((path for path in _paths(roots, list(parts), list(names)) if path.is_file()), None)


def _paths(roots: Iterable[Path], parts: list[str], names: list[str]) -> Iterator[Path]:
    for root in roots:
        for part in parts:
            for name in names:
                yield root / part / name
