"""The collector reads what the library of Compute Sanitizer gives it, of whatever version that is."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pasta.collect.target.compiled import NATIVE, compiler
from pasta.collect.toolkits import find_headers, find_sanitizer

SOURCE = Path(__file__).with_name("sanitizer_layout.cpp")
pytestmark = pytest.mark.native


def test_a_stream_has_its_handle_where_the_headers_say(tmp_path):
    library, headers = find_sanitizer(), find_headers("sanitizer.h")
    cuda, found = find_headers("cuda.h"), compiler()
    if library is None or headers is None or cuda is None or not found:
        pytest.skip("there is no Compute Sanitizer, no CUDA or no compiler")
    if headers not in (library.parent / "include", library.parent.parent / "include"):
        pytest.skip("the headers are not of this library")
    folders = [f"-I{folder}" for folder in (NATIVE, cuda, headers)]
    program = tmp_path / "program"
    command = [*found, "-std=c++20", "-w", *folders, str(SOURCE), "-o", str(program), "-ldl"]
    subprocess.run(command, check=True)
    environment = {**os.environ, "PASTA_SANITIZER": str(library)}
    done = subprocess.run([program], env=environment, capture_output=True, text=True, check=False)
    asked, declared = done.stdout.split()
    assert asked == declared
