"""The allocator of managed memory, compiled, on a library that stands in for the CUDA runtime."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys

import pytest

from pasta.collect.target.compiled import compiled, compiler
from pasta.collect.target.torch.managed import loaded_runtime

RUNTIME = """
#include <stdlib.h>
extern "C" int cudaMallocManaged(void **address, size_t size, unsigned flags) {
  *address = malloc(size);
  return flags == 1 ? 0 : 1;
}
extern "C" int cudaFree(void *address) { free(address); return 0; }
"""


@pytest.fixture
def libraries(tmp_path, monkeypatch):
    if not compiler():
        pytest.skip("there is no C++ compiler")
    monkeypatch.setenv("PASTA_CACHE", str(tmp_path / "cache"))
    path, reason = compiled("managed_allocator.cpp", ["-ldl"], [], "an allocator")
    assert path, reason
    source, runtime = tmp_path / "runtime.cpp", tmp_path / "libcudart.so.13"
    source.write_text(RUNTIME)
    subprocess.run([*compiler(), "-shared", "-fPIC", source, "-o", runtime], check=True)
    return path, str(runtime)


def test_memory_is_counted_while_it_is_held(libraries):
    path, runtime = libraries
    library = ctypes.CDLL(path)
    library.pasta_managed_allocate.restype = ctypes.c_void_p
    library.pasta_managed_held.restype = ctypes.c_size_t
    assert library.pasta_managed_begin(runtime.encode(), ctypes.c_size_t(1000)) == 0
    arguments = (ctypes.c_ssize_t(600), 0, None)
    address = library.pasta_managed_allocate(*arguments)
    assert address
    assert library.pasta_managed_held() == 600
    library.pasta_managed_free(ctypes.c_void_p(address), *arguments)
    assert library.pasta_managed_held() == 0
    assert library.pasta_managed_allocate(ctypes.c_ssize_t(1000), 0, None)


def test_nothing_beyond_the_limit_is_allocated(libraries):
    path, runtime = libraries
    program = (
        "import ctypes, sys; library = ctypes.CDLL(sys.argv[1]);"
        " library.pasta_managed_begin(sys.argv[2].encode(), ctypes.c_size_t(1000));"
        " library.pasta_managed_allocate(ctypes.c_ssize_t(600), 0, None);"
        " library.pasta_managed_allocate(ctypes.c_ssize_t(401), 0, None)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, path, runtime], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGABRT
    assert "401 bytes more than the 600 held would exceed the 1000" in done.stderr


def test_a_library_that_is_no_runtime_is_refused(libraries):
    path, _ = libraries
    library = ctypes.CDLL(path)
    assert library.pasta_managed_begin(path.encode(), ctypes.c_size_t(1000)) == 1


def test_the_runtime_is_found_among_the_libraries_of_the_process(tmp_path):
    maps = tmp_path / "maps"
    line = "7f00-7f01 r-xp 00000000 00:00 1  /x/nvidia/lib/{}\n"
    maps.write_text(line.format("libcublas.so.13") + line.format("libcudart.so.13"))
    assert loaded_runtime(str(maps)) == "/x/nvidia/lib/libcudart.so.13"
    maps.write_text(line.format("libcublas.so.13"))
    assert loaded_runtime(str(maps)) is None
