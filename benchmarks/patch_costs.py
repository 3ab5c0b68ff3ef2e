"""What parts of the memory collector's patches cost, one by one: patches without a part, beside those that pasta has.

    python benchmarks/patch_costs.py build FOLDER            # needs nvcc, and no GPU
    python benchmarks/patch_costs.py run FOLDER [--only "touch;empty"] [--work "layer norm;product 1024"]

Each variant of the patches is pasta's own with one edit (`EDITS`). `run` does the same work without a collector, and
under `cuda.memory:touch` with the patches of each variant, each in a process of its own, and prints medians in ms and
ratios. Products of several sizes tell what a launch costs from what a tensor copy costs; `prefer L1` are the empty
patches where kernels ask for as much first-level cache as there is, in which they save their registers.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.memory_kernels import Work, kernels, measured
from pasta.collect.native_library import nvcc_arguments
from pasta.collect.target.compiled import NATIVE
from pasta.collect.toolkits import find_headers, find_nvcc

SIZES = (1024, 2048, 4096, 8192, 16384)
BARE, PREFER_L1 = "no collector", "empty, prefer L1"
CACHE_PREFER_L1 = 2
HEADERS = ("cuda.h", "crt/host_defines.h", "sanitizer_patching.h")
COPIES, ALL = "patch_tensor_copies.h", "memory_patches.cu"
Edit = tuple[str, str, str]
"""A source, what is in it, and what takes its place."""

EDITS: dict[str, tuple[Edit, ...]] = {
    "touch": (),
    "empty": ((ALL, "        does;  ", "        "),),
    "copies: counted only": (
        (
            COPIES,
            "    const SetAside put(at);\n",
            "    if (active) return count_bulk<Does>(slot, pc, READ, 0);\n    const SetAside put(at);\n",
        ),
    ),
    "copies: looked up, not counted": (
        (COPIES, "return count_box<Does>(slot, pc, box);\n    load_box", "return;\n    load_box"),
    ),
    "copies: kept, not marked": ((COPIES, "&& part.bytes()) mark_part", "&& !slot) mark_part"),),
    "copies: others in a call": (
        (COPIES, "DEVICE void load_box(", "static __device__ __noinline__ void load_box("),
    ),
    "loads: counted, not marked": (
        (
            ALL,
            "    touch<Does>(slot, active, pc, address, kind, bytes);\n",
            "    if (leads(active, lane_of_warp())) count_global<Does>(slot, pc, kind, bytes, 1);\n",
        ),
    ),
}


def main() -> None:
    """Build the variants, run them and print the table, or do the work in a process of a variant."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("action", choices=["build", "run", "work"])
    parser.add_argument("folder", type=Path, help="where the variants are")
    parser.add_argument("--architectures", default="90", help="compute capabilities to build for")
    parser.add_argument("--only", default="", help="variants, with ; between them")
    parser.add_argument("--work", default="", help="rows of the table, with ; between them")
    parser.add_argument("--prefer-l1", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.action == "build":
        for variant in EDITS:
            build(variant, given.folder, given.architectures.split(","))
    elif given.action == "work":
        if given.prefer_l1:
            prefer_l1_cache()
        times = measured({**kernels(), **products()}, given.work.split(";"))
        given.out.write_text(json.dumps(times), encoding="utf-8")
    else:
        show({variant: run(variant, given.folder, given.work) for variant in chosen(given.only)})


def chosen(only: str) -> list[str]:
    """Return the variants that are run, the one without a collector first."""
    known = [*EDITS, PREFER_L1]
    wanted = only.split(";") if only else known
    for variant in wanted:
        if variant not in known:
            raise SystemExit(f"--only: there is no {variant!r}; there are {'; '.join(known)}")
    return [BARE, *wanted]


def edited(variant: str) -> dict[str, str]:
    """Return the sources of a variant that are not pasta's own, by name."""
    sources: dict[str, str] = {}
    for name, old, new in EDITS[variant]:
        text = sources.get(name) or Path(NATIVE, name).read_text(encoding="utf-8")
        if text.count(old) != 1:
            raise SystemExit(f"{variant}: {name} has {text.count(old)} times, not once: {old!r}")
        sources[name] = text.replace(old, new)
    return sources


def fatbin(variant: str, folder: Path) -> Path:
    """Return where the patches of a variant are."""
    letters = "".join(letter if letter.isalnum() else "_" for letter in variant)
    return folder / f"{letters}.fatbin"


def build(variant: str, folder: Path, architectures: list[str]) -> None:
    """Compile the patches of a variant."""
    compiler, headers = find_nvcc(), [find_headers(name) for name in HEADERS]
    if compiler is None or None in headers:
        raise SystemExit("the patches need nvcc and the headers of CUDA and Compute Sanitizer")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for source in [
            *Path(NATIVE).glob("patch_*.h"),
            *Path(NATIVE).glob("memory_*.h"),
            Path(NATIVE, ALL),
        ]:
            Path(scratch, source.name).write_bytes(source.read_bytes())
        for name, text in edited(variant).items():
            Path(scratch, name).write_text(text, encoding="utf-8")
        include = [f"-I{header}" for header in headers]
        command = [str(compiler), *nvcc_arguments(architectures), *include, f"{scratch}/{ALL}"]
        subprocess.run([*command, "-o", str(fatbin(variant, folder))], check=True)
    print(f"{variant}: {fatbin(variant, folder)}")


def run(variant: str, folder: Path, work: str) -> dict[str, float]:
    """Return the median ms of each piece of work under a variant."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "found.json")
        command = [sys.executable, __file__, "work", str(folder), f"--work={work}", f"--out={out}"]
        if variant != BARE:
            patches = fatbin("empty" if variant == PREFER_L1 else variant, folder).resolve()
            watched = ["--with", "cuda.memory:touch", "--tensor-loads", "watched"]
            collect = [sys.executable, "-m", "pasta", "collect", *watched]
            prefer = ["--prefer-l1"] if variant == PREFER_L1 else []
            command = [
                *collect,
                "-o",
                f"{scratch}/t",
                "--",
                "env",
                f"PASTA_PATCHES={patches}",
                *command,
                *prefer,
            ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        found: dict[str, float] = json.loads(out.read_text(encoding="utf-8"))
        return found


def show(found: dict[str, dict[str, float]]) -> None:
    """Print a table of ms without a collector, and ratios to it."""
    _, *variants = found
    print(f"| | {BARE} | {' | '.join(variants)} |")
    print(f"| --- | --- |{' --- |' * len(variants)}")
    for name, bare in found[BARE].items():
        ratios = (f"{found[variant][name] / bare:.2f}x" for variant in variants)
        print(f"| {name} | {bare:.3f} ms | {' | '.join(ratios)} |")


def prefer_l1_cache() -> None:
    """Have kernels of this process get more cache, at the cost of shared memory."""
    import torch

    torch.cuda.init()
    ctypes.CDLL("libcudart.so.13").cudaDeviceSetCacheConfig(CACHE_PREFER_L1)


def products() -> dict[str, Work]:
    """Return products of square matrices in bf16."""
    import torch

    def product(size: int) -> Any:
        made: list[torch.Tensor] = []

        def work() -> None:
            if not made:
                placed: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
                made.extend(torch.randn(size, size, **placed) for _ in range(2))
            torch.mm(*made)

        return work

    return {f"product {size}": product(size) for size in SIZES}


if __name__ == "__main__":
    main()
