"""Programs of several threads that stand for a GPU's, also watched by the compiler's ThreadSanitizer."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from pasta.collect.target.compiled import NATIVE, compiler
from pasta.collect.toolkits import find_headers

THREAD_SANITIZER = ("-fsanitize=thread", "-g")
_FLAGS = ("-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers")


def compiled(folder: Path, source: Path, watched_by: Sequence[str]) -> Path:
    """Compile a program on headers of native parts; skip the test where that cannot be.

    Args:
        folder: for what is compiled.
        source: the program.
        watched_by: flags of the compiler beside those that every program has.

    Returns:
        The program.
    """
    found = compiler()
    headers = [find_headers(name) for name in ("cuda.h", "crt/host_defines.h", "sanitizer.h")]
    if not found or None in headers:
        pytest.skip("there is no C++ compiler, or no header of CUDA or Compute Sanitizer")
    if watched_by and not _runs(folder, [*found, *watched_by]):
        pytest.skip("this compiler has no ThreadSanitizer, or it does not run here")
    program = folder / "program"
    folders = [f"-I{NATIVE}", *(f"-isystem{folder}" for folder in headers)]
    command = [*found, *_FLAGS, *watched_by, *folders, str(source), "-o", str(program)]
    subprocess.run([*command, "-pthread", "-ldl"], check=True)
    return program


def compiled_alone(folder: Path, source: Path) -> Path:
    """Compile a program that needs no header but pasta's; skip the test where there is no compiler.

    Args:
        folder: for what is compiled.
        source: the program.

    Returns:
        The program.
    """
    found = compiler()
    if not found:
        pytest.skip("there is no C++ compiler")
    program = folder / "program"
    subprocess.run(
        [*found, *_FLAGS, f"-I{NATIVE}", str(source), "-o", program, "-pthread"], check=True
    )
    return program


def output_of(program: Path, *arguments: Path | str) -> str:
    """Return what a program prints, which has to end well."""
    command = [program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def _runs(folder: Path, compile_with: Sequence[str]) -> bool:
    """Whether programs that are compiled so do run: some systems place memory where they cannot."""
    source, program = folder / "empty.cpp", folder / "empty"
    source.write_text("int main() {}\n", encoding="utf-8")
    made = subprocess.run([*compile_with, source, "-o", program], capture_output=True, check=False)
    return made.returncode == 0 and subprocess.run([program], check=False).returncode == os.EX_OK
