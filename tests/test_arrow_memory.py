"""Arrow takes memory from the C library where an import asks for it first."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

ASK = "from pasta.arrow_memory import take_from_c_library as take; take(); "
TELL = "import os, pyarrow as pa; print(pa.default_memory_pool().backend_name, os.environ.get('ARROW_DEFAULT_MEMORY_POOL'))"


def told(program: str, **environment: str) -> list[str]:
    bare = {name: value for name, value in os.environ.items() if "MEMORY_POOL" not in name}
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, env=bare | environment, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_the_first_to_ask_is_heard_and_nothing_is_left_to_other_processes():
    assert told(ASK + TELL) == ["system", "None"]


@pytest.mark.parametrize("first", ["import pyarrow; ", "import pyarrow, polars; "])
def test_who_is_late_changes_nothing(first):
    assert told(first + ASK + TELL) == told(TELL)


def test_what_the_user_chose_stays():
    chosen = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
    assert told(ASK + TELL, **chosen) == ["system", "system"]
