"""Starting programs that end with this process, whatever ends it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from pasta.collect.companions import bound
from pasta.collect.target.session import CHANNEL, SETTINGS

_LEFT_OUT = (CHANNEL, SETTINGS, "LD_PRELOAD")
_SET = {"LC_ALL": "C", "PERF_CONFIG": os.devnull}


def start_bound(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, so that the terminal's keys are for others alone.

    Its environment is ours without what would have it recorded, in C's language and with no
    configuration of perf, whose output is read.

    Args:
        command: program and arguments.
        options: of `subprocess.Popen`.
    """
    kept = {name: value for name, value in os.environ.items() if name not in _LEFT_OUT}
    return subprocess.Popen(  # noqa: S603 - a companion's own command
        [sys.executable, "-I", "-S", bound.__file__, str(os.getpid()), *command],
        env={**kept, **_SET},
        start_new_session=True,
        **options,
    )
