"""The build backend: scikit-build-core, with CMake only where there is CUDA to build native parts.

Elsewhere neither CMake nor Ninja is asked for, and the wheel fits every platform. The environment
variable `PASTA_NATIVE` decides instead where it is set, to 0 or 1.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

from scikit_build_core import build
from scikit_build_core.build import *  # noqa: F403 - a backend has the hooks that its base has

_COLLECT = Path(__file__).parent.parent / "pasta" / "collect"
_INSTEAD = "; they are compiled at first use instead"


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, list[str] | str] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build a wheel, without native parts where they cannot be built, and say so."""
    name = build.build_wheel(wheel_directory, config_settings, metadata_directory)
    if _WITHOUT:
        _say(f"without native parts, as {_WITHOUT}{_INSTEAD}")
    elif os.environ["PASTA_NATIVE"] == "1" and name.endswith("-any.whl"):
        _say(f"without native parts, as they did not compile (see above){_INSTEAD}")
    return name


def _say(line: str) -> None:
    sys.stderr.write(f"pasta: {line}\n")


def _module(name: str) -> ModuleType:
    """Load a module of the package that needs the standard library only."""
    path = _COLLECT / f"{name}.py"
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None and specification.loader is not None  # noqa: PT018, S101
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def _choose() -> str:
    """Tell scikit-build-core and CMake what there is; return why there will be no native parts."""
    toolkits = _module("toolkits")
    for kind in ("toolkits", "packages"):
        places = os.pathsep.join(map(str, getattr(toolkits, kind)()))
        os.environ.setdefault(f"PASTA_CUDA_{kind.upper()}", places)
    given = os.environ.get("PASTA_NATIVE")
    if given is not None:
        return "" if given == "1" else f"PASTA_NATIVE is {given}"
    why = ""
    if toolkits.find_headers("cuda.h") is None:
        why = "no headers of CUDA were found"
    elif not _module("target/compiled").compiler():
        why = "there is no C++ compiler"
    os.environ["PASTA_NATIVE"] = "0" if why else "1"
    return why


_WITHOUT = _choose()
