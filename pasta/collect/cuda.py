"""The collector `cuda` on the launcher's side: its library, and the environment that loads it."""

from __future__ import annotations

import importlib.util
import sysconfig
from pathlib import Path

from pasta.errors import CollectError

LIBRARY = "libpasta_cuda.so"
_NATIVE = Path("pasta", "collect", "native")
_TOOLKITS = ("/usr/local/cuda", "/opt/cuda")
_CUPTI_NAMES = ("libcupti.so.13", "libcupti.so.12", "libcupti.so")


def environment() -> dict[str, str]:
    """Return the variables by which CUDA loads the collector into every program that uses CUDA.

    Raises:
        CollectError: the collector was not built.
    """
    variables = {"CUDA_INJECTION64_PATH": str(find_library())}
    cupti = find_cupti()
    if cupti is not None:
        variables["PASTA_CUPTI"] = variables["NVTX_INJECTION64_PATH"] = str(cupti)
    return variables


def find_library() -> Path:
    """Return the collector's library.

    Raises:
        CollectError: pasta was installed where there were no CUDA headers to build it with.
    """
    places = (
        Path(__file__).parent / "native" / LIBRARY,
        Path(sysconfig.get_path("platlib")) / _NATIVE / LIBRARY,
    )
    for place in places:
        if place.is_file():
            return place
    raise CollectError(
        "cuda: the native collector was not built, as there were no CUDA headers; install the CUDA"
        " toolkit and then pasta again, or use --with torch:timeline"
    )


def find_cupti() -> Path | None:
    """Return the CUPTI library of an installed package or toolkit; `None`: there is none."""
    folders = [Path(root) / part for root in _TOOLKITS for part in ("extras/CUPTI/lib64", "lib64")]
    for package in ("nvidia.cu13", "nvidia.cuda_cupti"):
        found = importlib.util.find_spec(package.partition(".")[0])
        places = found.submodule_search_locations or () if found else ()
        folders += [Path(place, package.partition(".")[2], "lib") for place in places]
    for folder in folders:
        for name in _CUPTI_NAMES:
            if (folder / name).is_file():
                return folder / name
    return None
