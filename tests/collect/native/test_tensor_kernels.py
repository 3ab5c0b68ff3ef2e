"""Which kernels copy tensors, by the code of their modules."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pasta.collect.toolkits import find_headers, find_nvcc
from tests.collect.native.cubin_help import (
    BULK_COPY,
    LOAD,
    LOAD_OF_ANOTHER_FORM,
    MOVE,
    PREFETCH,
    REDUCE,
    STORE,
    cubin,
)
from tests.collect.native.threads_help import compiled

SOURCE = Path(__file__).with_name("tensor_kernels.cpp")
KERNELS = {
    "adds": ([MOVE, BULK_COPY, PREFETCH], "000"),
    "loads": ([MOVE, LOAD], "100"),
    "loads_otherwise": ([LOAD_OF_ANOTHER_FORM], "100"),
    "stores": ([STORE, MOVE], "010"),
    "reduces": ([REDUCE], "001"),
    "loads_and_stores": ([LOAD, MOVE, STORE], "110"),
    "has_no_code": ([], "000"),
}
COPIES = """
#include <cuda.h>
#include <cstdint>
#define KERNEL(name) extern "C" __global__ void name(const __grid_constant__ CUtensorMap map)
__device__ uint32_t near() {
    extern __shared__ char memory[];
    return static_cast<uint32_t>(__cvta_generic_to_shared(memory));
}
__device__ __noinline__ void store(const CUtensorMap *map) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %1}], [%2];"
                 :: "l"(map), "r"(0), "r"(near()) : "memory");
}
KERNEL(loads) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %2}], [%0];"
                 :: "r"(near()), "l"(&map), "r"(0) : "memory");
}
KERNEL(reduces) {
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %1}], [%2];"
                 :: "l"(&map), "r"(0), "r"(near()) : "memory");
}
KERNEL(prefetches) { asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %1}];" :: "l"(&map), "r"(0) : "memory"); }
#ifdef CALLS
KERNEL(calls) { store(&map); }
#else
KERNEL(stores) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %1}], [%2];"
                 :: "l"(&map), "r"(0), "r"(near()) : "memory");
}
#endif
"""
pytestmark = pytest.mark.native


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("native"), SOURCE, ())


def copies(program, image: Path, *kernels: str) -> list[str]:
    command = [program, image, *kernels]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("as_very_many", [False, True])
def test_each_kernel_has_what_is_in_its_code(program, tmp_path, as_very_many):
    image, code = tmp_path / "module", {name: code for name, (code, _) in KERNELS.items()}
    image.write_bytes(cubin(code, as_very_many=as_very_many))
    assert copies(program, image, *KERNELS) == [told for _, told in KERNELS.values()]


def test_a_kernel_may_call_what_its_module_has(program, tmp_path):
    image = tmp_path / "module"
    image.write_bytes(cubin({"adds": [MOVE], "loads": [LOAD]}, {"helps": [STORE]}))
    assert copies(program, image, "adds", "loads") == ["010", "110"]


def test_what_is_no_module_may_do_anything(program, tmp_path):
    image = tmp_path / "module"
    for content in (b"", b"\x7fELF", bytes(64), b"\x7fELF\x01" + bytes(60)):
        image.write_bytes(content)
        assert copies(program, image, "loads") == ["111"]


def test_sections_beyond_the_end_are_code_that_cannot_be_read(program, tmp_path):
    image, whole = tmp_path / "module", bytearray(cubin({"loads": [LOAD]}))
    table = int.from_bytes(whole[0x28:0x30], "little")
    for section, field in (
        (1, 0x18),
        (2, 0x18),
        (2, 0x20),
    ):  # where names lie, and code, and its size
        changed = bytearray(whole)
        at = table + 64 * section + field
        changed[at : at + 8] = (1 << 40).to_bytes(8, "little")
        image.write_bytes(changed)
        assert copies(program, image, "loads") == ["111"]


def test_sections_of_no_size_are_not_looked_at_for_ever(program, tmp_path):
    image, whole = tmp_path / "module", bytearray(cubin({"loads": [LOAD]}, as_very_many=True))
    table = int.from_bytes(whole[0x28:0x30], "little")
    whole[0x3A:0x3C] = bytes(2)
    whole[table + 0x20 : table + 0x28] = (1 << 60).to_bytes(8, "little")
    image.write_bytes(whole)
    assert copies(program, image, "loads") == ["111"]


def test_a_module_that_is_cut_short_is_never_read_beyond_its_end(tmp_path):
    watched = compiled(tmp_path, SOURCE, ("-fsanitize=address,undefined", "-g"))
    image, whole = tmp_path / "module", cubin({"loads": [LOAD] * 3}, {"helps": [STORE]})
    for end in range(0, len(whole), 7):
        image.write_bytes(whole[:end])
        assert copies(watched, image, "loads") == ["111"]


@pytest.mark.parametrize("architecture", [90, 100, 120])
def test_code_of_the_compiler_is_read_as_it_is_written(program, tmp_path, architecture):
    nvcc, headers = find_nvcc(), find_headers("cuda.h")
    if nvcc is None or headers is None:
        pytest.skip("there is no nvcc, or no header of CUDA")
    source = tmp_path / "copies.cu"
    source.write_text(COPIES, encoding="utf-8")
    found = []
    for defined, kernels in (
        ([], ["loads", "stores", "reduces", "prefetches"]),
        (["-DCALLS"], ["calls"]),
    ):
        image = tmp_path / "copies.cubin"
        asked = [
            f"-arch=sm_{architecture}",
            f"-I{headers}",
            "--allow-unsupported-compiler",
            *defined,
        ]
        subprocess.run([nvcc, "-cubin", *asked, "-o", image, source], check=True)
        found += copies(program, image, *kernels)
    assert found[:4] == ["100", "010", "001", "000"]
    assert found[4][1] == "1"
