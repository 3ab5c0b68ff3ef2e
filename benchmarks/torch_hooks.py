"""Measure what each hook of the PyTorch collector adds to an operator, in turn, on one thread.

python benchmarks/torch_hooks.py

The channel is read by a process of its own. Kineto's cycle is one measurement long: it begins, the
work runs, it ends and its file is written. Events of Kineto and of the native hook contain operators
inside of operators and memory; the dispatch mode sees only what runs below autograd.
"""

# ruff: noqa: SLF001 - PyTorch has no public names for a profiler in cycles

from __future__ import annotations

import contextlib
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.autograd import ProfilerActivity, ProfilerConfig, ProfilerState

from pasta.collect.channel import SHARED_MEMORY
from pasta.collect.target.torch import native
from pasta.collect.torch import record

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import record_training_step as example

REPEATS = 11
CALLS = 2000
READER = """
import sys, threading
from pasta.collect.channel import Channel
from pasta.collect.wire import WIRE_TABLES
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
with Channel.create("hooks", tables=WIRE_TABLES) as channel:
    print(channel.folder, flush=True)
    while not ended.is_set():
        batch = channel.wait(0.1)
        if batch is not None:
            batch.release()
    print(channel.losses(), file=sys.stderr) if channel.losses() else None
"""

Hook = Callable[[], contextlib.AbstractContextManager[Any]]


@contextlib.contextmanager
def dispatch_mode() -> Iterator[None]:
    """The recorder of level `touch`."""
    with tempfile.TemporaryDirectory() as folder, record("cost", Path(folder) / "trace"):
        yield


@contextlib.contextmanager
def kineto() -> Iterator[None]:
    """A cycle of PyTorch's own profiler on the CPU, with its file."""
    # Shapes and memory; no stacks, flops or modules.
    switches = (True, True, False, False, False)
    try:
        details = _ExperimentalConfig(trace_only=True)
    except TypeError:  # PyTorch is older than this saving
        details = _ExperimentalConfig()
    config = ProfilerConfig(ProfilerState.KINETO, *switches, details)
    torch.autograd._prepare_profiler(config, {ProfilerActivity.CPU})
    torch.autograd._enable_profiler(config, {ProfilerActivity.CPU})
    yield
    result = torch.autograd._disable_profiler()
    path = SHARED_MEMORY / f"pasta-hooks-{os.getpid()}.json"
    result.save(str(path))
    path.unlink()


class Native:
    """The native hook, started once."""

    def __init__(self, folder: str) -> None:
        operators, reason = native.load()
        if operators is None:
            raise SystemExit(reason)
        self.operators = operators
        operators.start(folder, 0, 0)
        operators.pause()

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record inside the block, up to the last row's commit."""
        self.operators.resume()
        yield
        self.operators.flush()
        self.operators.pause()


def seconds(hook: Hook, work: Callable[[], None], *, whole: bool) -> float:
    """Return how long `work` took under `hook`, with the hook's own begin and end if `whole`."""
    begin = time.perf_counter()
    with hook():
        start = time.perf_counter()
        work()
        end = time.perf_counter()
    return time.perf_counter() - begin if whole else end - start


def compare(name: str, work: Callable[[], None], unit: float, hooks: dict[str, Hook]) -> None:
    """Print the medians of `work` under each hook, alternating, in units of `unit` seconds."""
    times: dict[str, list[float]] = {label: [] for label in hooks}
    for _ in range(REPEATS):
        for label, hook in hooks.items():
            times[label].append(seconds(hook, work, whole=label.endswith("whole")) / unit)
    cells = [f"{statistics.median(values):12.2f}" for values in times.values()]
    print(f"{name:<28}", *cells, flush=True)


def calls_of(operator: Callable[[], object]) -> Callable[[], None]:
    """Return a function that calls `operator` `CALLS` times."""

    def calls() -> None:
        for _ in range(CALLS):
            operator()

    return calls


def main() -> None:
    """Print the figures."""
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, Python {platform.python_version()}, one thread")
    a, b, views = torch.ones(64, 64), torch.ones(64, 64), torch.ones(64, 192)
    operators = {
        "view": lambda: a.view(4096),
        "add": lambda: a + b,
        "add_": lambda: a.add_(b),
        "add of two slices": lambda: views[:, :64] + views[:, 64:128],
    }
    model = example.GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    example.train(model, optimizer)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", READER]
    with subprocess.Popen(command, env=environment, **pipes) as reader:
        hook = Native(reader.stdout.readline().strip())  # type: ignore[union-attr]
        hooks: dict[str, Hook] = {
            "alone": contextlib.nullcontext,
            "native": hook.recording,
            "native whole": hook.recording,
            "Kineto": kineto,
            "Kineto whole": kineto,
            "dispatch": dispatch_mode,
        }
        print(f"{'':<28}", *(f"{label:>12}" for label in hooks))
        for name, operator in operators.items():
            compare(f"{name}, us", calls_of(operator), CALLS * 1e-6, hooks)
        before = hook.operators.counters()
        with hook.recording():
            example.train(model, optimizer)
        after = hook.operators.counters()
        compare("three GPT steps, ms", lambda: example.train(model, optimizer), 1e-3, hooks)
        counted = {name: after[name] - before[name] for name in after}
        print(f"three GPT steps: {counted['events']} operators, {counted['rows']} rows")
        total = hook.operators.counters()
        print(f"in callbacks, by their own clock: {total['callback_ns'] / total['events']:.0f} ns")
        hook.operators.stop()
        reader.stdin.close()  # type: ignore[union-attr]


if __name__ == "__main__":
    main()
