"""The collector `cuda` on the launcher's side: its library, and the environment that loads it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

from pasta.collect.target.compiled import compiled
from pasta.errors import CollectError

_SOURCE = "cuda_activity.cpp"
_TOOLKITS = ("/usr/local/cuda", "/opt/cuda")
_CUPTI_NAMES = ("libcupti.so.13", "libcupti.so.12", "libcupti.so")


def environment() -> dict[str, str]:
    """Return the variables by which CUDA loads the collector into every program that uses CUDA.

    Raises:
        CollectError: there is no CUPTI, or the collector cannot be compiled.
    """
    variables = {"CUDA_INJECTION64_PATH": library()}
    cupti = find_cupti()
    if cupti is not None:
        variables["PASTA_CUPTI"] = variables["NVTX_INJECTION64_PATH"] = str(cupti)
    return variables


def library() -> str:
    """Return the collector's library, compiled against the headers of CUDA and CUPTI if need be.

    Raises:
        CollectError: there are no headers or no compiler, or it does not compile.
    """
    folders = [folder for folder in _folders("include", "extras/CUPTI/include") if folder.is_dir()]
    if not any((folder / "cupti.h").is_file() for folder in folders):
        raise CollectError(
            "--with cuda: no headers of CUPTI were found; install the CUDA toolkit or"
            " nvidia-cuda-cupti, or use --with torch:timeline"
        )
    arguments = [*(f"-I{folder}" for folder in folders), "-ldl", "-pthread"]
    path, reason = compiled(_SOURCE, arguments, (), "the CUDA collector")
    if path is None:
        raise CollectError(f"--with cuda: {reason}")
    return path


def find_cupti() -> Path | None:
    """Return the CUPTI library of an installed toolkit or package; `None`: there is none."""
    for folder in _folders("extras/CUPTI/lib64", "lib64", "lib"):
        for name in _CUPTI_NAMES:
            if (folder / name).is_file():
                return folder / name
    return None


def _folders(*parts: str) -> Iterator[Path]:
    """Yield such folders of toolkits and of NVIDIA's Python packages, whether they exist or not."""
    roots = [*map(Path, _TOOLKITS), *sorted(Path("/usr/local").glob("cuda-*"), reverse=True)]
    nvidia = importlib.util.find_spec("nvidia")
    for place in nvidia.submodule_search_locations or () if nvidia else ():
        names = ("cu13", "cuda_cupti", "cuda_runtime")
        roots += [Path(place, name) for name in names]
    for root in roots:
        for part in parts:
            yield root / part
