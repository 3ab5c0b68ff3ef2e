"""The CUDA collector: that it compiles where there are headers, and on a GPU what it records."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import pasta
from pasta.collect import cuda, native_library
from pasta.collect.collectors import parse_with
from pasta.errors import CollectError

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
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PASTA_CACHE", str(tmp_path_factory.mktemp("cache")))
        try:
            yield native_library.activity_library()
        except CollectError as error:
            pytest.skip(str(error))


@pytest.mark.native
def test_the_library_offers_what_cuda_calls(library):
    assert ctypes.CDLL(library).InitializeInjection() == 1


def test_the_library_offers_what_nvtx_calls(library):
    assert ctypes.CDLL(library).InitializeInjectionNvtx2


def test_programs_are_told_where_the_library_and_cupti_are(library, monkeypatch):
    monkeypatch.setattr(cuda, "activity_library", lambda: library)
    monkeypatch.setattr(cuda, "find_cupti", lambda: Path("there/libcupti.so.13"))
    variables = cuda.environment()
    assert variables["CUDA_INJECTION64_PATH"] == library
    assert variables["NVTX_INJECTION64_PATH"] == library
    assert variables["PASTA_CUPTI"] == "there/libcupti.so.13"
    monkeypatch.setattr(cuda, "find_cupti", lambda: None)
    assert set(cuda.environment()) == {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"}


@pytest.mark.parametrize("level", ["kernels", "calls"])
def test_the_profiler_of_pytorch_is_refused_beside_it(level):
    with pytest.raises(CollectError, match="both need CUPTI"):
        parse_with([f"cuda:{level},torch:timeline"])


@pytest.mark.gpu
@pytest.mark.usefixtures("library")
def test_kernels_copies_and_calls_of_a_plain_program(tmp_path):
    nvcc = shutil.which("nvcc")
    if nvcc is None or not Path("/dev/nvidiactl").exists():
        pytest.skip("there is no NVIDIA GPU, or no nvcc")
    source, program, trace = tmp_path / "add.cu", tmp_path / "add", tmp_path / "t"
    source.write_text(PROGRAM)
    subprocess.run([nvcc, "-o", program, source], check=True)
    command = [sys.executable, "-m", "pasta", "collect", "--with", "cuda:calls", "-o", trace]
    done = subprocess.run([*command, "--", program], capture_output=True, text=True, check=False)
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
    assert opened.scan("device").collect()["vendor"].unique().to_list() == ["nvidia"]
