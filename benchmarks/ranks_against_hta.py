"""Compare what `comm_overlap` and `stragglers` say of ranks with HolisticTraceAnalysis.

    python -m venv hta && hta/bin/pip install HolisticTraceAnalysis
    python benchmarks/ranks_against_hta.py hta/bin/python RANK0.json RANK1.json ...

Plain Kineto files of all ranks, in their order. Each is looked at as it is, and again with kernels
named as NCCL of today names them, `ncclDevKernel_` for `ncclKernel_`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pasta
from pasta.collect.importing import import_trace

_HTA = """
import json, logging, sys
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files=dict(enumerate(sys.argv[1:])), trace_dir="/")
overlap = analysis.get_comm_comp_overlap(visualize=False)
try:
    stragglers = [int(rank) for rank in analysis.get_potential_stragglers()]
except Exception as error:
    stragglers = repr(error)
shares = dict(zip(overlap["rank"].tolist(), overlap["comp_comm_overlap_pctg"].tolist()))
print(json.dumps({"overlap": shares, "stragglers": stragglers}))
"""


def hta(python: str, files: list[Path]) -> tuple[dict[int, float], object]:
    """Return the hidden share of each rank's communication in percent, and the stragglers."""
    run = subprocess.run([python, "-c", _HTA, *map(str, files)], capture_output=True, text=True, check=False)  # fmt: skip
    if run.returncode:
        return {}, run.stderr.strip().splitlines()[-1]
    found = json.loads(run.stdout.splitlines()[-1])
    return {int(rank): share for rank, share in found["overlap"].items()}, found["stragglers"]


def ours(files: list[Path], folder: Path) -> tuple[dict[int, float], list[str]]:
    """Return the same of pasta, with the findings of `stragglers`."""
    import_trace(files, folder, ranks=list(range(len(files))))
    ranks = pasta.run("comm_overlap", trace=folder).tables["ranks"]
    shares = dict(zip(ranks["rank"].to_list(), ranks["hidden_share"].to_list(), strict=True))
    findings = pasta.run("stragglers", trace=folder).findings
    return {rank: round(100 * share, 2) for rank, share in sorted(shares.items())}, findings


def main() -> None:
    """Compare on the files as they are, and renamed."""
    python, files = sys.argv[1], [Path(name).absolute() for name in sys.argv[2:]]
    with tempfile.TemporaryDirectory() as folder:
        renamed = [Path(folder) / f"rank{rank}.json" for rank in range(len(files))]
        for file, copy in zip(files, renamed, strict=True):
            copy.write_bytes(file.read_bytes().replace(b"ncclKernel_", b"ncclDevKernel_"))
        for label, given in (("as they are", files), ("as ncclDevKernel_", renamed)):
            print(f"{label}: HTA: {hta(python, given)}")
            print(f"{label}: pasta: {ours(given, Path(folder) / label.replace(' ', '_'))}")


if __name__ == "__main__":
    main()
