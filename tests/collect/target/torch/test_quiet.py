from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from pasta.collect.target.torch.quiet import is_quiet  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture
def seen():
    """What `is_quiet` said, wherever it was asked."""
    return []


def ask(seen, value):
    seen.append(is_quiet())
    return value


def test_a_program_and_its_modules_are_quiet(seen):
    class Model(torch.nn.Module):
        def forward(self, x):
            return ask(seen, x + 1)

    @torch.no_grad()
    def infer():
        torch.nn.Sequential(Model(), torch.nn.ReLU(), Model())(torch.ones(2))

    assert is_quiet()
    infer()
    assert seen == [True, True]


def test_an_optimizer_and_a_data_loader_are_quiet(seen):
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    optimizer.register_step_pre_hook(lambda *_: ask(seen, None))
    optimizer.step()
    list(torch.utils.data.DataLoader([1, 2], collate_fn=lambda batch: ask(seen, batch)))
    assert seen == [True, True, True]


def test_what_an_operator_calls_is_not(seen):
    class Function(torch.autograd.Function):
        @staticmethod
        def forward(_, x):
            return ask(seen, x * 2)

        @staticmethod
        def backward(_, gradient):
            return ask(seen, gradient)

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
            return ask(seen, operator(*args, **(kwargs or {})))

    Function.apply(torch.ones(2, requires_grad=True)).sum().backward()
    with Mode():
        torch.ones(2) + 1
    assert len(seen) == 4
    assert not any(seen)


def test_what_a_backward_pass_calls_is_not(seen):
    x = torch.ones(2, requires_grad=True)
    x.register_hook(lambda gradient: ask(seen, gradient))
    checkpoint(lambda x: ask(seen, x).exp(), x, use_reentrant=False).sum().backward()
    assert len(seen) == 3  # forward, forward again, and the hook
    assert not any(seen)


def test_nothing_is_where_hooks_save_tensors_for_operators(seen):
    with torch.autograd.graph.saved_tensors_hooks(lambda x: ask(seen, x), lambda x: x):
        torch.ones(2, requires_grad=True).exp()
        assert not is_quiet()
    assert seen == [False]
    assert is_quiet()
