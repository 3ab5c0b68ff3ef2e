"""Where toolkits and packages keep their parts, in folders laid out as theirs are."""

from __future__ import annotations

from pathlib import Path

import pytest

from pasta.collect import toolkits


def put(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o755)


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine with nothing but what a test puts into `cuda` and into `site/nvidia`."""
    monkeypatch.setattr(toolkits, "_PLACES", (str(tmp_path / "cuda"),))
    monkeypatch.setattr(toolkits, "_SIDE_BY_SIDE", str(tmp_path / "side"))
    monkeypatch.setattr(toolkits.sysconfig, "get_path", lambda _name: str(tmp_path / "site"))
    monkeypatch.setattr(toolkits.importlib.util, "find_spec", lambda _name: None)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.usefixtures("machine")
def test_on_a_bare_machine_there_is_nothing():
    assert toolkits.toolkits() == toolkits.packages() == []
    assert toolkits.find_nvcc() is None
    assert toolkits.find_cupti() is None
    assert toolkits.find_sanitizer() is None
    assert toolkits.find_headers("cuda.h") is None


def test_toolkits_in_the_order_of_choice(machine, monkeypatch):
    for name in ("named", "cuda", "side/cuda-12.8", "side/cuda-13.1"):
        (machine / name).mkdir(parents=True)
    put(machine / "path-of/bin/nvcc")
    monkeypatch.setenv("PATH", str(machine / "path-of/bin"))
    monkeypatch.setenv("CUDA_PATH", str(machine / "named"))
    monkeypatch.setenv("CUDA_HOME", str(machine / "gone"))
    found = [path.relative_to(machine).as_posix() for path in toolkits.toolkits()]
    assert found == ["named", "path-of", "cuda", "side/cuda-13.1", "side/cuda-12.8"]


def test_packages_of_the_newest_cuda_first(machine):
    for name in ("cublas", "cu12", "cu13", "cuda_cupti"):
        (machine / "site/nvidia" / name).mkdir(parents=True)
    (machine / "site/nvidia/__init__.py").touch()
    found = [path.name for path in toolkits.packages()]
    assert found == ["cu13", "cu12", "cublas", "cuda_cupti"]


def test_packages_on_the_path_of_python(machine, monkeypatch):
    monkeypatch.undo()
    (machine / "elsewhere/nvidia/cu13").mkdir(parents=True)
    monkeypatch.syspath_prepend(machine / "elsewhere")
    assert machine / "elsewhere/nvidia/cu13" in toolkits.packages()


def test_a_toolkit_before_packages_but_for_compute_sanitizer(machine):
    toolkit, package = machine / "cuda", machine / "site/nvidia/cu13"
    put(
        toolkit / "extras/CUPTI/lib64/libcupti.so.12",
        toolkit / "compute-sanitizer/libsanitizer-public.so",
        toolkit / "bin/nvcc",
        package / "lib/libcupti.so.13",
        package / "compute-sanitizer/libsanitizer-public.so",
        package / "bin/nvcc",
    )
    assert toolkits.find_cupti() == toolkit / "extras/CUPTI/lib64/libcupti.so.12"
    assert toolkits.find_nvcc() == toolkit / "bin/nvcc"
    assert toolkits.find_sanitizer() == package / "compute-sanitizer/libsanitizer-public.so"


def test_parts_of_packages(machine):
    single = machine / "site/nvidia/cuda_cupti"
    package = machine / "site/nvidia/cu13"
    put(
        single / "include/cupti.h",
        single / "lib/libcupti.so.12",
        package / "include/crt/host_defines.h",
        package / "compute-sanitizer/include/sanitizer.h",
        package / "bin/nvcc",
    )
    assert toolkits.find_headers("cupti.h") == single / "include"
    assert toolkits.find_cupti() == single / "lib/libcupti.so.12"
    assert toolkits.find_headers("crt/host_defines.h") == package / "include"
    assert toolkits.find_headers("sanitizer.h") == package / "compute-sanitizer/include"
    assert toolkits.find_nvcc() == package / "bin/nvcc"


def test_the_compiler_on_the_path_is_the_users_choice(machine, monkeypatch):
    put(machine / "cuda/bin/nvcc", machine / "mine/nvcc")
    monkeypatch.setenv("PATH", str(machine / "mine"))
    assert toolkits.find_nvcc() == machine / "mine/nvcc"


def test_headers_of_a_toolkit_that_moves_on_are_others(machine):
    put(machine / "side/cuda-13.0/include/cuda.h")
    (machine / "cuda").symlink_to(machine / "side/cuda-13.0")
    assert toolkits.find_headers("cuda.h") == machine / "side/cuda-13.0/include"


def test_packages_of_compute_sanitizer_before_13_4(machine):
    put(machine / "site/nvidia/cu13/lib/libsanitizer-public.so")
    put(machine / "site/nvidia/cu13/include/sanitizer.h")
    assert toolkits.find_sanitizer() == machine / "site/nvidia/cu13/lib/libsanitizer-public.so"
    assert toolkits.find_headers("sanitizer.h") == machine / "site/nvidia/cu13/include"
