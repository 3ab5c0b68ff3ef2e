"""What the collector `cuda` costs an iteration: inference and training measured in each run.

    python benchmarks/cuda_timeline.py PROGRAM --rounds 5

PROGRAM is a Python file with the classes `EncoderLayer` and `ConvBlock`. Every run is a process of its
own, which does its iterations of inference, then of training, and waits for the device after each. The
variants take turns, each round in another order; a ratio is to the run without a collector in the
same round. What each round measured goes to stderr when it ends.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MODES = {"inference": 300, "training": 100}
WARM_UP = 20


def main() -> None:
    """Measure once, or run all variants in turn and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--variants", default="cuda:kernels,cuda:calls")
    parser.add_argument("--once", action="store_true", help="measure in this process")
    arguments = parser.parse_args()
    if arguments.once:
        print(json.dumps(_measure_all(_load(arguments.program))))
        return
    variants = ["bare", *arguments.variants.split(",")]
    medians: dict[str, list[list[float]]] = {variant: [] for variant in variants}
    for number in range(arguments.rounds):
        turn = number % len(variants)
        for variant in variants[turn:] + variants[:turn]:
            medians[variant].append(_run(variant, arguments.program))
        print({name: runs[-1] for name, runs in medians.items()}, file=sys.stderr, flush=True)
    _print(medians)


def _run(variant: str, program: Path) -> list[float]:
    """Run a variant once; return the median iteration of each mode, in ms."""
    command = [sys.executable, __file__, str(program), "--once"]
    with tempfile.TemporaryDirectory() as folder:
        if variant != "bare":
            collect = ["-m", "pasta", "collect", "--with", variant, "-o", f"{folder}/trace", "--"]
            command = [sys.executable, *collect, *command]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    measured: list[float] = json.loads(done.stdout)
    return measured


def _load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None  # noqa: S101
    assert spec.loader is not None  # noqa: S101
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return program


def _measure_all(program: Any) -> list[float]:
    return [_median(_iteration(program, mode), count) for mode, count in MODES.items()]


def _iteration(program: Any, mode: str) -> Callable[[], object]:
    import torch

    torch.manual_seed(0)
    layers = [program.EncoderLayer(128, 4, 256) for _ in range(2)]
    encoder, block = torch.nn.Sequential(*layers).cuda(), program.ConvBlock(16).cuda()
    encoder.train(mode == "training"), block.train(mode == "training")
    tokens = torch.randn(4, 32, 128, device="cuda")
    images = torch.randn(4, 3, 32, 32, device="cuda")
    weights = [*encoder.parameters(), *block.parameters()]
    optimizer = torch.optim.SGD(weights, lr=1e-2, foreach=False)

    def infer() -> None:
        with torch.no_grad():
            encoder(tokens), block(images)

    def train() -> None:
        loss = encoder(tokens).square().mean() + block(images).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return train if mode == "training" else infer


def _median(iteration: Callable[[], object], count: int) -> float:
    """Return the median of so many iterations, in ms."""
    import torch

    took = []
    for _ in range(WARM_UP + count):
        torch.cuda.synchronize()
        began = time.perf_counter()
        iteration()
        torch.cuda.synchronize()
        took.append((time.perf_counter() - began) * 1e3)
    return statistics.median(took[WARM_UP:])


def _print(medians: dict[str, list[list[float]]]) -> None:
    print(f"| | {' | '.join(MODES)} |")
    print(f"|{' --- |' * (len(MODES) + 1)}")
    for variant, runs in medians.items():
        cells = []
        for mode in range(len(MODES)):
            mine = [run[mode] for run in runs]
            ratios = sorted(a / b[mode] for a, b in zip(mine, medians["bare"], strict=True))
            spread = f"{statistics.median(ratios):.2f}x ({ratios[0]:.2f} to {ratios[-1]:.2f})"
            cells.append(f"{statistics.median(mine):.2f} ms, {spread}")
        print(f"| {variant} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
