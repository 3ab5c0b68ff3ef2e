"""The CUDA collector: that it compiles where there are headers, and on a GPU what it records."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import pasta
from pasta.collect.cuda import find_library
from pasta.errors import CollectError

NATIVE = Path(__file__).parents[2] / "pasta" / "collect" / "native"
HEADERS = [
    folder
    for root in ("/usr/local/cuda", "/opt/cuda", *map(str, Path("/usr/local").glob("cuda-*")))
    for part in ("include", "extras/CUPTI/include")
    if (folder := Path(root, part)).is_dir()
]
PROGRAM = """
#include <cstdio>
#include <cuda_runtime.h>
__global__ void add(const float *a, const float *b, float *c) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    c[i] = a[i] + b[i];
}
int main() {
    float *a, *b, *c;
    cudaMalloc(&a, 4096); cudaMalloc(&b, 4096); cudaMalloc(&c, 4096);
    cudaMemset(a, 0, 4096); cudaMemset(b, 0, 4096);
    for (int launch = 0; launch < 5; ++launch) add<<<4, 256>>>(a, b, c);
    float host[1024];
    cudaMemcpy(host, c, 4096, cudaMemcpyDeviceToHost);
    cudaFree(a); cudaFree(b); cudaFree(c);
    std::puts("done");
    return cudaGetLastError();
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None or not any((folder / "cupti.h").is_file() for folder in HEADERS):
        pytest.skip("no C++ compiler, or no headers of CUDA and CUPTI")
    made = tmp_path_factory.mktemp("cuda") / "libpasta_cuda.so"
    includes = [f"-I{folder}" for folder in HEADERS]
    flags = ["-std=c++20", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra"]
    flags += ["-Wno-missing-field-initializers", "-Werror"]
    source = NATIVE / "cuda_activity.cpp"
    subprocess.run(
        [compiler, *flags, *includes, source, "-o", made, "-ldl", "-pthread"], check=True
    )
    return made


def test_the_library_offers_what_cuda_calls(library):
    import ctypes

    assert ctypes.CDLL(str(library)).InitializeInjection() == 1


def test_without_a_library_one_line_says_so(monkeypatch):
    monkeypatch.setattr("pasta.collect.cuda.LIBRARY", "libpasta_absent.so")
    with pytest.raises(CollectError, match="the native collector was not built"):
        find_library()


@pytest.mark.gpu
def test_kernels_copies_and_calls_of_a_plain_program(library, tmp_path):
    nvcc = shutil.which("nvcc")
    if nvcc is None or not Path("/dev/nvidiactl").exists():
        pytest.skip("there is no NVIDIA GPU, or no nvcc")
    source, program, trace = tmp_path / "add.cu", tmp_path / "add", tmp_path / "t"
    source.write_text(PROGRAM)
    subprocess.run([nvcc, "-o", program, source], check=True)
    place = NATIVE / "libpasta_cuda.so"
    built = place.exists()
    if not built:
        shutil.copy(library, place)
    try:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pasta",
                "collect",
                "--with",
                "cuda:calls",
                "-o",
                trace,
                "--",
                program,
            ],
            capture_output=True,
            text=True,
            env=os.environ,
            check=False,
        )
    finally:
        if not built:
            place.unlink()
    assert (done.returncode, done.stdout) == (0, "done\n")
    opened = pasta.open(trace)
    kernels = opened.scan("kernel").collect()
    assert kernels.height == 5
    assert kernels["name"].unique().to_list() == ["add(float const*, float const*, float*)"]
    assert kernels.select("grid_x", "block_x").unique().rows() == [(4, 256)]
    assert (kernels["dur"] > 0).all()
    copies = opened.scan("copy").select("kind", "destination", "bytes").collect()
    assert ("DtoH", "pageable", 4096) in copies.rows()
    calls = opened.scan("call").collect()
    launches = calls.filter(pl.col("name") == "cudaLaunchKernel")
    assert set(kernels["correlation"]) == set(launches["correlation"])
    assert (launches["ts"].min() or 0) < (kernels["ts"].min() or 0)
    memory = opened.scan("memory").filter(pl.col("bytes") == 4096, pl.col("space") == "device")
    assert memory.group_by("object_id").len().collect()["len"].to_list() == [2, 2, 2]
    assert opened.scan("device").collect()["vendor"].to_list() == ["nvidia"]
