"""Compare what pasta and HolisticTraceAnalysis say of the same traces, with the raw events as judge.

    python -m venv hta && hta/bin/pip install HolisticTraceAnalysis==0.5.0 'pandas<3'
    PYTHONPATH=. python benchmarks/against_hta.py hta/bin/python SAMPLES

SAMPLES is the folder of real traces (`kineto`, `kineto_multirank`). Every figure is computed three
times: by a tool of pasta, by HTA, and from the raw events by a few lines that share nothing with
either (`hta_figures`). Where HTA differs, the raw events are computed again under rules of HTA, until
they give its number. Ends with 1 where pasta differs from the raw events, or a difference of HTA's
remains unexplained. `--all` prints the figures too in which all three agree; `--of NAME` takes the sets so named.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from hta_figures import ours, raw, together
from hta_figures.figures import Row, rows

from pasta.collect.importing import import_trace

SETS = {
    "BERT on H100": ["kineto/tracelens_h100_bert_small.json.gz"],
    "BERT on MI300": ["kineto/tracelens_mi300_bert_small.json.gz"],
    "training on MI250": ["kineto/hta_mi250_minitoy_rocm6.2.json.gz"],
    "MI210, GPU only": ["kineto/tracelens_mi210_gpu_only.json.gz"],
    "HIP graph on MI300": ["kineto/tracelens_sglang_decode_hipgraph.json.gz"],
    "B200, rank 0 of 8": ["kineto/tracelens_b200_eager_rank0of8.json.gz"],
    "torch.compile on ROCm": ["kineto/tracelens_torch_compile_triton.json.gz"],
    "Triton kernel": ["kineto/hta_triton_example.json.gz"],
    "AlexNet": ["kineto/hta_alexnet_critical_path.json.gz"],
    "events between streams": ["kineto/hta_cuda_event_sync_multi_stream.json.gz"],
    "NCCL, rank of 2": ["kineto/hta_nccl_data.json.gz"],
    "nanoseconds": ["kineto/hta_ns_resolution_rank0.json.gz"],
    "CUDA graphs, rank 0 of 16": ["kineto/hta_negative_queue_cudagraph_rank0.json.gz"],
    "rank 3 of 8": ["kineto/hta_diff_control.json.gz"],
    "ResNet": ["kineto/param_resnet_kineto.json.gz"],
    "ranks 0 and 1 of 128": [f"kineto_multirank/hta_sampled_rank{rank}.json.gz" for rank in (0, 1)],
    "DLRM, 8 ranks": ["kineto_multirank/param_dlrm_8rank_kineto.tar.gz"],
    "DLRM, as NCCL names kernels today": ["kineto_multirank/param_dlrm_8rank_kineto.tar.gz"],
}
TODAY = (b"ncclKernel_", b"ncclDevKernel_")
_SIDE = Path(__file__).parent / "hta_figures" / "in_hta.py"


def files_of(name: str, samples: Path, folder: Path) -> list[Path]:
    """Return the files of a set, one for each rank; an archive is unpacked."""
    names = SETS[name]
    if not names[0].endswith(".tar.gz"):
        return [samples / file for file in names]
    with tarfile.open(samples / names[0]) as archive:
        archive.extractall(folder, filter="data")
    files = sorted(folder.rglob("*.json"))
    if name.endswith("today"):
        for file in files:
            file.write_bytes(file.read_bytes().replace(*TODAY))
    return files


def said_by_hta(python: str, files: list[Path]) -> dict[str, Any]:
    """Return what HTA says of a set."""
    run = subprocess.run([python, str(_SIDE), *map(str, files)], capture_output=True, text=True, check=True)  # fmt: skip
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def compared(files: list[Path], said: dict[str, Any], folder: Path) -> list[tuple[str, Row]]:
    """Return all rows of a set, with the rank of each."""
    events = [raw.read(file) for file in files]
    traces = [folder / f"rank{rank}" for rank in range(len(files))]
    found: list[tuple[str, Row | None]] = []
    for rank, (file, trace) in enumerate(zip(files, traces, strict=True)):
        import_trace([file], trace)
        mine, theirs = ours.figures(trace), said.get("ranks", {}).get(str(rank), {})
        of_rank: list[Row | None] = [*rows(events[rank], mine, theirs)]
        if isinstance(theirs.get("patterns"), list):
            of_rank.append(together.pattern(events[rank], trace, theirs["patterns"]))
        if "length" in theirs.get("critical_path", {}):
            of_rank.append(together.path(events[rank], mine.get("critical path"), theirs["critical_path"]))  # fmt: skip
        found += [(str(rank), one) for one in of_rank]
    if len(files) > 2:
        import_trace(files, folder / "all", ranks=list(range(len(files))))
        found.append(("all", together.stragglers(events, folder / "all", said["stragglers"])))
    if len(files) == 2:
        found += [("both", one) for one in together.changes(events, traces, said["changes"])]
    return [(rank, one) for rank, one in found if one is not None]


def shown(value: object) -> str:
    """Return a value as text."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.6g}" if isinstance(value, float) else "none" if value is None else str(value)


def options() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("python", help="the Python of an environment with HolisticTraceAnalysis")
    parser.add_argument("samples", type=Path, help="the folder of real traces")
    parser.add_argument("--all", action="store_true", help="print figures in which all agree, too")
    parser.add_argument(
        "--of", action="append", choices=SETS, help="only this set; may be repeated"
    )
    return parser.parse_args()


def main() -> int:
    """Print a table for each set, and how many figures are right and explained."""
    asked = options()
    found: list[Row] = []
    for name in asked.of or SETS:
        with tempfile.TemporaryDirectory() as folder:
            files = files_of(name, asked.samples, Path(folder) / "files")
            said = said_by_hta(asked.python, files)
            figures = compared(files, said, Path(folder))
        print(f"\n## {name}{': ' + said['error'] if 'error' in said else ''}\n")
        print("| rank | figure | pasta | raw events | HTA | why HTA differs |\n| --- | --- | --- | --- | --- | --- |")  # fmt: skip
        for rank, one in figures:
            if asked.all or not (one.right and one.hta_right):
                mark = "" if one.right else " (WRONG)"
                why = "NOT EXPLAINED" if one.why is None else one.why
                print(f"| {rank} | {one.figure} | {shown(one.ours)}{mark} | {shown(one.truth)} | {shown(one.hta)} | {why} |", flush=True)  # fmt: skip
        found += [one for _, one in figures]
    right, theirs = sum(one.right for one in found), sum(one.hta_right for one in found)
    unexplained = sum(one.why is None for one in found if not one.hta_right)
    print(f"\n{said['versions']}: of {len(found)} figures pasta has {right} as the raw events, HTA {theirs}; {unexplained} differences are not explained")  # fmt: skip
    return int(right < len(found) or unexplained > 0)


if __name__ == "__main__":
    sys.exit(main())
