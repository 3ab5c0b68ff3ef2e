"""Where PyTorch tells of ranges: module and optimizer hooks, and the entrances to backward."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, Protocol


class Listener(Protocol):
    """What hears of it; it must not raise."""

    def module_begins(self, module: Any) -> None:
        """Take note that the forward call of `module` begins."""

    def module_ends(self, module: Any) -> None:
        """Take note that it has ended, by an exception or not."""

    def backward_begins(self, key: object) -> None:
        """Take note that a backward pass begins."""

    def backward_ends(self, key: object) -> None:
        """Take note that it has ended, by an exception or not."""

    def optimizer_begins(self, optimizer: Any) -> None:
        """Take note that `optimizer.step()` begins."""

    def optimizer_ends(self, optimizer: Any) -> None:
        """Take note that it has ended; an exception in it is not told."""


@contextlib.contextmanager
def installed(listener: Listener) -> Iterator[None]:
    """Let `listener` hear of everything inside the block, on all threads."""
    from torch.nn.modules import module as modules
    from torch.optim import optimizer as optimizers

    handles = [
        modules.register_module_forward_pre_hook(
            lambda module, _inputs: listener.module_begins(module)
        ),
        modules.register_module_forward_hook(
            lambda module, _inputs, _output: listener.module_ends(module), always_call=True
        ),
        optimizers.register_optimizer_step_pre_hook(
            lambda optimizer, _args, _kwargs: listener.optimizer_begins(optimizer)
        ),
        optimizers.register_optimizer_step_post_hook(
            lambda optimizer, _args, _kwargs: listener.optimizer_ends(optimizer)
        ),
    ]
    with contextlib.ExitStack() as stack:
        for handle in handles:
            stack.callback(handle.remove)
        stack.enter_context(_backward_told(listener))
        yield


@contextlib.contextmanager
def _backward_told(listener: Listener) -> Iterator[None]:
    """Wrap the two entrances to the backward pass: `Tensor.backward` uses the first."""
    from torch import autograd

    originals = {name: getattr(autograd, name) for name in ("backward", "grad")}
    wrapped = {name: _told(function, listener) for name, function in originals.items()}
    for name, function in wrapped.items():
        setattr(autograd, name, function)
    try:
        yield
    finally:
        for name, function in wrapped.items():
            if getattr(autograd, name) is function:
                setattr(autograd, name, originals[name])


def _told(function: Callable[..., Any], listener: Listener) -> Callable[..., Any]:
    @functools.wraps(function)
    def told(*args: Any, **kwargs: Any) -> Any:
        key = object()
        listener.backward_begins(key)
        try:
            return function(*args, **kwargs)
        finally:
            listener.backward_ends(key)

    return told
