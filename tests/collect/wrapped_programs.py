"""Stand-ins for vendors' tools: scripts on PATH that run the program as those do."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from pathlib import Path

import pytest

STAND_IN = """\
#!{python}
import json, os, pathlib, subprocess, sys

name, *arguments = sys.argv
here = pathlib.Path(name).parent
if arguments[0].startswith("--import="):  # ncu prints what it was given to print
    with (here / "printed.jsonl").open("a") as printed:
        printed.write(json.dumps([arguments, os.environ["LC_ALL"]]) + "\\n")
    page = next(a for a in arguments if a.startswith("--page=")).partition("=")[2]
    print((here / page).read_text() if (here / page).exists() else "", end="")
    sys.exit((here / page).exists() - 1)
(here / "arguments.json").write_text(json.dumps(arguments))
if pathlib.Path(name).name in ("nsys", "ncu"):
    command = arguments[next(n for n, a in enumerate(arguments) if n and a[0] != "-"):]
    output = next(a for a in arguments if a.startswith(("--output=", "--export="))).partition("=")[2]
    output = pathlib.Path(output.replace("%%", "%"))
else:
    command = arguments[arguments.index("--") + 1:]
    output = pathlib.Path(arguments[arguments.index("--output-directory") + 1])
code = subprocess.run(command).returncode
{leave}
sys.exit(code)
"""


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, leave: str = "") -> Path:
    """Put a stand-in first on PATH that runs its program and then `leave`, with `output` to use.

    Returns:
        The file in which it notes its arguments.
    """
    folder.mkdir(exist_ok=True)
    script = folder / name
    # The interpreter is given -I, so that the stand-in is no process that is recorded.
    script.write_text(
        STAND_IN.format(python=f"{sys.executable} -I", leave=textwrap.dedent(leave).strip())
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder / "arguments.json"


def without(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Take the folders that hold a program off PATH."""
    folders = os.environ["PATH"].split(os.pathsep)
    kept = [folder for folder in folders if shutil.which(name, path=folder) is None]
    monkeypatch.setenv("PATH", os.pathsep.join(kept))


def kineto(pid: int, kernels: int = 3, *, rank: int | None = None) -> str:
    """The text of a trace of PyTorch's profiler: one operator, and kernels on one stream."""
    operator = {
        "ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": pid, "tid": pid,
        "ts": 1700000000000000, "dur": 100, "args": {"External id": 50},
    }  # fmt: skip
    launched = [
        {
            "ph": "X", "cat": "kernel", "name": f"kernel_{n}", "pid": 0, "tid": 7,
            "ts": 1700000000000010 + 10 * n, "dur": 4,
            "args": {"device": 0, "stream": 7, "correlation": n + 1, "External id": 50},
        }
        for n in range(kernels)
    ]  # fmt: skip
    info = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": 8}}
    return json.dumps({**info, "traceEvents": [operator, *launched]})
