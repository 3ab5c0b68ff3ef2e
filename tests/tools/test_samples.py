"""`samples` on stacks whose weights are worked out by hand, and on random ones against plain Python."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pasta
from tests.conftest import write_trace
from tests.tools.flame_paths import paths_of


def stack(number, *functions, pid=1):
    return [
        {"pid": pid, "stack_id": number, "depth": depth, "function": function, "file": "", "line": depth, "language": "c", "library": "a.out"}
        for depth, function in enumerate(functions)
    ]  # fmt: skip


def sample(stack_id, weight, kind="on_cpu", tid=1, **more):
    return {"tid": tid, "ts": 5, "kind": kind, "stack_id": stack_id, "weight": weight, **more}


FRAMES = [
    *stack(1, "main", "fib", "fib", "fib"),
    *stack(2, "main", "fib"),
    *stack(3, "main", "read;all"),
    *stack(1, "other", pid=2),
]
SAMPLES = [
    sample(1, 30.0),
    sample(1, 10.0, tid=2),
    sample(2, 20.0, ts=None),
    sample(0, 15.0),
    sample(1, 25.0, pid=2),
    sample(3, 700.0, kind="off_cpu"),
    sample(2, 300.0, kind="off_cpu"),
]


def functions(report):
    rows = report.tables["most_self"].select("kind", "function", "self_weight", "total_weight", "samples")  # fmt: skip
    return {row[:2]: row[2:] for row in rows.iter_rows()}


def test_functions_by_hand(make_trace):
    """`fib` calls itself: its total counts each sample once, and it is not the sum of its frames."""
    report = pasta.run("samples", trace=make_trace(sample=SAMPLES, frame=FRAMES))
    assert functions(report) == {
        ("on_cpu", "main"): (0, 60, 3),
        ("on_cpu", "fib"): (60, 60, 3),
        ("on_cpu", "(no stack)"): (15, 15, 1),
        ("on_cpu", "other"): (25, 25, 1),
        ("off_cpu", "main"): (0, 1_000, 2),
        ("off_cpu", "fib"): (300, 300, 1),
        ("off_cpu", "read;all"): (700, 700, 1),
    }
    shares = report.tables["most_self"].group_by("kind").agg(pl.col("self_share").sum())
    assert shares["self_share"].to_list() == pytest.approx([1, 1])


def test_findings_name_the_heaviest_of_each_kind(make_trace):
    report = pasta.run("samples", trace=make_trace(sample=SAMPLES, frame=FRAMES))
    assert report.findings == [
        "read;all itself has 70.0 % of the weight of kind off_cpu, with what it calls 70.0 %",
        "fib itself has 60.0 % of the weight of kind on_cpu, with what it calls 60.0 %",
        "of 5 samples of kind on_cpu 1 has no stack, 0 no weight",
    ]


def test_threads_and_processes(make_trace):
    names = [{"tid": 1, "name": "MainThread"}]
    report = pasta.run("samples", trace=make_trace(sample=SAMPLES, frame=FRAMES, thread=names))
    rows = report.tables["busiest"].filter(kind="on_cpu")
    found = {row[:2]: row[2:] for row in rows.select("pid", "tid", "thread", "weight", "share", "process_share").iter_rows()}  # fmt: skip
    assert found == {
        (1, 1): ("MainThread", 65, 0.65, 0.75),
        (1, 2): (None, 10, 0.1, 0.75),
        (2, 1): (None, 25, 0.25, 0.25),
    }


def test_paths_keep_kinds_apart(make_trace, tmp_path):
    """Names are never split: `read;all` is one frame."""
    trace = make_trace(sample=SAMPLES, frame=FRAMES)
    report = pasta.run("samples", trace=trace, out=tmp_path / "out")
    on_cpu, off_cpu = (
        paths_of(pl.read_parquet(next((tmp_path / "out").rglob(f"{kind}*.parquet"))), "own_weight")
        for kind in ("on_cpu", "off_cpu")
    )
    assert on_cpu == {
        ("main", "fib", "fib", "fib"): 40,
        ("main", "fib"): 20,
        ("other",): 25,
        ("(no stack)",): 15,
    }
    assert off_cpu == {("main", "read;all"): 700, ("main", "fib"): 300}
    assert report.tables["kinds"].select("kind", "without_time").rows() == [("off_cpu", 0), ("on_cpu", 1)]  # fmt: skip


def test_samples_without_weights_count_as_one(make_trace):
    trace = make_trace(sample=[sample(1, None), sample(2, None), sample(0, 3.0, "bytes")], frame=FRAMES)  # fmt: skip
    report = pasta.run("samples", trace=trace)
    assert functions(report)["on_cpu", "fib"] == (2, 2, 2)
    assert functions(report)["bytes", "(no stack)"] == (3, 3, 1)


NAMES = st.lists(st.sampled_from("abc"), min_size=1, max_size=5)


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(NAMES, min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9), st.sampled_from(["on_cpu", "x"])), min_size=1, max_size=12),
)  # fmt: skip
def test_against_plain_python(tmp_path_factory, stacks, rows):
    frames = [frame for number, names in enumerate(stacks, start=1) for frame in stack(number, *names)]  # fmt: skip
    samples = [sample(number, float(weight), kind) for number, weight, kind in rows]
    trace = write_trace(tmp_path_factory.mktemp("t") / "t", sample=samples, frame=frames)
    expected: dict[tuple[str, str], list[float]] = {}
    for number, weight, kind in rows:
        names = stacks[number - 1] if 0 < number <= len(stacks) else ["(no stack)"]
        for name in set(names):
            sums = expected.setdefault((kind, name), [0.0, 0.0, 0])
            sums[0] += weight if name == names[-1] else 0
            sums[1] += weight
            sums[2] += 1
    found = functions(pasta.run("samples", trace=trace, top=100))
    assert found == {key: tuple(sums) for key, sums in expected.items()}
