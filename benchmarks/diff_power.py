"""Measure the smallest slow-down of one kernel that `diff` finds in 95 of 100 seeds, and false alarms.

    PYTHONPATH=. python benchmarks/diff_power.py [--steps 12 30] [--noise 0.02] [--seeds 100] [--clean 200]

The runs are those of `tests/tools/compared_runs.py`: steps of six operators with one kernel each, whose
times vary by a lognormal factor. Found means that the one that grew, `aten::gelu`, is significant, and no
other operator is. Pairs of equal runs, in which nothing may be significant, come first.
"""

from __future__ import annotations

import argparse
import tempfile
from bisect import bisect_left
from pathlib import Path

import pasta
from pasta.testing import write_trace
from tests.tools.compared_runs import OPERATORS, Operator, changed, run_of

GROWN = next(operator for operator in OPERATORS if operator.name == "aten::gelu")
TRIED = (0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.045, 0.05, 0.055, 0.06, 0.07, 0.08, 0.1, 0.12, 0.15, 0.2)  # fmt: skip
WANTED = 0.95


def significant(after: tuple[Operator, ...], seed: int, steps: int, noise: float) -> list[str]:
    """Return what is significant in a pair of runs: kinds, and names of operators."""
    with tempfile.TemporaryDirectory() as folder:
        pairs = {"before": OPERATORS, "after": after}
        runs = {
            name: write_trace(Path(folder) / name, **run_of(operators, steps=steps, noise=noise, seed=2 * seed + n))
            for n, (name, operators) in enumerate(pairs.items())
        }  # fmt: skip
        tables = pasta.run("diff", runs=runs, top=10**9).tables
    return [
        row["operator"] or row["kind"]
        for name in ("totals", "operators", "kernels", "modules", "places")
        for row in tables[name].filter(verdict="significant").to_dicts()
    ]


def measure(seeds: int, clean: int, steps: int, noise: float) -> None:
    """Print false alarms, and the smallest growth that is found often enough, by bisection."""
    said = f"{steps} and {steps} steps, noise {noise:.1%}"
    alarms = sum(bool(significant(OPERATORS, seed, steps, noise)) for seed in range(clean))
    print(f"{said}: something significant in {alarms} of {clean} pairs of equal runs", flush=True)

    def suffices(growth: float) -> bool:
        after = changed(GROWN.name, GROWN.kernel, dur=round(GROWN.dur * (1 + growth)))
        found = [set(significant(after, seed, steps, noise)) for seed in range(seeds)]
        right = sum(names - {"whole", "step", "module"} == {GROWN.name} for names in found)
        print(f"{said}: growth of {growth:.1%} found in {right} of {seeds}", flush=True)
        return right >= WANTED * seeds

    bisect_left(TRIED, x=True, key=suffices)


def main() -> None:
    """Measure for each number of steps and noise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, nargs="+", default=[12, 30])
    parser.add_argument("--noise", type=float, nargs="+", default=[0.02])
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--clean", type=int, default=200)
    given = parser.parse_args()
    for steps in given.steps:
        for noise in given.noise:
            measure(given.seeds, given.clean, steps, noise)


if __name__ == "__main__":
    main()
