"""pasta: program-analysis tools for accelerators.

    import pasta
    trace = pasta.open("t")
    trace.scan("kernel")                         # a Polars LazyFrame
    pasta.run("working_set", trace="t", top=5)   # facts, tables, findings, losses

Importing pasta imports none of the data libraries: it happens inside programs being recorded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

__version__ = "0.1.0"
__all__ = [
    "__version__",
    "annotate",
    "join",
    "open",
    "region",
    "run",
    "stage",
    "start",
    "step",
    "stop",
    "tool",
]

_HOME = {
    "open": "pasta.api",
    "run": "pasta.api",
    "join": "pasta.api",
    "annotate": "pasta.collect.target.annotate",
    "start": "pasta.collect.target.region",
    "stop": "pasta.collect.target.region",
    "step": "pasta.collect.target.region",
    "region": "pasta.collect.target.region",
    "stage": "pasta.pipeline.stage",
    "tool": "pasta.tools.report",
}

if (Path(__file__).parent / "augment").is_dir():
    raise ImportError(
        "google-pasta is installed in the same folder as pasta-trace, and both own the module"
        " name 'pasta'; remove one: pip uninstall google-pasta, then reinstall pasta-trace"
    )


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'pasta' has no attribute '{name}'")
    import importlib

    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value  # the next look at it costs no search
    return value
