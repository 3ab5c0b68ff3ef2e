"""`call_stacks` joins the frames of each stack, outermost first."""

from __future__ import annotations

import polars as pl
import pytest

from pasta.errors import ConfigError
from pasta.pipeline.stages.call_stacks import call_stacks

COLUMNS = ("rank", "pid", "stack_id", "depth", "function", "file", "line", "language", "library")


def texts(*rows):
    frames = pl.DataFrame(rows, schema=COLUMNS, orient="row").with_columns(
        pl.col("stack_id").cast(pl.UInt64), pl.col("file", "library").cast(pl.String)
    )
    return call_stacks(frames.lazy()).collect().rows()


def python(stack, depth, function, line, *, pid=1):
    return (0, pid, stack, depth, function, "/src/train.py", line, "python", "")


def native(stack, depth, function, library="libtorch.so"):
    return (0, 1, stack, depth, function, "", 0, "c++", library)


def test_frames_are_joined_in_order_by_stack_and_process():
    assert texts(
        python(2, 1, "step", 9),
        python(2, 0, "main", 3),
        python(1, 0, "main", 4),
        python(2, 0, "worker", 5, pid=2),
        python(2, 1, "step", 9),
    ) == [
        (0, 1, 1, "main (train.py:4)"),
        (0, 1, 2, "main (train.py:3) > step (train.py:9)"),
        (0, 2, 2, "worker (train.py:5)"),
    ]


@pytest.mark.parametrize(
    ("function", "short"),
    [
        ("main", "main"),
        ("at::_ops::mm::call(at::Tensor const&, at::Tensor const&)", "at::_ops::mm::call"),
        (
            "void at::(anonymous namespace)::launch<4, std::pair<int, long> >(int) const",
            "void at::launch",
        ),
        ("libcudart.so.13+0x1f", "libcudart.so.13+0x1f"),
    ],
)
def test_names_of_cxx_lose_what_stands_in_brackets(function, short):
    assert texts(native(1, 0, function)) == [(0, 1, 1, short)]


def test_native_frames_begin_inside_of_python():
    stack = [
        native(1, 0, "main", "python3.11"),
        native(1, 1, "run", "libtorch.so"),
        native(1, 2, "_PyEval_EvalFrameDefault", "libpython3.11.so.1.0"),
        native(1, 3, "at::mm", "libtorch_python.so"),
        native(1, 4, "cudaLaunchKernel", "libcudart.so.13"),
    ]
    assert texts(*stack) == [(0, 1, 1, "at::mm > cudaLaunchKernel")]


def test_what_is_no_table_of_frames_is_refused():
    with pytest.raises(ConfigError, match="needs column"):
        call_stacks(pl.LazyFrame({"depth": [0]}))


def test_texts_for_flame_graphs_are_whole_and_have_no_lines():
    frames = pl.DataFrame(
        [
            native(1, 0, "_start", "python3.12"),
            native(1, 1, "a;b(int)", "x.so"),
            python(2, 0, "main", 3),
            python(2, 1, "step", 9),
        ],
        schema=COLUMNS,
        orient="row",
    ).with_columns(pl.col("stack_id").cast(pl.UInt64), pl.col("file", "library").cast(pl.String))
    found = call_stacks(frames.lazy(), separator=";", places=False, whole=True).collect()
    assert found["call_stack"].to_list() == ["_start;a,b", "main;step"]
