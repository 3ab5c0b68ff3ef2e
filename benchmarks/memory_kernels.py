"""What watching memory costs single kernels and steps of a transformer of several widths, on a GPU with PyTorch.

    python benchmarks/memory_kernels.py [--variants "cuda.memory:touch,cuda.memory:touch --tensor-loads watched"]
                                        [--work "layer norm;inference 8192"]

Each variant, and none, runs once in a process of its own, in which each piece of work is done seven times, with a wait
for the device behind each; printed is the median of the last five, in ms, and the ratio of each variant to it. A
variant is what follows `pasta collect --with`, options too. `inference of a long sequence`, which takes seconds each
time, is done only where it is named.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

REPEATS, WARM_UP = 7, 2
BARE = "bare"
VARIANTS = "cuda.memory:touch,cuda.memory:touch --tensor-loads watched"
SHAPES = {4096: (32, 4, 2048), 8192: (64, 2, 4096), 16384: (128, 2, 4096), 24576: (192, 2, 4096)}
"""Width of a transformer -> its heads, and the sequences and tokens of a step."""

LONG, LONG_SHAPE = "inference of a long sequence", (4096, 32, 1, 1 << 18)
"""Its name; width, heads, sequences and tokens."""

Work = Callable[[], Any]


def main() -> None:
    """Print the table; or do the work, in a process of a variant."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--variants", default=VARIANTS)
    parser.add_argument(
        "--work", default="", help="names of rows of the table, with ; between them; without: all"
    )
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.out:
        times = measured({**kernels(), **steps()}, given.work.split(";"))
        given.out.write_text(json.dumps(times), encoding="utf-8")
        return
    variants = given.variants.split(",")
    found = {variant: run(variant, given.work) for variant in [BARE, *variants]}
    print(f"| | no collector | {' | '.join(variants)} |")
    print(f"| --- | --- |{' --- |' * len(variants)}")
    for name, bare in found[BARE].items():
        ratios = (f"{found[variant][name] / bare:.2f}x" for variant in variants)
        print(f"| {name} | {bare:.2f} ms | {' | '.join(ratios)} |")


def run(variant: str, work: str) -> dict[str, float]:
    """Return the median ms of each piece of work under a variant."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "found.json")
        command = [sys.executable, __file__, f"--work={work}", f"--out={out}"]
        if variant != BARE:
            collect = ["-m", "pasta", "collect", "--with", *variant.split(), "-o", f"{folder}/t"]
            command = [sys.executable, *collect, "--", *command]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        found: dict[str, float] = json.loads(out.read_text(encoding="utf-8"))
        return found


def measured(work: dict[str, Work], names: list[str]) -> dict[str, float]:
    """Do the work that is named, or all where the only name is empty, in this process; median ms of each.

    Raises:
        SystemExit: no work has one of the names.
    """
    import torch

    wanted = [name for name in work if name != LONG] if names == [""] else names
    for name in wanted:
        if name not in work:
            sys.exit(f"there is no work '{name}'; there is {'; '.join(work)}")
    medians = {}
    for name in wanted:
        times = []
        for _ in range(REPEATS):
            torch.cuda.synchronize()
            began = time.perf_counter()
            work[name]()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - began) * 1e3)
        medians[name] = statistics.median(times[WARM_UP:])
    return medians


def kernels() -> dict[str, Work]:
    """Return work of one kernel each."""
    import torch
    from torch.nn import functional

    def random(*shape: int, half: bool = True) -> torch.Tensor:
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16 if half else torch.float32)

    floats, rows, scale = random(1 << 28, half=False), random(16384, 4096), random(4096)
    result, first, second = torch.empty_like(floats), random(8192, 8192), random(8192, 8192)
    left, right = random(4096, 4096, half=False), random(4096, 4096, half=False)
    heads = random(4, 32, 4096, 128)
    return {
        "product of 1 GiB of floats with a number": lambda: torch.mul(floats, 2.0, out=result),
        "layer norm": lambda: functional.layer_norm(rows, (4096,), scale, scale),
        "product of matrices, 8192^3, bf16": lambda: first @ second,
        "product of matrices, 4096^3, fp32": lambda: left @ right,
        "attention": lambda: functional.scaled_dot_product_attention(
            heads, heads, heads, is_causal=True
        ),
    }


def steps() -> dict[str, Work]:
    """Return steps of transformers of two layers in bf16; each is made when it is first done."""
    found: dict[str, Work] = {}
    for width, (heads, sequences, tokens) in SHAPES.items():
        made = cache(partial(transformer, width, heads, sequences, tokens))
        found[f"inference {width}"] = partial(_do, made, 0)
        found[f"training {width}"] = partial(_do, made, 1)
    found[LONG] = partial(_with_cudnn, cache(partial(transformer, *LONG_SHAPE)))
    return found


def _do(made: Callable[[], tuple[Work, Work]], place: int) -> None:
    made()[place]()


def _with_cudnn(made: Callable[[], tuple[Work, Work]]) -> None:
    """Do inference with cuDNN's attention, which reads by tensor copies (TMA)."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
        _do(made, 0)


def transformer(width: int, heads: int, sequences: int, tokens: int) -> tuple[Work, Work]:
    """Return inference and a training step of two encoder layers."""
    import torch

    placed: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    layers = (
        torch.nn.TransformerEncoderLayer(
            width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True, **placed
        )
        for _ in range(2)
    )
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    given = torch.randn(sequences, tokens, width, **placed)

    def inference() -> None:
        with torch.no_grad():
            model(given)

    def training() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(given).float().square().mean().backward()
        optimizer.step()

    return inference, training


if __name__ == "__main__":
    main()
