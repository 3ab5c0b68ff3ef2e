"""What the pictures of tools are of, where the traces that ship with pasta have nothing to say."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pasta
from docs.pictured.accesses import move_particles, small_kernels, transpose, triangle
from docs.pictured.recorded import (
    python_that_counts,
    runs_on_workers,
    threads_that_count,
    two_hosts,
)
from docs.pictured.runs import (
    blocks_of_memory,
    hung_ranks,
    memory_of_stages,
    miscounted,
    phases_of_a_cpu,
    training_memory,
    without_calls,
)
from pasta.testing import write_trace
from pasta.tools.report import Report
from pasta.tools.shipped import SHIPPED_TRACE
from tests.tools.compared_runs import changed, run_of
from tests.tools.experts_run import experts_run
from tests.tools.flops_run import PEAKS, step_run
from tests.tools.hidden_run import hidden_run
from tests.tools.pipeline_run import pipeline_run
from tests.tools.ranks_run import ranks_run
from tests.tools.run_ahead import run_ahead
from tests.tools.steps_run import steps_run
from tests.tools.varied_run import varied_run

MS = 1_000_000
Tables = dict[str, list[dict[str, Any]]]


class Subject(NamedTuple):
    """What a picture is of.

    Attributes:
        runs: returns the runs by name: their tables, or where they are or are written in the given folder.
        tool: which of the page's tools is asked; empty: the one that the page is called after.
    """

    runs: Callable[[Path], dict[str, Tables | Path]]
    tool: str = ""


def made(
    tables: Callable[..., Tables], *given: Any, **planted: Any
) -> Callable[[Path], dict[str, Tables | Path]]:
    """Return what makes one run by calling `tables`."""
    return lambda _: {"made": tables(*given, **planted)}


def shipped(_: Path) -> dict[str, Tables | Path]:
    """Return the trace of a GPU that ships with pasta."""
    return {"gpt_h100": SHIPPED_TRACE}


def both_shipped(_: Path) -> dict[str, Tables | Path]:
    """Return the two traces that ship with pasta, of one program on a GPU and on a CPU."""
    return {name: SHIPPED_TRACE.with_name(name) for name in ("gpt_h100", "gpt_cpu")}


LATE = {(1, 5): 3 * MS}
"""On rank 1, in step 5: 3 ms."""

SUBJECTS = {
    "block_balance": Subject(made(small_kernels, triangle, transpose)),
    "coalescing": Subject(made(small_kernels)),
    "comm_overlap": Subject(made(hidden_run, 0, {(1, 7): 400_000})),
    "cpu_roofline": Subject(made(phases_of_a_cpu)),
    "critical_path": Subject(made(steps_run, data=LATE, copy={(0, 3): 2 * MS}, host={(2, 2): MS})),
    "data_loading": Subject(made(steps_run, data={(1, step): MS for step in range(2, 8)})),
    "diff": Subject(
        lambda _: {
            "before": run_of(noise=0.02),
            "after": run_of(changed("aten::gelu", "gelu", dur=52_000), noise=0.02, seed=1),
        }
    ),
    "expert_imbalance": Subject(made(experts_run, 0, hot=3)),
    "hang": Subject(made(hung_ranks)),
    "hot_memory": Subject(made(blocks_of_memory)),
    "idle_causes": Subject(made(steps_run, host=LATE, copy={(0, 3): 2 * MS}, communication={(2, 2): MS})),
    "kernel_sequences": Subject(shipped),
    "load_balance": Subject(made(ranks_run, slow={3: 1.12}, more={5: 1})),
    "mem_trace": Subject(made(small_kernels)),
    "memory_by_parallelism": Subject(made(memory_of_stages)),
    "memory_timeline_diff": Subject(
        lambda _: {"before": training_memory(), "after": training_memory(leaks=True)}
    ),
    "model_flops": Subject(lambda _: {"made": step_run(0, peaks=PEAKS)[0]}),
    "pipeline_bubbles": Subject(made(pipeline_run, 0, bubbles=True)),
    "queue_length": Subject(made(run_ahead, 0, late=60)),
    "reuse": Subject(made(small_kernels)),
    "reuse_pairs": Subject(made(small_kernels)),
    "samples": Subject(partial(threads_that_count, off="user")),
    "scaling": Subject(runs_on_workers),
    "sector_heatmap": Subject(made(small_kernels, move_particles)),
    "source": Subject(python_that_counts),
    "stack_levels": Subject(made(without_calls, "gpt_h100")),
    "step_budget": Subject(made(steps_run, data=LATE, communication={(2, step): MS for step in range(8)})),
    "step_time": Subject(made(steps_run, compute=LATE)),
    "stragglers": Subject(made(ranks_run, slow={3: 1.05})),
    "system": Subject(two_hosts),
    "threads": Subject(partial(threads_that_count, off="kernel")),
    "touch_from_access": Subject(made(miscounted)),
    "variability": Subject(made(varied_run, slow_rounds=(1, range(40, 60), 1.2), slow_launch=(0, 20, 3))),
    "variability_causes": Subject(made(varied_run, copies=(0, 0.2, 1.4))),
    "variability_outliers": Subject(made(varied_run, copies=(0, 0.02, 1.6))),
    "working_set_table": Subject(both_shipped),
    "xsp": Subject(shipped, tool="xsp/a14"),
}  # fmt: skip
"""Page -> what its picture is of."""

RECORDED = ("samples", "scaling", "source", "threads")
"""Those whose runs are recorded, which takes time, programs and rights; all others are made, and the same each time."""


def report_of(page: str, folder: Path) -> Report:
    """Return what a tool says of its subject.

    Args:
        page: a key of `SUBJECTS`.
        folder: an empty one, for the traces.
    """
    subject = SUBJECTS[page]
    runs = {
        name: run if isinstance(run, Path) else write_trace(folder / name, **run).path
        for name, run in subject.runs(folder).items()
    }
    return pasta.run(subject.tool or page, runs=runs)
