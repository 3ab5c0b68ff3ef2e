"""What the working set of each launch costs: reduced on the GPU, or from raw accesses on processors or on the GPU.

    python benchmarks/three_analyses.py [--models resnet18:1,bert:1,gpt2:1,transformer:1] [--rounds 3]

The three ways of the paper's Figures 9 and 10, with its models (`examples/paper_models.py`, MODEL:BATCH) and one step that
the GPU bounds, in inference, on a GPU with PyTorch. Of each model is printed: an iteration without a collector (median, and
the spread of bare against bare over rounds), the same under `cuda.memory:touch`, with tensor copies watched, and under
`cuda.memory:access` with every access in Parquet, what it takes to get the working sets out of the first trace and, on each
engine, out of the second, and whether all three find the same. Iterations follow one of warm-up; seconds of an analysis are of a new process. What each
process took goes to stderr when it ends; one that fails is told there and leaves its column empty, and the rest runs on.

A tensor copy (TMA), as products of matrices in bf16 make them on Hopper, is one access of as many bytes as it reads, from
where it begins: where its rows lie apart, accesses do not tell which bytes, and the transformer's sets by them are others.
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
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pyarrow.parquet as pq

import pasta

MODELS = Path(__file__).parent.parent / "examples" / "paper_models.py"
TRANSFORMER = "transformer"
WIDTH, HEADS, TOKENS = 4096, 32, 2048
ENGINES = ("cpu", "gpu")
TOUCH, ACCESS = "cuda.memory:touch --tensor-loads watched", "cuda.memory:access"
COLUMNS = (
    "model", "bare ms", "bare spread", "touch", "touch: analysis s", "access", "accesses",
    "from accesses, cpu s", "from accesses, gpu s", "largest working set", "equal",
)  # fmt: skip


class Sets(NamedTuple):
    """The working sets of a trace: launches that touch global memory, and the largest and all of their bytes."""

    launches: int
    largest: int
    bytes: int


def main() -> None:
    """Print the table; or, in a process of a run, do the iterations."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", default="resnet18:1,bert:1,gpt2:1,transformer:1")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.out:
        given.out.write_text(json.dumps(iteration_ms(given.models)), encoding="utf-8")
        return
    print(f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}")
    for model in given.models.split(","):
        print(f"| {' | '.join(compared(model, given.rounds))} |", flush=True)


def compared(model: str, rounds: int) -> list[str]:
    """Run a model in all ways and return its row of the table."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        bare = [run(model, None, folder / "bare") for _ in range(rounds)]
        usual = statistics.median(bare)
        touch = run(model, TOUCH, folder / "touch")
        access = run(model, ACCESS, folder / "access")
        reduced = analysed("working_set", folder / "touch", "cpu", folder / "of_touch")
        by_engine = {
            engine: analysed("touch_from_access", folder / "access", engine, folder / engine)
            for engine in ENGINES
        }
        found = {"touch": sets_of(pasta.open(folder / "touch").scan("touch"))}
        for engine, seconds in by_engine.items():
            if seconds is not None:
                found[engine] = sets_of(pl.scan_parquet(folder / engine / "touch.parquet"))
        files = pasta.open(folder / "access").files("access")
        rows = sum(pq.read_metadata(file).num_rows for file in files)
    is_equal = len(found) == 1 + len(ENGINES) and len(set(found.values())) == 1
    return [
        model,
        f"{usual:.2f}",
        f"{min(bare) / usual:.2f}-{max(bare) / usual:.2f}",
        f"{touch / usual:.2f}x",
        shown(reduced),
        f"{access / usual:.1f}x",
        f"{rows:,}",
        *map(shown, by_engine.values()),
        str(found["touch"].largest),
        "yes" if is_equal else f"no: {found}",
    ]


def shown(seconds: float | None) -> str:
    """Return seconds as a cell of the table; nothing where there are none."""
    return "" if seconds is None else f"{seconds:.1f}"


def run(model: str, collector: str | None, folder: Path) -> float:
    """Return the ms of an iteration; with a collector the trace lies in the folder."""
    began = time.perf_counter()
    out = folder.with_suffix(".json")
    command = [sys.executable, __file__, "--models", model, "--out", str(out)]
    if collector:
        watching = ["--with", *collector.split(), "--idle"]
        collect = ["-m", "pasta", "collect", *watching, "-o", str(folder), "--"]
        command = [sys.executable, *collect, *command]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    iteration = float(json.loads(out.read_text(encoding="utf-8")))
    tell(f"{model}, {collector or 'bare'}: {iteration:.2f} ms", began)
    return iteration


def analysed(tool: str, trace: Path, engine: str, out: Path) -> float | None:
    """Return the seconds that a tool takes over a trace, or nothing if it fails; its outputs lie in `out`."""
    command = [sys.executable, "-m", "pasta", "run", tool, "--trace", str(trace)]
    began = time.perf_counter()
    done = subprocess.run(
        [*command, "--engine", engine, "--out", str(out)], check=False, stdout=subprocess.DEVNULL
    )
    seconds = time.perf_counter() - began
    ended = f"failed with exit {done.returncode}" if done.returncode else "done"
    tell(f"{tool} on {engine}: {ended}", began)
    return None if done.returncode else seconds


def tell(what: str, began: float) -> None:
    """Say what a process came to, and how long it took."""
    print(f"{what}, {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)


def sets_of(touch: pl.LazyFrame) -> Sets:
    """Return the working sets that rows of `touch` tell, by whole launches."""
    launches = touch.filter(
        pl.col("pc").is_null(), pl.col("space") == "global", pl.col("unique_bytes") > 0
    )
    size = pl.col("unique_bytes")
    sums = launches.select(pl.len(), size.max().alias("largest"), size.sum().alias("all"))
    return Sets(*sums.collect().row(0))


def iteration_ms(model: str) -> float:
    """Return the ms of the second iteration, which alone is recorded."""
    import torch

    torch.manual_seed(0)  # which rows of an embedding are read is drawn by lot
    name, _, batch = model.partition(":")
    module, inputs = transformer(int(batch)) if name == TRANSFORMER else of_paper(name, int(batch))
    with torch.no_grad():
        module(inputs)
        torch.cuda.synchronize()
        with pasta.region():
            began = time.perf_counter()
            module(inputs)
            torch.cuda.synchronize()
            return (time.perf_counter() - began) * 1e3


def of_paper(name: str, batch: int) -> tuple[Any, Any]:
    """Return one of the paper's models, in evaluation, and a batch for it."""
    specification = importlib.util.spec_from_file_location("paper_models", MODELS)
    models: Any = importlib.util.module_from_spec(specification)  # type: ignore[arg-type]
    sys.modules["paper_models"] = models
    specification.loader.exec_module(models)  # type: ignore[union-attr]
    workload = models.WORKLOADS[name]
    workload = models.Workload(workload.build, (batch, *workload.shape[1:]), workload.tokens)
    return workload.build().cuda().eval(), workload.inputs("cuda")


def transformer(batch: int) -> tuple[Any, Any]:
    """Return two encoder layers in bf16, which keep the GPU busy, and sequences for them."""
    import torch

    placed: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    layers = (
        torch.nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True, **placed
        )
        for _ in range(2)
    )
    return torch.nn.Sequential(*layers).eval(), torch.randn(batch, TOKENS, WIDTH, **placed)


if __name__ == "__main__":
    main()
