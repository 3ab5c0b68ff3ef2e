"""Whether pasta itself is whole: Python, what it depends on, a tool that runs, the extras."""

from __future__ import annotations

import importlib
import importlib.metadata
import platform
from collections.abc import Iterator
from pathlib import Path

import pasta
from pasta.doctor.check import Check, Status

_DEPENDENCIES = {
    "click": "click",
    "msgspec": "msgspec",
    "numpy": "numpy",
    "polars": "polars",
    "pyarrow": "pyarrow",
    "pyyaml": "yaml",
    "rich": "rich",
}
_GPU = ("cudf-polars", "cudf", "cupy", "dask-cuda")
_VARIANTS = ("", "-cu13", "-cu12", "-cuda13x", "-cuda12x")
_REINSTALL = "pip install --force-reinstall pasta-trace"


def checks() -> Iterator[Check]:
    """Yield how the installation stands."""
    yield Check(
        Status.OK,
        "Python",
        f"{platform.python_version()} on {platform.system()} {platform.machine()}",
    )
    yield Check(Status.OK, "pasta-trace", f"{pasta.__version__} in {Path(pasta.__file__).parent}")
    yield _dependencies()
    yield _tool()
    yield _torch()
    yield _gpu()


def _dependencies() -> Check:
    found, failed = [], []
    for package, module in _DEPENDENCIES.items():
        try:
            importlib.import_module(module)
            found.append(f"{package} {_version(package) or '(version unknown)'}")
        except ImportError as error:
            failed.append(f"{package}: {error}")
    if failed:
        return Check(Status.BROKEN, "dependencies", "; ".join(failed), _REINSTALL)
    return Check(Status.OK, "dependencies", ", ".join(found))


def _tool() -> Check:
    """Run a tool on the trace that ships."""
    try:
        from pasta import api

        api.run("working_set")
    except Exception as error:  # noqa: BLE001 - whatever it is, pasta does not work
        return Check(Status.BROKEN, "a tool on the shipped trace", repr(error), _REINSTALL)
    return Check(Status.OK, "a tool on the shipped trace", "runs")


def _torch() -> Check:
    version = _version("torch")
    if version is None:
        return Check(
            Status.MISSING,
            "PyTorch",
            "not in this Python",
            "needed in the Python of the programs that --with torch records: pip install torch",
        )
    return Check(Status.OK, "PyTorch", version)


def _gpu() -> Check:
    versions = {
        name: next(filter(None, (_version(name + variant) for variant in _VARIANTS)), None)
        for name in _GPU
    }
    missing = [name for name, version in versions.items() if version is None]
    if missing:
        return Check(
            Status.MISSING,
            "extra gpu",
            f"no {', '.join(missing)}",
            "needed to run tools on an NVIDIA GPU: pip install 'pasta-trace[gpu]'",
        )
    return Check(
        Status.OK, "extra gpu", ", ".join(f"{name} {found}" for name, found in versions.items())
    )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
