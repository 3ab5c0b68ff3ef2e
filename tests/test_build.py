"""What the build puts into a wheel: native parts where they can be built, in step with the package."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest

from pasta.collect.native_library import (
    ACTIVITY,
    ARCHITECTURES,
    BUILT,
    MEMORY,
    PARTS,
    PATCHES,
    PORTABLE,
    SAMPLES,
)
from pasta.collect.target.compiled import NATIVE
from tests.collect.fatbin_help import architectures

ROOT = Path(__file__).parent.parent
CMAKE = (ROOT / "CMakeLists.txt").read_text()
CALLED_FIRST = {
    ACTIVITY: "InitializeInjection",
    MEMORY: "InitializeInjection",
    SAMPLES: "pasta_sampling_load",
}
VARIABLES = ("PASTA_NATIVE", "PASTA_CUDA_TOOLKITS", "PASTA_CUDA_PACKAGES")


@pytest.fixture
def backend(monkeypatch):
    """Loads the build backend in an environment without what it sets itself."""
    pytest.importorskip("scikit_build_core")
    for name in (*VARIABLES, "CXX"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)

    def load():
        path = ROOT / "cmake" / "build_backend.py"
        specification = importlib.util.spec_from_file_location("build_backend", path)
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        return module

    return load


def variable(name: str) -> list[str]:
    return re.search(rf"set\({name} (.*)\)", CMAKE)[1].split()


def test_cmake_builds_what_the_package_looks_for():
    declared = {
        (name, frozenset(headers.split()))
        for name, headers in re.findall(
            r"^pasta_(?:library|patches)\((\w+) ?(.*)\)$", CMAKE, re.MULTILINE
        )
    }
    assert declared == {(Path(part.source).stem, frozenset(part.headers)) for part in PARTS}
    assert variable("PASTA_ARCHITECTURES") == list(ARCHITECTURES)
    assert variable("PASTA_PORTABLE") == [PORTABLE]
    built = BUILT.relative_to(Path(NATIVE).parent.parent.parent)
    assert variable("PASTA_DESTINATION") == [built.as_posix()]


def test_without_cuda_neither_cmake_nor_a_platform_is_asked_for(backend, monkeypatch, tmp_path):
    monkeypatch.setattr("sysconfig.get_path", lambda _name: str(tmp_path))
    monkeypatch.setattr(Path, "is_file", lambda _path: False)
    module = backend()
    assert os.environ["PASTA_NATIVE"] == "0"
    assert module._WITHOUT == "no headers of CUDA were found"
    monkeypatch.chdir(ROOT)
    assert module.get_requires_for_build_wheel() == []


def test_with_cuda_and_a_compiler_native_parts_are_built(backend, monkeypatch, tmp_path):
    header = tmp_path / "include" / "cuda.h"
    header.parent.mkdir()
    header.touch()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", sys.executable)
    assert backend()._WITHOUT == ""
    assert os.environ["PASTA_NATIVE"] == "1"
    assert os.environ["PASTA_CUDA_TOOLKITS"].split(os.pathsep)[0] == str(tmp_path)


def test_without_a_compiler_there_are_none(backend, monkeypatch, tmp_path):
    header = tmp_path / "include" / "cuda.h"
    header.parent.mkdir()
    header.touch()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert backend()._WITHOUT == "there is no C++ compiler"
    assert os.environ["PASTA_NATIVE"] == "0"


def test_the_user_has_the_last_word(backend, monkeypatch):
    monkeypatch.setenv("PASTA_NATIVE", "0")
    assert backend()._WITHOUT == "PASTA_NATIVE is 0"
    monkeypatch.setenv("PASTA_NATIVE", "1")
    assert backend()._WITHOUT == ""


@pytest.mark.native
def test_libraries_of_the_wheel_load_without_a_driver_and_patches_have_code_for_cards():
    found = next(importlib.metadata.Distribution.discover(name="pasta-trace"), None)
    folder = Path(found.locate_file("pasta/collect/native/built")) if found else None
    if folder is None or not folder.is_dir():
        pytest.skip("pasta is not installed with native parts")
    for part in PARTS:
        product = folder / part.built.name
        if part is PATCHES:
            made = architectures(product)
            assert "90" in made
            assert made == [name for name in ARCHITECTURES if name in made]
        else:
            assert callable(getattr(ctypes.CDLL(str(product)), CALLED_FIRST[part]))
