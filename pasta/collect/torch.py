"""Record a PyTorch program on any device: operators, modules, phases, storages and touches.

    import pasta.collect.torch

    with pasta.collect.torch.record("run1") as recorder:
        train()
    recorder.trace().scan("span")

Operators are seen below autograd, so that those of the backward pass and of the optimizer are
seen too. What each row means, what recording costs and cannot see: docs/collectors/torch.md.
"""

# ruff: noqa: SLF001 - PyTorch has no public names for what is needed here

from __future__ import annotations

import contextlib
import importlib.util
import os
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pasta.collect import torch_touch
from pasta.collect.target.annotate import add_sink, remove_sink
from pasta.collect.torch_hooks import installed
from pasta.collect.torch_memory import Storages
from pasta.collect.torch_modules import ModuleNames
from pasta.collect.torch_spans import Spans
from pasta.collect.torch_touch import Operand, Signature
from pasta.collect.torch_trace import TorchTrace, world_size
from pasta.errors import CollectError
from pasta.trace import RANK_FOLDER, Trace

NO_SEQUENCE = 1 << 63
"""From here on, an autograd node's number means that its operator has none in forward."""

_recording: Recorder | None = None


@contextlib.contextmanager
def record(name: str, out: str | Path | None = None) -> Iterator[Recorder]:
    """Record what PyTorch does inside the block, as a trace.

    An exception of the program ends the trace properly and passes on. A failure of the recorder
    never reaches the program: the hook that failed is switched off and counted in `loss`.

    Args:
        name: name of the run, which is the outermost span.
        out: folder of the trace; without it `pasta-NAME` in the working directory, or
            `pasta-NAME-rank-00003` where the environment says that there are several ranks.

    Yields:
        The recorder: `step()` inside the block, `path` and `trace()` after it.

    Raises:
        CollectError: PyTorch is not installed, or a recording is running already.
        TraceError: `out` holds something.
    """
    global _recording  # noqa: PLW0603 - PyTorch's hooks are global too
    if _recording is not None:
        raise CollectError(f"record({name!r}): a recording is running already; end it first")
    if importlib.util.find_spec("torch") is None:
        raise CollectError(f"record({name!r}): PyTorch is not installed; pip install torch")
    recorder = _recording = Recorder(name, Path(out) if out else _default_folder(name))
    ended = "exit 0"
    try:
        add_sink(recorder)
        with installed(recorder):
            yield recorder
    except BaseException as error:
        ended = type(error).__name__
        raise
    finally:
        remove_sink(recorder)
        _recording = None
        recorder.finish(ended)


def _default_folder(name: str) -> Path:
    rank = int(os.environ.get("RANK", "0"))
    return Path(f"pasta-{name}" + (f"-{RANK_FOLDER.format(rank)}" if world_size() > 1 else ""))


def _stop_in_child() -> None:
    """Leave the trace to the process that began it."""
    if _recording is not None:
        _recording.abandon()


os.register_at_fork(after_in_child=_stop_in_child)


