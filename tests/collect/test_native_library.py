"""Native parts: built with pasta, else compiled once; and what is said where neither can be."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from pasta.collect import native_library
from pasta.collect.native_library import ACTIVITY, MEMORY, PARTS, PATCHES, SAMPLES
from pasta.collect.target.compiled import NATIVE
from pasta.errors import CollectError
from tests.collect.fatbin_help import architectures

COMPILER = """#!/bin/sh
echo "$@" >> "$0.calls"
case "$1" in --list-gpu-code) echo "sm_75 sm_80 sm_86 sm_89 sm_90"; exit;; esac
while [ "$1" != -o ]; do shift; done
echo made > "$2"
"""
GETTERS = {
    ACTIVITY: native_library.activity_library,
    MEMORY: native_library.memory_library,
    PATCHES: native_library.memory_patches,
    SAMPLES: native_library.samples_library,
}


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine with headers and compilers that do nothing, and neither cards nor parts."""
    for name in ("nvcc", "c++"):
        (tmp_path / name).write_text(COMPILER)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("CXX", str(tmp_path / "c++"))
    monkeypatch.setenv("PASTA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(native_library, "BUILT", tmp_path / "built")
    monkeypatch.setattr(native_library, "find_headers", lambda _name: tmp_path / "include")
    monkeypatch.setattr(native_library, "find_nvcc", lambda: tmp_path / "nvcc")
    monkeypatch.setattr(native_library, "_architectures_of_cards", list)
    return tmp_path


def calls(path: Path) -> list[str]:
    told = path.with_name(f"{path.name}.calls")
    return told.read_text().splitlines() if told.exists() else []


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.source)
def test_what_was_built_with_pasta_is_taken(machine, part):
    built = machine / "built" / part.source.replace(".cpp", ".so").replace(".cu", ".fatbin")
    built.parent.mkdir()
    built.touch()
    assert GETTERS[part]() == str(built)
    assert native_library.state(part) == ("built", str(built))
    assert not (machine / "cache").exists()


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.source)
def test_else_it_is_compiled_once(machine, part):
    before, path = native_library.state(part)
    assert (before, Path(path).exists()) == ("possible", False)
    assert GETTERS[part]() == GETTERS[part]() == path
    assert Path(path).read_text() == "made\n"
    assert native_library.state(part) == ("compiled", path)
    compiler = machine / ("nvcc" if part is PATCHES else "c++")
    compiled = [call for call in calls(compiler) if part.source in call]
    assert len(compiled) == 1
    assert (f"-I{machine / 'include'}" in compiled[0].split()) is bool(part.headers)
    assert str(Path(NATIVE, part.source)) in compiled[0].split()


def test_patches_for_all_cards_that_this_compiler_knows(machine):
    native_library.memory_patches()
    told = calls(machine / "nvcc")[-1]
    assert "--fatbin --compile-as-tools-patch" in told
    assert re.findall(r",code=(\w+)", told) == ["sm_80", "sm_86", "sm_89", "sm_90", "compute_90"]


def test_patches_for_the_cards_that_are_there(machine, monkeypatch):
    monkeypatch.setattr(native_library, "_architectures_of_cards", lambda: ["90", "103"])
    native_library.memory_patches()
    assert re.findall(r",code=(\w+)", calls(machine / "nvcc")[-1]) == ["sm_90", "sm_103"]


def test_the_cards_are_asked_for_their_capability(monkeypatch):
    class Card:
        def __init__(self, capability):
            self._capability = capability

        def about(self):
            return {"compute_capability": self._capability} if self._capability else {}

    class Library:
        def cards(self):
            return [Card("12.0"), Card("9.0"), Card(None), Card("9.0")]

    monkeypatch.setattr(native_library, "Library", Library)
    assert native_library._architectures_of_cards() == ["90", "120"]


def test_without_a_driver_there_are_no_cards(monkeypatch):
    def absent():
        raise OSError("libnvidia-ml.so.1: cannot open shared object file")

    monkeypatch.setattr(native_library, "Library", absent)
    assert native_library._architectures_of_cards() == []


@pytest.mark.parametrize(
    ("part", "header", "install"),
    [
        (ACTIVITY, "cupti.h", "nvidia-cuda-cupti"),
        (ACTIVITY, "cuda.h", "nvidia-cuda-runtime"),
        (MEMORY, "sanitizer.h", "nvidia-cuda-sanitizer-api"),
        (MEMORY, "crt/host_defines.h", "nvidia-cuda-crt"),
        (PATCHES, "sanitizer_patching.h", "nvidia-cuda-sanitizer-api"),
    ],
)
def test_a_missing_header_is_named_with_what_has_it(machine, monkeypatch, part, header, install):
    monkeypatch.setattr(
        native_library, "find_headers", lambda name: None if name == header else machine
    )
    with pytest.raises(CollectError) as raised:
        GETTERS[part]()
    assert str(raised.value) == (
        f"{part.option}: {header} was not found, to compile {part.what};"
        f" install the CUDA toolkit or {install}"
    )
    with pytest.raises(CollectError, match=header):
        native_library.state(part)


@pytest.mark.usefixtures("machine")
def test_a_missing_compiler_is_named(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    for part, get in GETTERS.items():
        with pytest.raises(CollectError, match=rf"{part.option}: .*install g\+\+ or clang\+\+"):
            get()
        with pytest.raises(CollectError, match=r"install g\+\+ or clang\+\+"):
            native_library.state(part)
    monkeypatch.setattr(native_library, "find_nvcc", lambda: None)
    with pytest.raises(CollectError, match="install the CUDA toolkit or nvidia-cuda-nvcc"):
        native_library.memory_patches()


def test_what_does_not_compile_says_why_and_is_not_tried_again(machine):
    (machine / "c++").write_text(
        '#!/bin/sh\necho "$@" >> "$0.calls"\necho "x.h: error: bad" >&2\nexit 1\n'
    )
    for _ in range(2):
        with pytest.raises(
            CollectError, match=r"--with cuda: the CUDA collector .*x\.h: error: bad"
        ):
            native_library.activity_library()
    assert len(calls(machine / "c++")) == 1
    kind, reason = native_library.state(ACTIVITY)
    assert kind == "failed"
    assert "x.h: error: bad (remove " in reason


def test_a_change_of_one_source_compiles_that_one_again(machine, monkeypatch):
    sources = machine / "sources"
    shutil.copytree(NATIVE, sources)
    monkeypatch.setattr("pasta.collect.target.compiled.NATIVE", str(sources))
    before = {part: native_library.state(part)[1] for part in PARTS}
    with (sources / ACTIVITY.source).open("a") as file:
        file.write("\n")
    changed = {part for part in PARTS if native_library.state(part)[1] != before[part]}
    assert changed == {ACTIVITY}
    with (sources / "settings.h").open("a") as file:
        file.write("\n")
    assert all(native_library.state(part)[1] != before[part] for part in PARTS)


@pytest.mark.native
def test_patches_that_are_compiled_here_have_code_for_the_card(monkeypatch, tmp_path):
    monkeypatch.setenv("PASTA_CACHE", str(tmp_path))
    monkeypatch.setattr(native_library, "_architectures_of_cards", lambda: ["90"])
    try:
        patches = Path(native_library.memory_patches())
    except CollectError as error:
        pytest.skip(str(error))
    assert architectures(patches) == ["90"]
