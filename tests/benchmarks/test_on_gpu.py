"""What runs on a GPU, with a Python that only notes what it is asked for: files and options are there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = """#!/bin/sh
{ printf '%s' "$PYTHONPATH"; for word in "$@"; do printf '\\t%s' "$word"; done; echo; } >> "$CALLS"
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The script's logs, and each call of Python: PYTHONPATH and arguments."""
    folder = tmp_path_factory.mktemp("on_gpu")
    python = folder / "python"
    python.write_text(PYTHON, encoding="utf-8")
    python.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": "/elsewhere",
        "CALLS": str(folder / "calls"),
    }
    command = [ROOT / "benchmarks" / "on_gpu.sh", folder / "workload.py", folder / "logs"]
    subprocess.run(command, env=environment, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    lines = (folder / "calls").read_text(encoding="utf-8").splitlines()
    return folder / "logs", [line.split("\t") for line in lines]


def test_every_step_ends_and_has_a_log(ran):
    logs, calls = ran
    steps = [line.partition(":") for line in (logs / "summary").read_text("utf-8").splitlines()]
    assert len(steps) > 10
    for name, _, rest in steps:
        assert rest.startswith(" exit 0,"), (name, (logs / f"{name}.log").read_text("utf-8"))
    assert {path.stem for path in logs.glob("*.log")} == {name for name, _, _ in steps}
    assert len(calls) >= len(steps)


def test_programs_import_this_pasta(ran):
    assert {path for path, *_ in ran[1]} == {f"{ROOT}:/elsewhere"}


def test_files_and_options_are_there(ran):
    for _, *words in ran[1]:
        for word in words:
            if word.startswith(("benchmarks/", "examples/", "tests/")):
                assert (ROOT / word).exists(), word
        if words[0].startswith("benchmarks/"):
            source = (ROOT / words[0]).read_text(encoding="utf-8")
            own = words[: words.index("--")] if "--" in words else words
            for option in own:
                assert not option.startswith("--") or f'"{option}"' in source, (words[0], option)