class Recorder:
    """One recording: turns what PyTorch tells into rows.

    Attributes:
        path: the folder of the trace, absolute, as the program may change its own folder.
    """

    def __init__(self, name: str, path: Path) -> None:
        path = path.absolute()
        self._trace = trace = TorchTrace(name, path)
        self.path = path
        self._guarded = trace.guarded
        self._spans = Spans(name, trace.spans, trace.threads, trace.losses, trace.clock)
        self._storages = Storages(trace.memory, trace.losses, trace.clock, _reserved_bytes)
        self._names = ModuleNames()
        self._steps_by_hand = False
        self._autograd = threading.local()
        self._autograd_sequence()

    def step(self) -> None:
        """Begin a step here; from the first call on, optimizers no longer end steps."""
        self._steps_by_hand = True
        self._guarded("step", self._spans.end_step)

    def trace(self) -> Trace:
        """Open the trace, which is complete once the block has ended."""
        return Trace.open(self.path)

    def begin(self, name: str) -> None:
        """Open an annotation of the calling thread."""
        self._guarded("annotation", self._spans.open, "annotation", name, name)

    def end(self, name: str) -> None:
        """Close an annotation of the calling thread."""
        self._guarded("annotation", self._spans.close, "annotation", name)

    def operator(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run `operator` between two looks at the clock."""
        before = self._guarded("operator", self._before_operator, operator, args, kwargs)
        result = None
        start = self._trace.clock()
        try:
            result = operator(*args, **kwargs)
        finally:
            end = self._trace.clock()
            if before is not None:
                self._guarded("operator", self._after_operator, before, result, start, end)
        self._trace.write_if_due(end)
        return result

    def module_begins(self, module: Any) -> None:
        """Open a module's span; the outermost one opens the forward phase."""
        self._guarded("module", self._open_module, module)

    def module_ends(self, module: Any) -> None:
        """Close a module's span, and the phase that it opened."""
        self._guarded("module", self._close_module, module)

    def backward_begins(self, key: object) -> None:
        """Open the backward phase."""
        self._guarded("backward", self._open_phase, "backward", key)

    def backward_ends(self, key: object) -> None:
        """Close the backward phase."""
        self._guarded("backward", self._spans.close, "phase", key)

    def optimizer_begins(self, optimizer: Any) -> None:
        """Open the optimizer phase."""
        self._guarded("optimizer", self._open_phase, "optimizer", id(optimizer))

    def optimizer_ends(self, optimizer: Any) -> None:
        """Close the optimizer phase, and the step with it."""
        self._guarded("optimizer", self._spans.close, "phase", id(optimizer))
        if not self._steps_by_hand:
            self._guarded("step", self._spans.end_step)

    def abandon(self) -> None:
        """Record no more, and leave the trace as it is."""
        self._trace.active = False

    def finish(self, ended: str) -> None:
        """Close all spans and complete the trace; a failure is a warning to the program."""
        if not self._trace.active:
            return
        self._guarded("span", self._spans.finish)
        self._storages.close()
        try:
            self._trace.finish(ended)
        except Exception as error:  # noqa: BLE001 - whatever it is, the program must go on
            warnings.warn(f"{self.path}: the trace is incomplete: {error}", stacklevel=4)

    def _before_operator(
        self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Signature, list[Operand], int | None]:
        import torch

        with torch._C.DisableTorchFunction():
            called = torch_touch.signature(operator)
            given = torch_touch.operands(called, args, kwargs, self._storages)
            return called, given, self._autograd_sequence()

    def _after_operator(
        self,
        before: tuple[Signature, list[Operand], int | None],
        result: Any,
        start: int,
        end: int,
    ) -> None:
        import torch

        called, given, sequence = before
        with torch._C.DisableTorchFunction():
            inputs = torch_touch.describe(called, given)
            span_id = self._spans.closed(called.name, start, end, sequence, inputs)
            inside = max(start, end - 1)
            found = torch_touch.touches(called, given, result, self._storages, inside)
            torch_touch.append(self._trace.touches, self._trace.losses, span_id, found, end)

    def _autograd_sequence(self) -> int | None:
        """Return the number of the autograd node that runs, or that this operator just got.

        Autograd counts nodes on each thread: an operator got one if the count has gone up since
        the operator before it.
        """
        import torch

        node = torch._C._current_autograd_node()
        if node is not None:
            number = int(node._sequence_nr())
            return number if number < NO_SEQUENCE else None
        following = int(torch.autograd._get_sequence_nr())
        made_a_node = following > getattr(self._autograd, "sequence", following)
        self._autograd.sequence = following
        return following - 1 if made_a_node else None

    def _open_module(self, module: Any) -> None:
        if not self._spans.is_open("module") and self._names.adopt(module):
            for tensor in (*module.parameters(), *module.buffers()):
                storage = self._storages.storage(tensor)
                if storage is not None:
                    self._storages.existing(storage)
        self._open_phase("forward", id(module))
        self._spans.open("module", self._names.name(module), id(module))

    def _close_module(self, module: Any) -> None:
        self._spans.close("module", id(module))
        if not self._spans.is_open("module"):
            self._spans.close("phase", id(module))

    def _open_phase(self, name: str, key: object) -> None:
        if not self._spans.is_open("phase"):
            self._spans.open("phase", name, key)


def _reserved_bytes(device: Any) -> int | None:
    """Return what PyTorch's caching allocator holds on `device`; `None`: it has no such count."""
    import torch

    if device.type != "cuda":
        return None
    statistics = torch.cuda.memory_stats_as_nested_dict(device)
    held: int | None = statistics.get("reserved_bytes", {}).get("all", {}).get("current")
    return held
