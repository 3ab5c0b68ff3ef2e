"""`allocations`: what each allocation of a hand-made training run is for."""

from __future__ import annotations

import pasta
from tests.tools.training_run import LIVES, event, memory, steps


def kinds(trace):
    report = pasta.run("allocations", trace=trace)
    rows = report.tables["largest"].select("space", "bytes", "kind", "phase", "operator").rows()
    return {(space, size): (kind, phase, where) for space, size, kind, phase, where in rows}


def test_kinds_follow_from_phases_and_lifetimes(make_trace):
    found = kinds(make_trace(memory=memory(), span=steps()))
    for name, (_, _, _, size) in LIVES.items():
        assert found["tensor", size][0] == name.split(" of ")[0], name
    assert found["tensor", 7][0] == "before the trace"
    assert found["device", 4096][0] == "pool"
    assert found["tensor", 300] == ("activations", "forward", "aten::mm")
    assert len(found) == len(LIVES) + 2


def test_without_phases_nothing_is_claimed(make_trace):
    found = kinds(make_trace(memory=memory()))
    assert {kind for kind, _, _ in found.values()} == {"unknown", "pool", "before the trace"}


def test_stacks_tell_phases(make_trace):
    """The allocation at 20 has no stack: autograd's threads run no Python."""
    rows = [("forward", "model.py"), ("step", "torch/optim/adam.py"), ("main", "train.py")]
    frames = [
        {
            "stack_id": number,
            "depth": 0,
            "function": function,
            "file": file,
            "line": 1,
            "language": "python",
            "library": "",
        }
        for number, (function, file) in enumerate(rows, start=1)
    ]
    memory = [
        event("allocate", 5, 1, 64, stack_id=3),
        event("allocate", 10, 2, 100, stack_id=1),
        event("allocate", 20, 3, 200),
        event("release", 25, 2, 100),
        event("allocate", 30, 4, 300, stack_id=2),
    ]
    found = kinds(make_trace(memory=memory, frame=frames))
    assert {size: found["tensor", size][:2] for size in (64, 100, 200, 300)} == {
        64: ("parameters", None),
        100: ("activations", "forward"),
        200: ("gradients", "backward"),
        300: ("optimizer state", "optimizer"),
    }


def test_a_recorded_snapshot(samples):
    file = samples / "torch_memory" / "magma27_memory_snapshot.pickle"
    rows = pasta.run("allocations", trace=file).tables["kinds_in_order"]
    assert sum(rows["allocations"]) == 1950 + 216
    assert {"activations", "parameters", "pool"} <= set(rows["kind"])
