"""Running Python on a copy of the project, past an editable installation of it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path


def run_python(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in `copy`, whose package is imported instead of the installed one.

    `-S` leaves `.pth` files unread, which would put an editable installation first; installed
    libraries are found through `PYTHONPATH`.
    """
    paths = [str(copy), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-S", *arguments]
    return subprocess.run(
        command, cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
